//! The loop around a store: claims and waits, keeps leases alive, ends runs, sweeps.
//!
//! The engine owns every store call: a caller that goes away cancels nothing that was begun. What a
//! claim may have won is given back by token; what a run may have done is told to the store as far
//! as anybody can say.

mod abandon;
mod begin;
mod bridged;
mod builder;
mod heartbeat;
mod holder;
mod run;
mod settle;
mod sweep;
mod tasks;
mod timebase;
mod trouble;
pub mod waiter;

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

pub use self::{
    begin::{Begun, ByPlan, Call},
    bridged::{Otherwise, Settled},
    builder::EngineBuilder,
    holder::{Ended, Held, Holder},
    run::{Fail, Kept, Ran, RunError},
    tasks::{Tasks, Turn, Turns},
};
use self::{heartbeat::Heartbeat, timebase::TimeBase, trouble::Trouble, waiter::Waiters};
use crate::{
    clock::{Clock, Monotonic, Timestamp},
    decide::{Resolution, ResolveAsk},
    entropy::Entropy,
    error::{Error, StoreError, StoreErrorKind},
    key::IntentId,
    record::{Phase, Record, Token},
    store::{
        Actor, Store,
        capability::{Bridge, Capabilities, Notify},
    },
    telemetry::{Counters, Stats},
};

/// Makes repeated intents harmless on one store. Cheap to clone.
///
/// ```
/// # use std::sync::Arc;
/// use semel::{Engine, Policy, store::memory::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let engine = Engine::builder(Arc::new(MemoryStore::new())).build();
/// assert_eq!(engine.stats().fresh, 0);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    bridge: Option<Arc<dyn Bridge>>,
    notify: Option<Arc<dyn Notify>>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    heartbeat: Heartbeat,
    waiters: Waiters,
    time: TimeBase,
    trouble: Trouble,
    tasks: Tasks,
    closing: CancellationToken,
    counters: Counters,
}

/// How long an operator's question may take until the store is taken to be away.
const ASK_FOR: Duration = Duration::from_secs(10);

/// What is known of an intent.
#[derive(Clone, Debug)]
pub struct Status {
    /// What the record means now; [`Phase::Absent`] if there is none.
    pub phase: Phase,
    /// The record, unless it is absent.
    pub record: Option<Record>,
    /// The store's time.
    pub now: Timestamp,
}

impl Engine {
    /// Begins an engine on `store`.
    pub fn builder(store: Arc<dyn Store>) -> EngineBuilder {
        EngineBuilder::new(store)
    }

    /// Returns what the store can do.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.inner.store.capabilities()
    }

    /// Says whether it can settle runs that their application ends by itself.
    #[must_use]
    pub fn is_bridged(&self) -> bool {
        self.inner.bridge.is_some()
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.counters.stats()
    }

    /// Returns how many callers wait for another holder now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.inner.waiters.len()
    }

    /// Returns how many intents are held by this engine now.
    #[must_use]
    pub fn holding(&self) -> usize {
        self.inner.heartbeat.len()
    }

    /// Returns why the store could last not be written to, if an operator must mend it: it is full,
    /// read-only, damaged or of another version. `None` once a claim was granted again, and half a
    /// minute after the last failure.
    #[must_use]
    pub fn store_trouble(&self) -> Option<StoreErrorKind> {
        self.inner.trouble.at(self.now())
    }

    /// Returns what is known of an intent, whatever its content.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be asked.
    pub async fn status(&self, id: IntentId) -> Result<Status, Error> {
        let store = Arc::clone(&self.inner.store);
        let until = self.now().after(ASK_FOR);
        let reading = self.owned_until(until, async move { store.read(vec![id]).await }).await?;
        let record = reading.records.into_iter().next().flatten();
        let phase = record.as_ref().map_or(Phase::Absent, |record| record.phase(reading.now));
        let record = record.filter(|_| phase != Phase::Absent);
        Ok(Status { phase, record, now: reading.now })
    }

    /// Resolves an unknown intent, and wakes whoever waits for it.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be asked.
    ///
    /// # Cancel safety
    ///
    /// A resolution whose future is dropped may be stored; a repeat by the same id changes nothing.
    pub async fn resolve(
        &self,
        id: IntentId,
        ask: ResolveAsk,
        actor: Actor,
    ) -> Result<Resolution, Error> {
        let store = Arc::clone(&self.inner.store);
        let asked = id.clone();
        let until = self.now().after(ASK_FOR);
        let resolve = async move { store.resolve(asked, ask, actor).await };
        let resolution = self.owned_until(until, resolve).await?;
        self.inner.waiters.wake_all(&id);
        Ok(resolution)
    }

    /// Stops granting, and waits until every holder has ended and everything begun is stored, at
    /// most `wait`. Returns whether all ended in time; what did not keeps its lease and meets
    /// `on_lost`.
    pub async fn close(&self, wait: Duration) -> bool {
        self.inner.closing.cancel();
        let until = self.now().after(wait);
        let drained = async {
            self.inner.heartbeat.drained().await;
            self.inner.heartbeat.look_again();
            self.inner.tasks.ended().await;
        };
        tokio::select! {
            biased;
            () = drained => true,
            () = self.inner.clock.sleep_until(until) => false,
        }
    }

    fn now(&self) -> Monotonic {
        self.inner.clock.monotonic()
    }

    fn token(&self) -> Token {
        Token::from_bytes(self.inner.entropy.bytes())
    }

    /// Runs a store call in a task of the engine's own: a call that panics takes nobody along.
    fn spawned<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        let joined = self.inner.tasks.spawn(call);
        async move {
            joined.await.unwrap_or_else(|error| {
                let message = "the store's task ended before it answered";
                Err(StoreError::new(StoreErrorKind::Unavailable, message).with_source(error))
            })
        }
    }

    /// Runs a store call in a task of the engine's own, and waits for it until an instant. A call that
    /// is ready at once costs neither a task nor a timer.
    async fn owned_until<T: Send + 'static>(
        &self,
        until: Monotonic,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.owned_or_late(until, call).await.unwrap_or_else(|| Err(unanswered(None)))
    }

    /// The same; `None` when there was no answer until then.
    async fn owned_or_late<T: Send + 'static>(
        &self,
        until: Monotonic,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Option<Result<T, StoreError>> {
        let mut call = Box::pin(call);
        let first = std::future::poll_fn(|cx| {
            // A store that panics must not take along its caller, who may be unwinding already.
            Poll::Ready(catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx))))
        });
        match first.await {
            Ok(Poll::Ready(result)) => return Some(result),
            Ok(Poll::Pending) => {}
            Err(_) => {
                let panicked = StoreError::new(StoreErrorKind::Unavailable, "the store panicked");
                return Some(Err(panicked));
            }
        }
        tokio::select! {
            biased;
            result = self.spawned(call) => Some(result),
            () = self.inner.clock.sleep_until(until) => None,
        }
    }
}

/// Nobody knows what the store made of a call: it was silent, and had said something else before.
fn unanswered(before: Option<StoreError>) -> StoreError {
    let late = "the store did not answer in time";
    let Some(before) = before else {
        return StoreError::new(StoreErrorKind::Unavailable, late);
    };
    let message = format!("{late}; before that: {before}");
    StoreError::new(StoreErrorKind::Unavailable, message).with_source(before)
}

/// Cuts a text to a bound, between two characters.
pub(crate) fn cut(text: &str, max: usize) -> Box<str> {
    text[..text.floor_char_boundary(max)].into()
}
