//! The way from one machine to the store: calls and answers that are late, lost, hang or fail, and that
//! arrive after whoever sent them is gone.

use std::{
    fmt,
    future::{Future, pending},
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use semel::{
    IntentId, Permit, Store, StoreError, StoreErrorKind,
    decide::{Ask, Finish, ReleaseAsk, Resolution, ResolveAsk},
    engine::Tasks,
    store::{
        Actor, Capabilities, Claimed, Completed, Reading, Released, Renew, Renewed,
        capability::{Bridge, Looked, Sweep, SweepBudget, Swept},
    },
};
use tokio::sync::oneshot;

use super::{
    chance::Chance,
    schedule::{Health, Schedule},
    server::Server,
    time::Time,
    trace::Trace,
};
use crate::faults::lost;

/// How often calls go wrong, and how slow they are.
#[derive(Debug, Default)]
pub(super) struct Weather {
    /// Of a thousand calls of a verb.
    faults: AtomicU64,
    bad: AtomicBool,
    /// In microseconds.
    slowness: AtomicU64,
}

impl Weather {
    pub(super) fn turns(&self, faults: u64, slowness: Duration) {
        let slowness = u64::try_from(slowness.as_micros()).unwrap_or(u64::MAX);
        self.faults.store(faults, Ordering::Relaxed);
        self.bad.store(true, Ordering::Relaxed);
        self.slowness.store(slowness, Ordering::Relaxed);
    }

    /// Nothing goes wrong any more.
    pub(super) fn clears(&self) {
        self.turns(0, Duration::from_millis(1));
        self.bad.store(false, Ordering::Relaxed);
    }

    fn is_bad(&self) -> bool {
        self.bad.load(Ordering::Relaxed)
    }
}

/// The longest time for which a call or an answer is on its way.
pub(super) const TRANSIT_MAX: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Carried,
    Fails(StoreErrorKind),
    HangAnswer,
    HangCall,
    LateAnswer,
    LateCall,
    LockTaken,
    LoseAnswer,
    LoseCall,
    Panics,
    Prompt,
}

const FAULTS: [Fate; 11] = [
    Fate::Fails(StoreErrorKind::Busy),
    Fate::Fails(StoreErrorKind::Full),
    Fate::HangAnswer,
    Fate::HangCall,
    Fate::LateAnswer,
    Fate::LateCall,
    Fate::LockTaken,
    Fate::LoseAnswer,
    Fate::LoseAnswer,
    Fate::LoseCall,
    Fate::Panics,
];

impl Fate {
    const fn name(self) -> &'static str {
        match self {
            Self::Carried | Self::Prompt => "call",
            Self::Fails(_) => "fault: fails",
            Self::HangAnswer => "fault: answer hangs",
            Self::HangCall => "fault: call hangs",
            Self::LateAnswer => "fault: answer late",
            Self::LateCall => "fault: call late",
            Self::LockTaken => "fault: lock taken",
            Self::LoseAnswer => "fault: answer lost",
            Self::LoseCall => "fault: call lost",
            Self::Panics => "fault: panics",
        }
    }
}

