//! The loop of a consumer: deliveries in, each handled once, acknowledged after the commit.
//!
//! Messages of an ordered log are handled in order, and logs beside each other; messages of a queue are
//! spread over lanes, those of one key in order on one lane. A message is acknowledged once its effect is
//! committed and what it recorded is sent. One that fails comes again after a pause, and is parked with a
//! copy after enough attempts and enough time: then whatever stood behind it goes on.
//!
//! What is true if the process is gone:
//!
//! - before the commit: nothing. The message comes again, and its attempt was counted if it may have
//!   been the message that ended the process;
//! - between commit and acknowledgement: the effect. The copy meets what was recorded, which is sent
//!   again;
//! - after the acknowledgement: all of it.

mod attempts;
mod builder;
mod desk;
mod intake;
mod lane;
mod parked;
mod progress;
mod round;
mod shutdown;

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use thiserror::Error;
use tokio::task::{Id, JoinSet};

pub use self::builder::RunnerBuilder;
use self::{lane::Lane, progress::Progress, round::Round};
use super::{
    handler::Handler,
    message::LogId,
    policy::InboxPolicy,
    source::{Acked, Receipt, Received, Settlement, Source, SourceError},
    store::{InboxStore, InboxSweep},
};
use crate::{
    backoff::share,
    clock::{Clock, Monotonic},
    entropy::Entropy,
    error::StoreError,
    telemetry::{InboxCounters, InboxStats, count, count_many},
};

/// After which time the loop looks around although nothing happens.
const LONGEST_REST: Duration = Duration::from_secs(3_600);

/// How long one call of a source waits for deliveries.
const RECEIVE_WAIT: Duration = Duration::from_secs(5);

/// Runs one consumer. Cheap to clone.
#[derive(Clone)]
pub struct Runner {
    inner: Arc<Inner>,
}

struct Inner {
    policy: Arc<InboxPolicy>,
    source: Arc<dyn Source>,
    store: Arc<dyn InboxStore>,
    handler: Arc<dyn Handler>,
    sweep: Option<Arc<dyn InboxSweep>>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    settings: Settings,
    counters: InboxCounters,
    ready: AtomicBool,
    /// The handler said that it takes one message at a time.
    singly: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    lanes: usize,
    batch_max: usize,
    in_flight_max: usize,
    drain: Duration,
    parked_every: Duration,
    sweep_every: Duration,
}

/// Why a consumer ended before it was told to.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunnerError {
    /// The source cannot be used until somebody acts.
    #[error("the source cannot be used")]
    Source(#[source] SourceError),
    /// The store cannot be used until somebody acts.
    #[error("the store cannot be used")]
    Store(#[source] StoreError),
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("policy", &self.inner.policy).finish_non_exhaustive()
    }
}

impl Runner {
    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> InboxStats {
        self.inner.counters.stats()
    }

    /// Whether it consumes: the store was checked, and source, store and whatever the handler needs
    /// answered when they were last asked.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.inner.ready.load(Ordering::Relaxed)
    }

    /// Consumes until `closing` is over; then it gives back what it has not begun, waits for what is
    /// at work for as long as its patience lasts, gives back the rest with its attempts, and closes the
    /// source.
    ///
    /// # Errors
    ///
    /// Fails if the store or the source says that somebody has to act: the unique key of the inbox is
    /// lost, say. What may pass by itself is waited for.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends everything at once: what is not committed is rolled back, and comes again.
    pub async fn run(&self, closing: impl Future<Output = ()> + Send) -> Result<(), RunnerError> {
        let mut closing = pin!(closing);
        if !self.inner.checked(closing.as_mut()).await? {
            return Ok(());
        }
        let mut state = State::new(Arc::clone(&self.inner));
        let ended = state.consume(closing).await;
        self.inner.ready.store(false, Ordering::Relaxed);
        state.shut_down().await;
        ended
    }
}

