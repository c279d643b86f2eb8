//! Claiming, and waiting for another holder.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::{
    Engine, Holder,
    abandon::Copies,
    cut, unanswered,
    waiter::{Peek, Place},
};
use crate::{
    clock::{Monotonic, Timestamp},
    decide::{Ask, Grant, Refusal},
    error::{Error, StoreError, StoreErrorKind},
    fingerprint::{Fingerprint, PlanId},
    key::{IntentId, Reference},
    policy::{Policy, PolicyError},
    record::{Record, Token},
    store::{ClaimAnswer, Claimed, Reading, capability::Hint},
    telemetry::count,
};

/// Makes the fingerprint of the same content by an older plan.
pub type ByPlan = Arc<dyn Fn(PlanId) -> Option<Fingerprint> + Send + Sync>;

/// What a caller wants to happen once.
#[derive(Clone)]
pub struct Call {
    /// The intent.
    pub id: IntentId,
    /// What is asked for, by the current plan.
    pub fingerprint: Fingerprint,
    /// Makes the fingerprint by an older plan, should the record have been made by it.
    pub by_plan: Option<ByPlan>,
    /// The caller's name for this request, for tracing.
    pub claimed_by: Option<Box<str>>,
    /// What holds for the operation.
    pub policy: Arc<Policy>,
    /// What the business calls the intent, if it may be used but once in its scope.
    pub reference: Option<Reference>,
    /// For how long the reference may not be used again; `None` for ever.
    pub reference_for: Option<Duration>,
}

impl Call {
    /// Makes a call under a policy.
    #[must_use]
    pub const fn new(id: IntentId, fingerprint: Fingerprint, policy: Arc<Policy>) -> Self {
        Self {
            id,
            fingerprint,
            by_plan: None,
            claimed_by: None,
            policy,
            reference: None,
            reference_for: None,
        }
    }

    /// Makes the claim of this call under a token, without older fingerprints and in no hurry, as inside
    /// a caller's own transaction: what that does not commit was never claimed.
    #[must_use]
    pub fn ask(&self, token: Token) -> Ask {
        Ask {
            id: self.id.clone(),
            token,
            fingerprint: self.fingerprint,
            older: Vec::new(),
            not_after: Timestamp::MAX,
            lease: self.policy.lease,
            on_lost: self.policy.on_lost,
            compare: self.policy.compare,
            claimed_by: self.claimed_by.clone(),
        }
    }

    /// Names a business reference that may be used but once in the intent's scope, under whichever key,
    /// for ever. Only claims inside a transaction of PostgreSQL keep one; all others refuse the call.
    #[must_use]
    pub fn reference(mut self, reference: Reference) -> Self {
        self.reference = Some(reference);
        self
    }

    /// Sets for how long the reference may not be used again; the default is for ever.
    #[must_use]
    pub const fn reference_for(mut self, span: Duration) -> Self {
        self.reference_for = Some(span);
        self
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("id", &self.id)
            .field("fingerprint", &self.fingerprint)
            .field("claimed_by", &self.claimed_by)
            .finish_non_exhaustive()
    }
}

/// What a call meets.
#[derive(Debug)]
pub enum Begun {
    /// Neither run nor replay.
    Refused(Refusal),
    /// The kept outcome.
    Replay(Box<Record>),
    /// The caller is the holder and runs it.
    Run(Holder),
}

impl Engine {
    /// Claims an intent; while another holder works on it, waits for at most `policy.wait`.
    ///
    /// # Errors
    ///
    /// Fails if the engine is closed, the policy cannot be used with its store, or the store cannot be
    /// asked; nothing ran then, and whatever the store may have granted is given back by token.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, whatever the store may have granted is given back by token, in a
    /// task of the engine.
    pub async fn begin(&self, call: Call) -> Result<Begun, Error> {
        call.policy.check()?;
        call.policy.check_store(&self.capabilities())?;
        if call.reference.is_some() {
            return Err(PolicyError::Reference.into());
        }
        let wait_until = self.now().after(call.policy.wait);
        let mut older = Vec::new();
        let mut place: Option<Place> = None;
        let mut turn = self.inner.waiters.turn(&call.id);
        loop {
            // Wake-ups from here on are kept, so that a finish between claim and wait is not missed.
            let woken = place.as_ref().map(Place::woken);
            let begun = self.claim(&call, &older).await?;
            if matches!(begun, Begun::Run(_) | Begun::Refused(Refusal::InProgress { .. })) {
                turn.ends();
            }
            let Begun::Refused(refusal) = begun else {
                return Ok(begun);
            };
            match &refusal {
                Refusal::Incomparable { plan } if older.is_empty() => {
                    match call.by_plan.as_ref().and_then(|by_plan| by_plan(*plan)) {
                        Some(fingerprint) => older.push(fingerprint),
                        None => return Ok(self.refused(refusal)),
                    }
                    continue;
                }
                Refusal::InProgress { lease_left, .. } if self.now() < wait_until => {
                    let Some(woken) = woken else {
                        count(&self.inner.counters.waits);
                        place = self.place(&call.id);
                        if place.is_none() {
                            return Ok(self.refused(refusal));
                        }
                        continue;
                    };
                    let again = self.asks_again_at(*lease_left).min(wait_until);
                    tokio::select! {
                        biased;
                        () = woken => turn.begins(),
                        () = self.inner.clock.sleep_until(again) => {}
                        () = self.inner.closing.cancelled() => return Err(Error::Closed),
                    }
                }
                _ => return Ok(self.refused(refusal)),
            }
        }
    }

