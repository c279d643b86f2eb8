//! Short words for what the promises do to a store.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use semel::{
    Fence, Fingerprint, IntentId, Key, Operation, Outcome, Permit, Phase, Record, Scope, State,
    StoreErrorKind, Tenant, Timestamp, Token,
    decide::{
        Ask, Compare, Finish, FinishKind, Grant, OnLost, Refusal, ReleaseAsk, Resolution,
        ResolveAsk, Verdict,
    },
    store::{Actor, ClaimAnswer, Completed, ReleaseAnswer, Renew, Renewed, capability::AuditRow},
};

use super::Fresh;

pub(super) const LEASE: Duration = Duration::from_secs(30);
pub(super) const REPLAY: Duration = Duration::from_secs(3_600);
pub(super) const REMEMBER: Duration = Duration::from_secs(7_200);
pub(super) const SETTLE: Duration = Duration::from_secs(60);
pub(super) const INSTANT: Duration = Duration::from_millis(1);

/// Returns a token that no other call returns.
pub(super) fn token() -> Token {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = u128::from(NEXT.fetch_add(1, Ordering::Relaxed));
    Token::from_bytes(((number << 64) | 0x5e3e1).to_be_bytes())
}

/// Names an intent of tenant `acme` and operation `payments.create`.
pub(super) fn id(key: &str) -> IntentId {
    named("acme", "payments.create", key)
}

pub(super) fn named(tenant: &str, operation: &str, key: &str) -> IntentId {
    let tenant = Tenant::new(tenant).expect("a tenant of the suite is a name");
    let operation = Operation::new(operation).expect("an operation of the suite is a name");
    Scope::new(tenant, operation).intent(Key::new(key).expect("a key of the suite is a name"))
}

pub(super) fn content(text: &str) -> Fingerprint {
    Fingerprint::of_bytes(text.as_bytes())
}

/// Asks for `id` with the content `pay 10`, a lease of 30 s, hold, and no hurry.
pub(super) fn ask(id: &IntentId) -> Ask {
    Ask {
        id: id.clone(),
        token: token(),
        fingerprint: content("pay 10"),
        older: Vec::new(),
        not_after: Timestamp::MAX,
        lease: LEASE,
        on_lost: OnLost::Hold,
        compare: Compare::Strict,
        claimed_by: Some("request-1".into()),
    }
}

pub(super) fn other(id: &IntentId) -> Ask {
    Ask { fingerprint: content("pay 11"), ..ask(id) }
}

pub(super) fn rerun(id: &IntentId) -> Ask {
    Ask { on_lost: OnLost::Rerun, ..ask(id) }
}

pub(super) fn created() -> Outcome {
    Outcome::new(201, "{\"id\":7}")
        .header("content-type", "application/json")
        .pointer("payment", "pay_7")
}

pub(super) fn done(outcome: Outcome) -> Finish {
    finish(FinishKind::Done, Some(outcome))
}

pub(super) fn finish(kind: FinishKind, outcome: Option<Outcome>) -> Finish {
    Finish { kind, outcome, reason: None, replay_for: REPLAY, remember_for: REMEMBER }
}

pub(super) fn clean(permit: &Permit) -> ReleaseAsk {
    ReleaseAsk {
        token: permit.token,
        fence: Some(permit.fence),
        compare: false,
        reason: Some("no-effect".into()),
        remember_for: REMEMBER,
    }
}

pub(super) fn verdict(permit: &Permit, verdict: Verdict) -> ResolveAsk {
    ResolveAsk {
        resolve_id: *token().as_bytes(),
        token: permit.token,
        fence: permit.fence,
        verdict,
        settle_for: SETTLE,
        force: false,
        replay_for: REPLAY,
        remember_for: REMEMBER,
    }
}

pub(super) const NOT_DONE: Verdict = Verdict::NotDone { new_incarnation: false };

pub(super) fn actor() -> Actor {
    Actor { name: "ada".into(), note: "asked the bank".into() }
}

#[track_caller]
pub(super) fn invalid<T: std::fmt::Debug>(result: Result<T, semel::StoreError>) {
    let kind = result.map_err(|error| error.kind());
    assert_eq!(kind.expect_err("a broken bound is refused"), StoreErrorKind::Invalid);
}

/// Returns the same permit under another fence.
pub(super) fn fenced(permit: &Permit, by: u64) -> Permit {
    Permit { fence: Fence::new(permit.fence.get() + by), ..permit.clone() }
}

/// Returns the same permit under another token.
pub(super) fn foreign(permit: &Permit) -> Permit {
    Permit { token: token(), ..permit.clone() }
}

#[track_caller]
pub(super) fn granted(answer: ClaimAnswer) -> (Permit, Option<Grant>) {
    match answer {
        ClaimAnswer::Granted { permit, grant } => (permit, grant),
        other => panic!("a grant was promised: {other:?}"),
    }
}