impl Inner {
    /// Proves that the store keeps names unique, however long it takes until it can be asked; false if it
    /// is to close before.
    async fn checked(
        &self,
        mut closing: Pin<&mut (impl Future<Output = ()> + Send)>,
    ) -> Result<bool, RunnerError> {
        for failures in 1_u32.. {
            match self.store.check().await {
                Ok(()) => return Ok(true),
                Err(error) if error.kind().is_retryable() => {
                    tracing::warn!(%error, "the inbox cannot be checked yet");
                }
                Err(error) => return Err(RunnerError::Store(error)),
            }
            tokio::select! {
                () = &mut closing => return Ok(false),
                () = self.clock.sleep_until(self.after(self.policy.backoff_after(failures))) => {}
            }
        }
        Ok(false)
    }

    fn after(&self, pause: Duration) -> Monotonic {
        self.clock.monotonic().after(pause)
    }

    /// A pause with chance in it, so that those who failed together do not come together again: between
    /// one half of it and all.
    fn jittered(&self, pause: Duration) -> Duration {
        pause / 2 + share(pause / 2, &*self.entropy)
    }
}

/// A call of the source that is on its way.
type Receiving = Pin<Box<dyn Future<Output = Result<Received, SourceError>> + Send>>;

/// Where deliveries wait that belong behind each other.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Key {
    Log(LogId),
    Slot(usize),
}

/// What the loop of one consumer holds.
struct State {
    inner: Arc<Inner>,
    lanes: HashMap<Key, Lane>,
    /// Lanes with something to do and without a task, in the order in which they came to it.
    idle: VecDeque<Key>,
    tasks: JoinSet<()>,
    at_work: HashMap<Id, (Key, Arc<Progress>)>,
    receiving: Option<Receiving>,
    /// Logs that are assigned and not begun.
    assigned: Vec<LogId>,
    /// Looks for parked messages that are to be run again.
    parked: Round,
    /// Forgets what is no longer remembered.
    sweeping: Round,
    /// How many deliveries are held.
    in_flight: usize,
    /// How often in a row something failed that every message needs.
    failures: u32,
    /// Whether the source was what failed.
    source_failed: bool,
    /// Until when nothing is begun.
    pause_until: Monotonic,
    next_slot: usize,
}

impl State {
    fn new(inner: Arc<Inner>) -> Self {
        inner.ready.store(true, Ordering::Relaxed);
        let now = inner.clock.monotonic();
        Self {
            parked: Round::from(now),
            sweeping: match inner.sweep {
                Some(_) => Round::from(now),
                None => Round::never(),
            },
            inner,
            lanes: HashMap::new(),
            idle: VecDeque::new(),
            tasks: JoinSet::new(),
            at_work: HashMap::new(),
            receiving: None,
            assigned: Vec::new(),
            in_flight: 0,
            failures: 0,
            source_failed: false,
            pause_until: now,
            next_slot: 0,
        }
    }

    /// Goes on until it is told to close, or somebody has to act.
    async fn consume(
        &mut self,
        mut closing: Pin<&mut (impl Future<Output = ()> + Send)>,
    ) -> Result<(), RunnerError> {
        loop {
            self.start_lanes();
            self.receive();
            let (clock, timer) = (Arc::clone(&self.inner.clock), self.next_timer());
            tokio::select! {
                biased;
                () = &mut closing => return Ok(()),
                Some(joined) = self.tasks.join_next_with_id() => {
                    let id = joined.map_or_else(|error| error.id(), |(id, ())| id);
                    self.ended(id).await;
                }
                () = self.parked.ended() => {
                    self.parked.next_at = self.inner.after(self.inner.settings.parked_every);
                }
                () = self.sweeping.ended() => {
                    self.sweeping.next_at = self.inner.after(self.inner.settings.sweep_every);
                }
                received = arrived(&mut self.receiving) => {
                    self.receiving = None;
                    self.take_in(received)?;
                }
                () = clock.sleep_until(timer) => {}
            }
            self.begin_logs().await;
            self.begin_rounds();
        }
    }

