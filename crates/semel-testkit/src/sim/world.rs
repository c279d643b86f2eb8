//! One world: a store, processes with an engine each, and what is known of everybody from outside.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use semel::{
    Clock, Engine, Fingerprint, IntentId, Key, Operation, Scope, Store, Tenant, Timestamp, Token,
    engine::Tasks,
    store::capability::{Bridge, Sweep, SweepBudget},
};
use tokio_util::sync::CancellationToken;

use super::{
    chance::Chance,
    plan::{Form, Plan},
    schedule::{Health, Schedule},
    server::{Lie, Server},
    time::{MachineClock, Time},
    trace::Trace,
    wire::{TRANSIT_MAX, Weather, Wire},
};
use crate::{
    History,
    history::{Ask, Terms},
};

/// One process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) machine: usize,
    pub(super) engine: Engine,
    pub(super) clock: Arc<MachineClock>,
    pub(super) tasks: Tasks,
    /// Cancelled when it is killed.
    pub(super) killed: CancellationToken,
    /// How often it has swept.
    sweeps: Arc<AtomicU64>,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) chance: Chance,
    pub(super) time: Arc<Time>,
    pub(super) schedule: Arc<Schedule>,
    pub(super) trace: Arc<Trace>,
    pub(super) history: Arc<History>,
    pub(super) server: Arc<Server>,
    pub(super) weather: Arc<Weather>,
    /// Tasks of nobody's process: callers, the network, providers, the operator.
    pub(super) outside: Tasks,
    processes: Mutex<Vec<Process>>,
    /// Every engine that there ever was.
    engines: Mutex<Vec<Engine>>,
    /// The runs by the tokens of their claims.
    runs: Mutex<BTreeMap<Token, Ask>>,
    /// Asks and runs that have not ended, and the machine they are on.
    open: Mutex<BTreeMap<Ask, usize>>,
    /// How often each intent was acted on.
    acted: Mutex<BTreeMap<Ask, (IntentId, u64)>>,
    /// How often the store's clock was set forward.
    jumps: AtomicU64,
    calm: AtomicBool,
    ended: AtomicBool,
    /// What went wrong with a process rather than with an intent.
    faults: Mutex<Vec<String>>,
}

impl World {
    pub(super) fn new(plan: Plan, chance: Chance, written: bool) -> Arc<Self> {
        let time = Time::new();
        let trace = Trace::new(Arc::clone(&time), written);
        let history = Arc::new(History::default());
        history.promise(plan.promise());
        let schedule = Schedule::new(plan.order);
        let outside = schedule.tasks(schedule.machine());
        let server = Server::new(&time, &trace, &history, plan.lie.clone());
        let world = Arc::new(Self {
            plan,
            chance,
            time,
            schedule,
            trace,
            history,
            server,
            weather: Arc::default(),
            outside,
            processes: Mutex::default(),
            engines: Mutex::default(),
            runs: Mutex::default(),
            open: Mutex::default(),
            acted: Mutex::default(),
            jumps: AtomicU64::new(0),
            calm: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            faults: Mutex::default(),
        });
        for _ in 0..world.plan.processes {
            let process = world.start();
            lock(&world.processes).push(process);
        }
        world
    }

    /// Starts a process.
    fn start(&self) -> Process {
        let (machine, sweeps) = (self.schedule.machine(), Arc::<AtomicU64>::default());
        let wire = Arc::new(Wire {
            machine,
            server: Arc::clone(&self.server),
            network: self.outside.clone(),
            time: Arc::clone(&self.time),
            chance: self.chance.clone(),
            trace: Arc::clone(&self.trace),
            weather: Arc::clone(&self.weather),
            schedule: Arc::clone(&self.schedule),
            freezes: self.plan.freezes,
            sweeps: Arc::clone(&sweeps),
        });
        let ahead = Duration::from_micros(self.chance.below(1_000_000_000));
        let rate = 999_900 + self.chance.below(201);
        let wall = Timestamp::from_micros(self.chance.below(4_000_000_000_000_000));
        let clock = MachineClock::new(Arc::clone(&self.time), ahead, rate, wall);
        let mut builder = Engine::builder(Arc::clone(&wire) as Arc<dyn Store>)
            .clock(Arc::clone(&clock) as Arc<dyn Clock>)
            .entropy(self.chance.entropy())
            .poll_every(self.plan.poll_every)
            .waiters_max(self.plan.waiters_max)
            .turns(self.schedule.turns(machine));
        if self.plan.form == Form::Bridged {
            builder = builder.bridge(Arc::clone(&wire) as Arc<dyn Bridge>);
        }
        let engine = builder.build();
        engine.sweep_with(wire as Arc<dyn Sweep>, self.plan.sweep_every, SweepBudget::default());
        lock(&self.engines).push(engine.clone());
        let tasks = self.schedule.tasks(machine);
        Process { machine, engine, clock, tasks, killed: CancellationToken::new(), sweeps }
    }

    pub(super) fn process(&self, slot: usize) -> Process {
        lock(&self.processes)[slot].clone()
    }

    pub(super) fn processes(&self) -> Vec<Process> {
        lock(&self.processes).clone()
    }

    pub(super) fn engines(&self) -> Vec<Engine> {
        lock(&self.engines).clone()
    }

    pub(super) fn any_slot(&self) -> usize {
        self.chance.index(self.plan.processes)
    }