#[track_caller]
pub(super) fn refused(answer: ClaimAnswer) -> Refusal {
    match answer {
        ClaimAnswer::Refused(refusal) => refusal,
        other => panic!("a refusal was promised: {other:?}"),
    }
}

#[track_caller]
pub(super) fn replayed(answer: ClaimAnswer) -> Outcome {
    match answer {
        ClaimAnswer::Replay(record) => record.outcome.expect("a replay carries the outcome"),
        other => panic!("a replay was promised: {other:?}"),
    }
}

#[track_caller]
pub(super) fn in_progress(answer: ClaimAnswer) {
    let refusal = refused(answer);
    assert!(matches!(refusal, Refusal::InProgress { .. }), "{refusal:?}");
}

#[track_caller]
pub(super) fn unknown(answer: ClaimAnswer) {
    let refusal = refused(answer);
    assert!(matches!(refusal, Refusal::Unknown { .. }), "{refusal:?}");
}

impl Fresh {
    pub(super) async fn now(&self) -> Timestamp {
        self.store.read(Vec::new()).await.expect("the time is read").now
    }

    pub(super) async fn after(&self, by: Duration) {
        self.time.advance(by).await;
    }

    pub(super) async fn claim(&self, ask: Ask) -> ClaimAnswer {
        let mut claimed = self.store.claim(vec![ask]).await.expect("a claim is answered");
        assert_eq!(claimed.len(), 1, "one claim gets one answer");
        claimed.remove(0).answer
    }

    /// Claims `id` as [`ask`] says, and expects the grant.
    pub(super) async fn hold(&self, id: &IntentId) -> Permit {
        self.take(ask(id)).await
    }

    pub(super) async fn take(&self, ask: Ask) -> Permit {
        granted(self.claim(ask).await).0
    }

    pub(super) async fn complete(&self, permit: &Permit, finish: Finish) -> Completed {
        self.store.complete(permit.clone(), finish).await.expect("a completion is answered")
    }

    /// Completes, and asks again while a look holds the lock.
    pub(super) async fn complete_when_free(&self, permit: &Permit, finish: Finish) -> Completed {
        for _ in 0..1_000 {
            match self.store.complete(permit.clone(), finish.clone()).await {
                Err(error) if error.kind() == StoreErrorKind::Busy => {}
                answer => return answer.expect("a completion is answered"),
            }
        }
        panic!("a completion is never let in between looks");
    }

    pub(super) async fn release(&self, id: &IntentId, ask: ReleaseAsk) -> ReleaseAnswer {
        self.store.release(id.clone(), ask).await.expect("a release is answered").answer
    }

    pub(super) async fn renew(&self, permit: &Permit) -> Renewed {
        let renewals = vec![Renew::of(permit, LEASE)];
        self.store.renew(renewals).await.expect("a renewal is answered")[0]
    }

    pub(super) async fn resolve(&self, id: &IntentId, ask: ResolveAsk) -> Resolution {
        self.store.resolve(id.clone(), ask, actor()).await.expect("a resolution is answered")
    }

    pub(super) async fn record(&self, id: &IntentId) -> Option<Record> {
        let reading = self.store.read(vec![id.clone()]).await.expect("a record is read");
        assert_eq!(reading.records.len(), 1, "one id gets one place");
        reading.records.into_iter().next().flatten()
    }

    pub(super) async fn kept(&self, id: &IntentId) -> Record {
        self.record(id).await.expect("the record is there")
    }

    pub(super) async fn phase(&self, id: &IntentId) -> Phase {
        let reading = self.store.read(vec![id.clone()]).await.expect("a record is read");
        reading.records[0].as_ref().map_or(Phase::Absent, |record| record.phase(reading.now))
    }

    /// Makes `id` done.
    pub(super) async fn finished(&self, id: &IntentId) -> Permit {
        let permit = self.hold(id).await;
        assert_eq!(self.complete(&permit, done(created())).await, Completed::Stored);
        permit
    }

    /// Makes `id` unknown: its lease is over and somebody else has asked.
    pub(super) async fn lost(&self, id: &IntentId) -> Permit {
        let permit = self.hold(id).await;
        self.after(LEASE + INSTANT).await;
        unknown(self.claim(ask(id)).await);
        assert_eq!(self.phase(id).await, Phase::Stored(State::Unknown));
        permit
    }

    /// Takes over from the holder of `id`.
    pub(super) async fn taken_over(&self, id: &IntentId) -> (Permit, Permit) {
        let old = self.take(rerun(id)).await;
        self.after(LEASE + INSTANT).await;
        let (new, grant) = granted(self.claim(rerun(id)).await);
        assert_eq!(grant, Some(Grant::TakenOver { ask_first: false }));
        (old, new)
    }

    pub(super) async fn audit(&self, id: &IntentId) -> Vec<AuditRow> {
        self.inspect.audit(Some(id.clone()), 100).await.expect("the audit is read")
    }
}