    /// When a waiter claims again if nobody wakes it: the lease may be over before anybody can tell of
    /// it. Where no lease is left, an open transaction has the key's lock: the poll tells of its end, and
    /// meanwhile one claim per poll asks for all waiters.
    fn asks_again_at(&self, lease_left: Duration) -> Monotonic {
        if !lease_left.is_zero() {
            return self.now().after(lease_left.max(Duration::from_millis(1)));
        }
        match self.inner.store.capabilities().shared {
            true => Monotonic::from_start(Duration::MAX),
            false => self.now().after(Duration::from_millis(50)),
        }
    }

    /// Takes a place among the waiters for `id`; `None` if all places are taken.
    fn place(&self, id: &IntentId) -> Option<Place> {
        let peek: Arc<dyn Peek> = Arc::new(Reads(self.clone()));
        let shared = self.inner.store.capabilities().shared;
        self.inner.waiters.place(id, Some(&peek).filter(|_| shared))
    }

    fn refused(&self, refusal: Refusal) -> Begun {
        let counters = &self.inner.counters;
        count(match &refusal {
            Refusal::Forgotten { .. } => &counters.forgotten,
            // Where a reference is kept, the engine is not.
            Refusal::InProgress { .. } | Refusal::ReferenceExists { .. } => &counters.in_progress,
            Refusal::Incomparable { .. } | Refusal::Mismatch => &counters.mismatches,
            Refusal::Unknown { .. } => &counters.unknown,
        });
        Begun::Refused(refusal)
    }

    /// Claims once, under a new token.
    async fn claim(&self, call: &Call, older: &[Fingerprint]) -> Result<Begun, Error> {
        if self.inner.closing.is_cancelled() {
            return Err(Error::Closed);
        }
        let began = self.now();
        let give_up = began.after(call.policy.claim_timeout);
        let mut guard = Pending {
            engine: self,
            id: &call.id,
            token: self.token(),
            not_after: None,
            ambiguous: false,
            policy: &call.policy,
        };
        // Why the try before failed: that says more than that the last was late.
        let mut earlier = None;
        loop {
            let sent = self.now();
            match self.send(call, older, &mut guard, sent, give_up, &mut earlier).await {
                Ok(Claimed { answer: ClaimAnswer::TooLate, now }) => {
                    self.inner.time.saw(now, sent);
                    if self.now() >= give_up {
                        if !guard.ambiguous {
                            guard.disarm();
                        }
                        return Err(late().into());
                    }
                }
                Ok(Claimed { answer, now }) => {
                    self.inner.time.saw(now, sent);
                    // After a lost answer an earlier copy of this claim may still be on its way, and
                    // be granted once whoever holds the intent now has ended.
                    let copies = if guard.ambiguous { guard.copies() } else { Copies::None };
                    let told =
                        matches!(answer, ClaimAnswer::Granted { .. } | ClaimAnswer::Replay(_));
                    if copies == Copies::None || told {
                        guard.disarm();
                    }
                    // A repeat may be answered "yours" long after the grant: the holder believes in
                    // its lease from before the first time it was asked for.
                    return Ok(self.answered(call, answer, began, copies));
                }
                Err(error) => {
                    count(&self.inner.counters.store_errors);
                    self.inner.trouble.failed(&error, self.now());
                    let is_over = self.now() >= give_up;
                    if is_over || !error.kind().is_retryable() {
                        if !guard.ambiguous {
                            guard.disarm();
                        }
                        return Err(error.into());
                    }
                    earlier = Some(error);
                    let pause = Duration::from_millis(20).min(give_up.since(self.now()));
                    self.inner.clock.sleep_until(self.now().after(pause)).await;
                }
            }
        }
    }