    /// Kills a process at whatever step its tasks are, and starts another in its place.
    pub(super) fn kill(&self, slot: usize) {
        let killed = self.process(slot);
        self.trace.note("process killed", &killed.machine);
        self.schedule.set(killed.machine, Health::Dead);
        let now = self.now();
        lock(&self.open).retain(|ask, machine| {
            if *machine == killed.machine {
                self.history.left(*ask, now);
            }
            *machine != killed.machine
        });
        let process = self.start();
        lock(&self.processes)[slot] = process;
        killed.killed.cancel();
    }

    /// Freezes a process for a while, its clock apart.
    pub(super) async fn freeze(&self, slot: usize, span: Duration) {
        let Process { machine, .. } = self.process(slot);
        self.trace.note("process frozen", &format_args!("{machine} for {span:?}"));
        self.schedule.set(machine, Health::Frozen);
        self.time.passes(span).await;
        if self.schedule.thaw(machine) {
            self.trace.note("process thawed", &machine);
        }
    }

    /// Returns the store's time.
    pub(super) fn now(&self) -> Timestamp {
        self.server.now()
    }

    /// Restarts the store on a machine whose clock is ahead.
    pub(super) fn jump(&self, span: Duration) {
        self.jumps.fetch_add(1, Ordering::Relaxed);
        self.trace.note("store's clock jumped", &format_args!("{span:?}"));
        self.server.jumps(span);
    }

    pub(super) fn jumps(&self) -> u64 {
        self.jumps.load(Ordering::Relaxed)
    }

    pub(super) fn key(&self, number: usize) -> IntentId {
        let tenant = Tenant::new("acme").expect("a name");
        let operation = Operation::new("pay").expect("a name");
        Scope::new(tenant, operation).intent(Key::new(format!("k{number}")).expect("a key"))
    }

    pub(super) fn terms(&self, content: u64) -> Terms {
        Terms {
            content,
            on_lost: self.plan.on_lost,
            lease: self.plan.policy.lease,
            replay_for: self.plan.policy.replay_for,
            remember_for: self.plan.policy.remember_for,
            transit: TRANSIT_MAX * 4 + self.plan.policy.claim_timeout,
        }
    }

    /// Returns the fingerprint of a content.
    pub(super) fn fingerprint(content: u64) -> Fingerprint {
        Fingerprint::of_bytes(&content.to_be_bytes())
    }

    /// Returns the content that an intent is recorded with.
    pub(super) async fn content_of(&self, id: &IntentId) -> u64 {
        let recorded = self.server.record(id).await.map(|record| record.fingerprint);
        let is_it = |content: &u64| recorded == Some(Self::fingerprint(*content));
        (0..self.plan.contents).find(is_it).unwrap_or_default()
    }

    pub(super) fn opens(&self, ask: Ask, machine: usize) {
        lock(&self.open).insert(ask, machine);
    }

    /// Notes that an ask has ended; false if its process was killed before, or the world has ended.
    pub(super) fn closes(&self, ask: Ask) -> bool {
        let was_open = lock(&self.open).remove(&ask).is_some();
        was_open && !self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn granted(&self, token: Token, ask: Ask) {
        lock(&self.runs).insert(token, ask);
    }

    pub(super) fn run_of(&self, token: Token) -> Option<Ask> {
        lock(&self.runs).get(&token).copied()
    }

    /// Does the effect of a run where it is counted.
    pub(super) fn acts(&self, ask: Ask, id: &IntentId, key: u64) {
        if matches!(self.plan.lie, Lie::ActsNot) && self.chance.one_in(5) {
            return self.trace.note("lie", &"an effect is lost");
        }
        self.trace.note("effect", &format_args!("{} by {}", id.key, ask.number()));
        lock(&self.acted).insert(ask, (id.clone(), key));
        self.history.acts(ask, key);
    }

    pub(super) fn has_acted(&self, ask: Ask) -> bool {
        lock(&self.acted).contains_key(&ask)
    }

    /// Says whether anybody acted on an intent, as its provider sees it.
    pub(super) fn is_acted_on(&self, id: &IntentId) -> bool {
        lock(&self.acted).values().any(|(acted, _)| acted == id)
    }

    /// Starts something that belongs to no process.
    pub(super) fn outside(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.outside.spawn(task));
    }

    /// From here on nothing is noted: what is left is dropped.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// From here on nobody makes trouble.
    pub(super) fn calm(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    pub(super) fn faults(&self) -> Vec<String> {
        lock(&self.faults).clone()
    }

    /// Judges the processes once all that was asked has come to its end: nothing is held, nobody waits,
    /// the sweep goes on, and an engine that is closed ends.
    pub(super) async fn judges(&self) {
        let open: Vec<_> = lock(&self.open).keys().map(|ask| ask.number()).collect();
        let mut faults = Vec::new();
        if !open.is_empty() {
            faults.push(format!("asks {open:?} never end"));
        }
        let swept: Vec<_> =
            self.processes().iter().map(|p| p.sweeps.load(Ordering::Relaxed)).collect();
        self.time.passes(self.plan.sweep_every * 2 + Duration::from_secs(60)).await;
        for (process, swept) in self.processes().iter().zip(swept) {
            let Process { machine, engine, sweeps, .. } = process;
            if engine.holding() != 0 {
                faults.push(format!("process {machine} holds for ever"));
            }
            if engine.waiting() != 0 {
                faults.push(format!("process {machine} waits for ever"));
            }
            if sweeps.load(Ordering::Relaxed) == swept {
                faults.push(format!("process {machine} sweeps no more"));
            }
            let before = self.time.now();
            let wait = Duration::from_secs(30);
            engine.close(wait).await;
            if self.time.now() > before + wait + Duration::from_secs(1) {
                faults.push(format!("process {machine} does not close"));
            }
        }
        lock(&self.faults).extend(faults);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