    /// Begins what is due from time to time.
    fn begin_rounds(&mut self) {
        let now = self.inner.clock.monotonic();
        let (inner, swept) = (Arc::clone(&self.inner), Arc::clone(&self.inner));
        self.parked.begin(now, async move { inner.run_parked().await });
        self.sweeping.begin(now, async move { swept.sweep().await });
    }

    /// When something is to be done although nothing comes.
    fn next_timer(&self) -> Monotonic {
        let now = self.inner.clock.monotonic();
        // Some instant must be named, and the clock's last one is none that it can wait for.
        let mut timer = self.inner.after(LONGEST_REST);
        timer = timer.min(self.parked.next_at()).min(self.sweeping.next_at());
        if self.pause_until > now {
            timer = timer.min(self.pause_until);
        }
        timer
    }

    /// Asks for more, if there is room for it.
    fn receive(&mut self) {
        let settings = &self.inner.settings;
        let room = settings.in_flight_max.saturating_sub(self.in_flight);
        if self.receiving.is_some() || room == 0 || self.is_paused() {
            return;
        }
        let source = Arc::clone(&self.inner.source);
        let max = room.min(source.capabilities().batch_max.max(1));
        self.receiving = Some(Box::pin(async move { source.receive(max, RECEIVE_WAIT).await }));
    }

    /// A lane's task came to its end, or was ended.
    async fn ended(&mut self, id: Id) {
        let Some((key, progress)) = self.at_work.remove(&id) else { return };
        let mut done = progress.take();
        let held = done.settlements.len() + done.left.len();
        // What a task left over, as one that was ended from outside does, comes again.
        done.settlements.extend(done.left.drain(..).map(|receipt| (receipt, AT_ONCE)));
        self.in_flight = self.in_flight.saturating_sub(held);
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.task = None;
            if done.rewinds {
                // They stand behind one that comes again, and come again behind it.
                let behind = lane.waiting.drain(..);
                let behind: Vec<_> = behind.map(|delivery| (delivery.receipt, AT_ONCE)).collect();
                self.in_flight = self.in_flight.saturating_sub(behind.len());
                done.settlements.extend(behind);
                // So do those that are about to arrive: the source keeps what it has not returned.
                self.receiving = None;
            }
            match lane.waiting.is_empty() {
                true => drop(self.lanes.remove(&key)),
                false => self.idle.push_back(key),
            }
        }
        if done.away {
            self.fails();
        } else if !done.settlements.is_empty() {
            self.recovers();
        }
        self.settle(done.settlements).await;
    }

    /// Settles; what cannot be settled comes again, and is known again.
    async fn settle(&mut self, settlements: Vec<(Receipt, Settlement)>) {
        if settlements.is_empty() {
            return;
        }
        let asked = settlements.len();
        match self.inner.source.settle(settlements).await {
            Ok(acked) => {
                let lost = acked.iter().filter(|acked| **acked == Acked::Lost).count();
                count_many(&self.inner.counters.lost, lost);
            }
            Err(error) => {
                count(&self.inner.counters.source_errors);
                tracing::warn!(%error, asked, "messages could not be settled, and come again");
                self.source_failed = true;
                self.fails();
            }
        }
    }

    /// What failed answers again.
    fn recovers(&mut self) {
        self.failures = 0;
        self.source_failed = false;
        self.inner.ready.store(true, Ordering::Relaxed);
    }

    fn is_paused(&self) -> bool {
        self.pause_until > self.inner.clock.monotonic()
    }

    /// Rests, longer each time: what failed is needed by every message.
    fn fails(&mut self) {
        self.failures = self.failures.saturating_add(1);
        let pause = self.inner.jittered(self.inner.policy.backoff_after(self.failures));
        self.pause_until = self.inner.after(pause);
        self.inner.ready.store(false, Ordering::Relaxed);
    }
}

/// To come again, now.
const AT_ONCE: Settlement = Settlement::Again(Duration::ZERO);

/// Waits for a call that is on its way, or for ever.
async fn arrived(receiving: &mut Option<Receiving>) -> Result<Received, SourceError> {
    match receiving {
        Some(receiving) => receiving.await,
        None => std::future::pending().await,
    }
}