    /// Sends the claim once; whoever does not know the store's time yet asks for it first.
    async fn send(
        &self,
        call: &Call,
        older: &[Fingerprint],
        guard: &mut Pending<'_>,
        sent: Monotonic,
        give_up: Monotonic,
        earlier: &mut Option<StoreError>,
    ) -> Result<Claimed, StoreError> {
        // An answer that was lost without an error leaves time to ask once more.
        let until = give_up.min(sent.after(call.policy.claim_timeout / 2));
        let not_after = self.store_time(sent, until).await?.after(give_up.since(sent));
        guard.not_after = guard.not_after.max(Some(not_after));
        let ask = ask(call, older, guard.token, not_after);
        let store = Arc::clone(&self.inner.store);
        let claimed = self.owned_or_late(until, async move { store.claim(vec![ask]).await }).await;
        let claimed = claimed.unwrap_or_else(|| Err(unanswered(earlier.take()))).and_then(only);
        guard.ambiguous |= claimed.as_ref().is_err_and(|error| !error.kind().is_definite());
        claimed
    }

    fn answered(&self, call: &Call, answer: ClaimAnswer, sent: Monotonic, copies: Copies) -> Begun {
        let counters = &self.inner.counters;
        match answer {
            ClaimAnswer::Granted { permit, grant } => {
                count(&counters.fresh);
                self.inner.trouble.granted();
                if matches!(grant, Some(Grant::TakenOver { .. })) {
                    count(&counters.takeovers);
                    tracing::warn!(operation = %call.id.scope.operation, "took over a lost holder");
                }
                let beat = self.beat(permit, call.policy.lease, sent, copies);
                Begun::Run(Holder::new(self.clone(), beat, grant, Arc::clone(&call.policy)))
            }
            ClaimAnswer::Replay(record) => {
                count(&counters.replays);
                Begun::Replay(record)
            }
            ClaimAnswer::Refused(refusal) => Begun::Refused(refusal),
            // A token is used for one claim alone, so neither can be the answer to it; whoever asks
            // again gets a new token.
            ClaimAnswer::Stale | ClaimAnswer::TooLate => Begun::Refused(Refusal::InProgress {
                claimed_at: None,
                lease_left: Duration::ZERO,
                claimed_by: None,
            }),
        }
    }

    /// Returns the store's time at an instant, as far as anybody can tell: a claim that is sent then must not be
    /// granted later than it is still waited for.
    async fn store_time(&self, sent: Monotonic, until: Monotonic) -> Result<Timestamp, StoreError> {
        if let Some(now) = self.inner.time.estimate(sent) {
            return Ok(now);
        }
        let store = Arc::clone(&self.inner.store);
        let reading = self.owned_until(until, async move { store.read(Vec::new()).await }).await?;
        self.inner.time.saw(reading.now, sent);
        Ok(reading.now)
    }
}

fn ask(call: &Call, older: &[Fingerprint], token: Token, not_after: Timestamp) -> Ask {
    let claimed_by = call.claimed_by.as_deref().map(|by| cut(by, Ask::CLAIMED_BY_MAX));
    Ask { older: older.to_vec(), not_after, claimed_by, ..call.ask(token) }
}

fn only(claimed: Vec<Claimed>) -> Result<Claimed, StoreError> {
    claimed.into_iter().next().ok_or_else(|| {
        StoreError::new(StoreErrorKind::Unavailable, "the store answered another batch")
    })
}

fn late() -> StoreError {
    StoreError::new(StoreErrorKind::Busy, "the store was too slow to decide the claim in time")
}

/// The poll reads through the engine, which owns every call of the store.
#[derive(Debug)]
struct Reads(Engine);

#[async_trait]
impl Peek for Reads {
    async fn peek(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError> {
        let Self(engine) = self;
        let store = Arc::clone(&engine.inner.store);
        let until = engine.now().after(super::ASK_FOR);
        engine.owned_until(until, async move { store.read(ids).await }).await
    }

    fn hints(&self) -> Option<broadcast::Receiver<Hint>> {
        self.0.inner.notify.as_ref().map(|notify| notify.hints())
    }

    async fn watch(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError> {
        let Self(engine) = self;
        let Some(notify) = engine.inner.notify.clone() else { return self.peek(ids).await };
        let until = engine.now().after(super::ASK_FOR);
        engine.owned_until(until, async move { notify.watch(ids).await }).await
    }
}

/// A claim that was sent and not answered. Dropped unanswered, it is given back by token.
struct Pending<'a> {
    engine: &'a Engine,
    id: &'a IntentId,
    token: Token,
    not_after: Option<Timestamp>,
    /// Some answer was lost, so that the claim may have been granted.
    ambiguous: bool,
    policy: &'a Arc<Policy>,
}

impl Pending<'_> {
    const fn copies(&self) -> Copies {
        match self.not_after {
            None => Copies::None,
            Some(not_after) if self.ambiguous => Copies::Many(not_after),
            Some(not_after) => Copies::One(not_after),
        }
    }

    const fn disarm(&mut self) {
        self.not_after = None;
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.not_after.is_some() {
            self.engine.abandon(self.id.clone(), self.token, self.copies(), self.policy);
        }
    }
}
