//! Short words for what tests ask of a store.

use std::{
    future::Future,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use semel::{
    Fingerprint, IntentId, Key, Operation, Outcome, Permit, Refusal, Scope, Store, StoreError,
    Tenant, Timestamp, Token,
    decide::{Ask, Compare, Finish, FinishKind, OnLost, ReleaseAsk, ResolveAsk, Verdict},
    store::{Actor, ClaimAnswer, Renew},
};
use semel_postgres::PostgresStore;

pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// How long something may take that is sure to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn id(key: &str) -> IntentId {
    let scope = Scope::new(Tenant::new("acme").unwrap(), Operation::new("pay").unwrap());
    scope.intent(Key::new(key).unwrap())
}

pub(crate) fn token() -> Token {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = u128::from(NEXT.fetch_add(1, Ordering::Relaxed));
    Token::from_bytes(((number << 64) | 0x5e3e1).to_be_bytes())
}

/// Asks with a lease of 30 s, hold, and no hurry.
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
        claimed_by: None,
    }
}

pub(crate) fn rerun(id: &IntentId) -> Ask {
    Ask { on_lost: OnLost::Rerun, ..ask(id) }
}

pub(crate) fn done(status: u16) -> Finish {
    Finish {
        kind: FinishKind::Done,
        outcome: Some(Outcome::new(status, "kept")),
        reason: None,
        replay_for: Duration::from_secs(3_600),
        remember_for: Duration::from_secs(7_200),
    }
}

pub(crate) fn doubt() -> Finish {
    Finish { kind: FinishKind::Unknown, outcome: None, ..done(0) }
}

pub(crate) fn clean(permit: &Permit) -> ReleaseAsk {
    ReleaseAsk {
        token: permit.token,
        fence: Some(permit.fence),
        compare: false,
        reason: None,
        remember_for: Duration::from_secs(7_200),
    }
}

pub(crate) fn not_done(permit: &Permit) -> ResolveAsk {
    ResolveAsk {
        resolve_id: *token().as_bytes(),
        token: permit.token,
        fence: permit.fence,
        verdict: Verdict::NotDone { new_incarnation: false },
        settle_for: Duration::ZERO,
        force: true,
        replay_for: Duration::from_secs(3_600),
        remember_for: Duration::from_secs(7_200),
    }
}

pub(crate) fn actor() -> Actor {
    Actor { name: "ada".into(), note: "asked the bank".into() }
}

pub(crate) async fn claim(store: &PostgresStore, ask: &Ask) -> Result<ClaimAnswer, StoreError> {
    Ok(store.claim(vec![ask.clone()]).await?.remove(0).answer)
}

/// Claims, and expects the grant.
pub(crate) async fn hold(store: &PostgresStore, id: &IntentId) -> Permit {
    granted(claim(store, &ask(id)).await.unwrap())
}

pub(crate) async fn renew(
    store: &PostgresStore,
    permit: &Permit,
) -> Result<semel::store::Renewed, StoreError> {
    Ok(store.renew(vec![Renew::of(permit, LEASE)]).await?.remove(0))
}

#[track_caller]
pub(crate) fn granted(answer: ClaimAnswer) -> Permit {
    match answer {
        ClaimAnswer::Granted { permit, .. } => permit,
        other => panic!("a grant was promised: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn in_progress(answer: &ClaimAnswer) {
    let is = matches!(answer, ClaimAnswer::Refused(Refusal::InProgress { .. }));
    assert!(is, "it was promised to be in progress: {answer:?}");
}

#[track_caller]
pub(crate) fn replayed(answer: ClaimAnswer) -> u16 {
    match answer {
        ClaimAnswer::Replay(record) => record.outcome.unwrap().status,
        other => panic!("a replay was promised: {other:?}"),
    }
}

/// Asks until the store can be asked.
pub(crate) async fn until_answered<T, F>(mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, StoreError>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) if error.kind().is_retryable() && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Waits until a count that a statement tells is what it should be.
pub(crate) async fn until_count(client: &tokio_postgres::Client, statement: &str, count: i64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now: i64 = client.query_one(statement, &[]).await.unwrap().get(0);
        if now == count {
            return;
        }
        assert!(Instant::now() < deadline, "{statement}: {now}, not {count}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