/// One machine's way to the store.
pub(super) struct Wire {
    pub(super) machine: usize,
    pub(super) server: Arc<Server>,
    pub(super) network: Tasks,
    pub(super) time: Arc<Time>,
    pub(super) chance: Chance,
    pub(super) trace: Arc<Trace>,
    pub(super) weather: Arc<Weather>,
    pub(super) schedule: Arc<Schedule>,
    /// For how long at most the machine freezes when it does so in the middle of a call.
    pub(super) freezes: Duration,
    /// How often this machine has swept.
    pub(super) sweeps: Arc<AtomicU64>,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl Wire {
    fn fate(&self, verb: &'static str, id: Option<&IntentId>) -> Fate {
        let fate = if self.chance.permille(self.weather.faults.load(Ordering::Relaxed)) {
            self.chance.pick(&FAULTS)
        } else if self.chance.one_in(3) {
            Fate::Prompt
        } else {
            Fate::Carried
        };
        let key = id.map_or("", |id| id.key.as_str());
        self.trace.note(fate.name(), &format_args!("{} {verb} {key} {fate:?}", self.machine));
        if !self.freezes.is_zero() && self.weather.is_bad() && self.chance.one_in(40) {
            let (schedule, time) = (Arc::clone(&self.schedule), Arc::clone(&self.time));
            let (machine, span) = (self.machine, self.chance.span(self.freezes));
            let how = format_args!("{machine} in a call for {span:?}");
            self.trace.note("process frozen", &how);
            schedule.set(machine, Health::Frozen);
            self.network.spawn(async move {
                time.passes(span).await;
                schedule.thaw(machine);
            });
        }
        fate
    }

    /// Carries a call to the store and its answer back, as fate wants it.
    async fn carry<T: Send + 'static>(
        &self,
        fate: Fate,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        match fate {
            Fate::Prompt if !self.server.is_away() => return call.await,
            Fate::Fails(kind) => return Err(StoreError::new(kind, "the simulation says so")),
            Fate::HangCall => return pending().await,
            // Unlike a panic of its own this one prints nothing.
            Fate::Panics => resume_unwind(Box::new("the simulation says so")),
            _ => {}
        }
        let slow = Duration::from_micros(self.weather.slowness.load(Ordering::Relaxed));
        let span = |late: bool| self.chance.span(if late { TRANSIT_MAX } else { slow });
        let there = span(fate == Fate::LateCall);
        let back = span(fate == Fate::LateAnswer);
        let (tell, told) = oneshot::channel();
        let (time, server) = (Arc::clone(&self.time), Arc::clone(&self.server));
        self.network.spawn(async move {
            time.passes(there).await;
            let arrives = fate != Fate::LoseCall && !server.is_away();
            let answer = if arrives { call.await } else { Err(lost()) };
            if fate == Fate::HangAnswer {
                return pending().await;
            }
            time.passes(back).await;
            drop(tell.send(if fate == Fate::LoseAnswer { Err(lost()) } else { answer }));
        });
        told.await.unwrap_or_else(|_| Err(lost()))
    }
}

#[async_trait]
impl Store for Wire {
    fn capabilities(&self) -> Capabilities {
        self.server.capabilities()
    }

    async fn claim(&self, asks: Vec<Ask>) -> Result<Vec<Claimed>, StoreError> {
        let fate = self.fate("claim", asks.first().map(|ask| &ask.id));
        let server = Arc::clone(&self.server);
        let call = async move {
            if fate == Fate::LockTaken {
                return Ok(server.lock_taken(&asks));
            }
            server.claim(asks).await
        };
        self.carry(fate, call).await
    }

    async fn renew(&self, renewals: Vec<Renew>) -> Result<Vec<Renewed>, StoreError> {
        let fate = self.fate("renew", renewals.first().map(|renewal| &renewal.id));
        let server = Arc::clone(&self.server);
        let call = async move {
            if fate == Fate::LockTaken {
                return Ok(renewals.iter().map(|_| Renewed::Busy).collect());
            }
            server.renew(renewals).await
        };
        self.carry(fate, call).await
    }

    async fn complete(&self, permit: Permit, finish: Finish) -> Result<Completed, StoreError> {
        let fate = self.fate("complete", Some(&permit.id));
        let server = Arc::clone(&self.server);
        self.carry(fate, async move { server.complete(permit, finish).await }).await
    }

    async fn release(&self, id: IntentId, ask: ReleaseAsk) -> Result<Released, StoreError> {
        let fate = self.fate("release", Some(&id));
        let server = Arc::clone(&self.server);
        self.carry(fate, async move { server.release(id, ask).await }).await
    }

    async fn read(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError> {
        let fate = self.fate("read", ids.first());
        let server = Arc::clone(&self.server);
        self.carry(fate, async move { server.read(ids).await }).await
    }

    async fn resolve(
        &self,
        id: IntentId,
        ask: ResolveAsk,
        actor: Actor,
    ) -> Result<Resolution, StoreError> {
        let fate = self.fate("resolve", Some(&id));
        let server = Arc::clone(&self.server);
        self.carry(fate, async move { server.resolve(id, ask, actor).await }).await
    }
}

#[async_trait]
impl Sweep for Wire {
    async fn sweep(&self, budget: SweepBudget) -> Result<Swept, StoreError> {
        self.sweeps.fetch_add(1, Ordering::Relaxed);
        let fate = self.fate("sweep", None);
        let server = Arc::clone(&self.server);
        self.carry(fate, async move { server.sweep(budget).await }).await
    }
}

#[async_trait]
impl Bridge for Wire {
    async fn look(&self, id: IntentId) -> Result<Looked, StoreError> {
        let fate = self.fate("look", Some(&id));
        let server = Arc::clone(&self.server);
        self.carry(fate, async move { server.look(id).await }).await
    }
}
