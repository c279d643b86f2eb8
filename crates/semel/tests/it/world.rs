//! One store, and engines on it that share nothing else, as processes do.

use std::{sync::Arc, time::Duration};

use semel::{
    Begun, Call, Engine, EngineBuilder, Fingerprint, Holder, IntentId, Key, Operation, Outcome,
    Permit, Phase, Policy, Record, Refusal, Scope, Store, Tenant, Timestamp, Token,
    decide::{Ask, Compare, OnLost},
    store::{ClaimAnswer, capability::Notify, memory::MemoryStore},
};
use semel_testkit::{FaultyStore, ManualClock};
use tokio::task::JoinHandle;

pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const INSTANT: Duration = Duration::from_millis(1);

/// A memory store on a clock that stands still, behind faults, with an engine on it.
pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) memory: Arc<MemoryStore>,
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) engine: Engine,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::built(|builder| builder)
    }

    pub(crate) fn built(with: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Self {
        let clock = ManualClock::new();
        let memory = Arc::new(MemoryStore::with_clock(clock.clone()));
        let store = FaultyStore::over(memory.clone());
        Self::over(clock, memory, store, with)
    }

    /// A world whose store says that other processes may use it too.
    pub(crate) fn shared() -> Self {
        Self::shared_and(|_, builder| builder)
    }

    /// The same, whose store hints at what ends in them.
    pub(crate) fn hinting(notify: impl FnOnce(Arc<MemoryStore>) -> Arc<dyn Notify>) -> Self {
        Self::shared_and(|memory, builder| builder.notify(notify(memory)))
    }

    fn shared_and(with: impl FnOnce(Arc<MemoryStore>, EngineBuilder) -> EngineBuilder) -> Self {
        let clock = ManualClock::new();
        let memory = Arc::new(MemoryStore::with_clock(clock.clone()));
        let mut capabilities = memory.capabilities();
        capabilities.shared = true;
        let store = FaultyStore::claiming(memory.clone(), capabilities);
        let behind = memory.clone();
        Self::over(clock, memory, store, |builder| with(behind, builder))
    }

    fn over(
        clock: Arc<ManualClock>,
        memory: Arc<MemoryStore>,
        store: Arc<FaultyStore>,
        with: impl FnOnce(EngineBuilder) -> EngineBuilder,
    ) -> Self {
        let engine = with(Engine::builder(store.clone()).clock(clock.clone())).build();
        Self { clock, memory, store, engine }
    }

    /// Another process on the same store, which meets no faults.
    pub(crate) fn other(&self) -> Engine {
        Engine::builder(self.memory.clone()).clock(self.clock.clone()).build()
    }

    /// Claims `key` under a policy, and expects to run.
    pub(crate) async fn hold(&self, key: &str, policy: Policy) -> Holder {
        running(self.engine.begin(call(key, policy)).await.unwrap())
    }

    /// Claims `key` as a process does that is killed at once: nothing renews the lease.
    pub(crate) async fn crash(&self, key: &str) -> Permit {
        let ask = Ask {
            id: id(key),
            token: Token::from_bytes([0xdd; 16]),
            fingerprint: Fingerprint::of_bytes(b"pay 10"),
            older: Vec::new(),
            not_after: Timestamp::MAX,
            lease: LEASE,
            on_lost: OnLost::Hold,
            compare: Compare::Strict,
            claimed_by: None,
        };
        match self.memory.claim(vec![ask]).await.unwrap().remove(0).answer {
            ClaimAnswer::Granted { permit, .. } => permit,
            other => panic!("it was to be granted: {other:?}"),
        }
    }

    pub(crate) async fn record(&self, key: &str) -> Option<Record> {
        self.memory.read(vec![id(key)]).await.unwrap().records.remove(0)
    }

    pub(crate) async fn phase(&self, key: &str) -> Phase {
        let reading = self.memory.read(vec![id(key)]).await.unwrap();
        reading.records[0].as_ref().map_or(Phase::Absent, |record| record.phase(reading.now))
    }

    /// Lets every task go on until all of them wait for something.
    pub(crate) async fn settle(&self) {
        self.clock.run(Duration::ZERO).await;
    }
}

pub(crate) fn id(key: &str) -> IntentId {
    let scope =
        Scope::new(Tenant::new("acme").unwrap(), Operation::new("payments.create").unwrap());
    scope.intent(Key::new(key).unwrap())
}

/// Waits for a task that has all that it needs to end.
pub(crate) async fn ended<T>(task: JoinHandle<T>) -> T {
    let ended = tokio::time::timeout(Duration::from_secs(20), task).await;
    ended.expect("the task ends without the clock").unwrap()
}

/// A policy for a volatile store, that does not wait.
pub(crate) fn policy(on_lost: OnLost) -> Policy {
    Policy { durable: false, on_lost, wait: Duration::ZERO, ..Policy::default() }
}

/// A policy that waits for other holders.
pub(crate) fn patient(on_lost: OnLost) -> Policy {
    Policy { wait: Duration::from_secs(300), ..policy(on_lost) }
}

pub(crate) fn call(key: &str, policy: Policy) -> Call {
    Call::new(id(key), Fingerprint::of_bytes(b"pay 10"), Arc::new(policy))
}

pub(crate) fn other_content(key: &str, policy: Policy) -> Call {
    Call::new(id(key), Fingerprint::of_bytes(b"pay 11"), Arc::new(policy))
}

pub(crate) fn created() -> Outcome {
    Outcome::new(201, "{\"id\":7}").pointer("payment", "pay_7")
}

#[track_caller]
pub(crate) fn running(begun: Begun) -> Holder {
    match begun {
        Begun::Run(holder) => holder,
        other => panic!("it was to run: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn replayed(begun: Begun) -> Outcome {
    match begun {
        Begun::Replay(record) => record.outcome.unwrap(),
        other => panic!("it was to be replayed: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn refused(begun: Begun) -> Refusal {
    match begun {
        Begun::Refused(refusal) => refusal,
        other => panic!("it was to be refused: {other:?}"),
    }
}
