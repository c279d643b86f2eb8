//! Waiting for another transaction's end, without a connection and without a lock.

use std::{error::Error as StdError, future::Future, sync::Weak, time::Duration};

use async_trait::async_trait;
use semel::{
    Call, IntentId, Monotonic, Refusal, StoreError, Timestamp,
    engine::waiter::{Peek, Waiters},
    store::Reading,
};

use super::{Guard, Pool, Ran, RunError, Transact, Worked, source::Source};
use crate::{error::ended, lane::Lane, verb::Read};

/// Wakes those who wait in this process once a guard has ended.
#[derive(Debug)]
pub(super) struct Wake {
    waiters: Waiters,
    id: IntentId,
    /// The transaction goes on without its guard: only the poll can tell of its end.
    silent: bool,
}

impl Wake {
    pub(super) const fn new(waiters: Waiters, id: IntentId) -> Self {
        Self { waiters, id, silent: false }
    }

    /// The outcome is committed: all who wait can have it.
    pub(super) fn all(mut self) {
        self.silent = true;
        self.waiters.wake_all(&self.id);
    }

    /// The transaction goes back to the caller.
    pub(super) fn none(mut self) {
        self.silent = true;
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        if !self.silent {
            self.waiters.wake_one(&self.id);
        }
    }
}

/// Reads through the store's own connections, for as long as there is the store.
#[derive(Debug)]
pub(super) struct ByStore(pub(super) Weak<Lane<Read>>);

#[async_trait]
impl Peek for ByStore {
    async fn peek(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError> {
        self.0.upgrade().ok_or_else(ended)?.ask(Read(ids)).await
    }
}

/// Without a store, one waiter per key claims again at each poll, and so finds out by itself.
#[derive(Debug)]
pub(super) struct Blind;

#[async_trait]
impl Peek for Blind {
    async fn peek(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError> {
        let records = ids.iter().map(|_| None).collect();
        Ok(Reading { records, now: Timestamp::default() })
    }
}

impl Transact {
    /// Runs `work` as [`Transact::run`] does, on connections of a pool: an `sqlx::PgPool`, or whatever
    /// can [`Lend`](super::Lend). Each transaction takes a connection of its own. If the answer to a
    /// commit was lost, it finds out on another connection what became of it.
    ///
    /// While another holder works on the intent, it waits for at most the policy's `wait`, and holds
    /// neither a connection nor a lock meanwhile: it is woken by a run that ends in this process, and
    /// otherwise by one poll per process over all awaited keys.
    ///
    /// # Errors
    ///
    /// As [`Transact::run`].
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// As [`Transact::run`].
    #[expect(private_bounds, reason = "sealed: what a pool is asked is this crate's own affair")]
    pub async fn run_on<P, T, E, W>(
        &self,
        pool: &P,
        call: &Call,
        mut work: impl FnMut(Guard<P::Tx>) -> W,
    ) -> Result<Ran<T>, RunError<E>>
    where
        P: Pool + Source,
        E: StdError + 'static,
        W: Future<Output = Result<Worked<P::Tx, T>, E>>,
    {
        let wait_until = self.inner.clock.monotonic().after(call.policy.wait);
        let mut place = None;
        let mut turn = self.inner.waiters.turn(&call.id);
        loop {
            // Wake-ups from here on are kept, so that an end between claim and wait is not missed.
            let woken = place.as_ref().map(semel::engine::waiter::Place::woken);
            let ran = self.repeat(pool, call, &mut work).await?;
            let Ran::Refused(Refusal::InProgress { lease_left, .. }) = &ran else {
                return Ok(ran);
            };
            // Whoever holds it wakes the next.
            turn.ends();
            if self.inner.clock.monotonic() >= wait_until {
                return Ok(ran);
            }
            let Some(woken) = woken else {
                place = self.inner.waiters.place(&call.id, Some(&self.inner.peek));
                if place.is_none() {
                    return Ok(ran);
                }
                continue;
            };
            tokio::select! {
                () = woken => turn.begins(),
                () = self.inner.clock.sleep_until(self.asks_again_at(*lease_left).min(wait_until)) => {}
            }
        }
    }

    /// When a waiter claims again if nobody wakes it: a lease may be over before anybody can tell of it.
    fn asks_again_at(&self, lease_left: Duration) -> Monotonic {
        match lease_left.is_zero() {
            true => Monotonic::from_start(Duration::MAX),
            false => self.inner.clock.monotonic().after(lease_left.max(Duration::from_millis(1))),
        }
    }
}
