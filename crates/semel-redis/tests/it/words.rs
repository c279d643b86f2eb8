//! Short words for what the tests do to a store.

use std::{
    fmt::Debug,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use semel::{
    Fingerprint, IntentId, Key, Operation, Outcome, Permit, Scope, Store, StoreError,
    StoreErrorKind, Tenant, Timestamp, Token,
    decide::{Ask, Compare, Finish, FinishKind, OnLost, Refusal, ReleaseAsk},
    store::{ClaimAnswer, Completed},
};

pub(crate) const LEASE: Duration = Duration::from_secs(60);
pub(crate) const REPLAY: Duration = Duration::from_secs(3_600);
pub(crate) const REMEMBER: Duration = Duration::from_secs(7_200);

pub(crate) fn token() -> Token {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = u128::from(NEXT.fetch_add(1, Ordering::Relaxed));
    Token::from_bytes((number << 64 | u128::from(std::process::id())).to_be_bytes())
}

pub(crate) fn id(key: &str) -> IntentId {
    let scope = Scope::new(Tenant::new("acme").unwrap(), Operation::new("pay").unwrap());
    scope.intent(Key::new(key).unwrap())
}

pub(crate) fn ask(id: &IntentId) -> Ask {
    Ask {
        id: id.clone(),
        token: token(),
        fingerprint: Fingerprint::of_bytes(b"pay 10"),
        older: Vec::new(),
        not_after: Timestamp::MAX,
        lease: LEASE,
        on_lost: OnLost::Hold,
        compare: Compare::Strict,
        claimed_by: Some("request-1".into()),
    }
}

pub(crate) fn done(body: &str) -> Finish {
    Finish {
        kind: FinishKind::Done,
        outcome: Some(Outcome::new(201, body.to_owned()).pointer("payment", "7")),
        reason: None,
        replay_for: REPLAY,
        remember_for: REMEMBER,
    }
}

pub(crate) fn given_back(permit: &Permit, reason: &str) -> ReleaseAsk {
    ReleaseAsk {
        token: permit.token,
        fence: Some(permit.fence),
        compare: false,
        reason: Some(reason.into()),
        remember_for: REMEMBER,
    }
}

pub(crate) async fn claim(store: &impl Store, ask: &Ask) -> Result<ClaimAnswer, StoreError> {
    Ok(store.claim(vec![ask.clone()]).await?.remove(0).answer)
}

#[track_caller]
pub(crate) fn granted(answer: ClaimAnswer) -> Permit {
    match answer {
        ClaimAnswer::Granted { permit, .. } => permit,
        other => panic!("not granted: {other:?}"),
    }
}

pub(crate) async fn hold(store: &impl Store, id: &IntentId) -> Permit {
    granted(claim(store, &ask(id)).await.unwrap())
}

pub(crate) async fn finished(store: &impl Store, id: &IntentId) -> Permit {
    let permit = hold(store, id).await;
    let completed = store.complete(permit.clone(), done("paid")).await.unwrap();
    assert_eq!(completed, Completed::Stored);
    permit
}

#[track_caller]
pub(crate) fn in_progress(answer: &ClaimAnswer) {
    assert!(matches!(answer, ClaimAnswer::Refused(Refusal::InProgress { .. })), "{answer:?}");
}

/// The error says this kind, and its sentence these words.
#[track_caller]
pub(crate) fn fails<T: Debug>(result: Result<T, StoreError>, kind: StoreErrorKind, words: &[&str]) {
    let error = result.expect_err("it fails");
    assert_eq!(error.kind(), kind, "{error:?}");
    for word in words {
        assert!(error.to_string().contains(word), "{error} does not say {word}");
    }
}
