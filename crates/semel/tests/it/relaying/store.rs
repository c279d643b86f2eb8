//! A store that fails by rule.

use std::{
    collections::HashMap,
    fmt,
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use semel::{
    Clock, Monotonic, StoreError, StoreErrorKind,
    outbox::{
        Destination, Lane, Lead, Leader, Led, OutboxStore, Pos, Settle, Settled, Window,
        memory::MemoryOutbox,
        store::{Due, Pass},
    },
};
use semel_testkit::ManualClock;

/// A verb of an outbox.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Verb {
    Due,
    Lead,
    ParkedLanes,
    Read,
    Renew,
    Resign,
    Settle,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Do {
    /// It never arrives and fails.
    Fail,
    /// It is done, and the answer comes after a while.
    Late(Duration),
    /// It is done, and its answer is lost.
    LoseAnswer,
    /// It never arrives and is never answered.
    Hang,
    Pass,
    /// It arrives after a while.
    Slow(Duration),
}

type Rule = Box<dyn FnMut(Verb) -> Do + Send>;
type Lie = Box<dyn FnMut(Settle) -> Settle + Send>;
type Answered = (Settle, Option<Settled>);
type Timed = (Settle, Option<Settled>, Monotonic);

/// An outbox behind a rule.
pub(super) struct Faulty {
    inner: MemoryOutbox,
    clock: Arc<ManualClock>,
    rule: Mutex<Rule>,
    calls: Mutex<HashMap<Verb, u64>>,
    settled: Arc<Mutex<Vec<Timed>>>,
    lie: Mutex<Lie>,
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").finish_non_exhaustive()
    }
}

impl Faulty {
    pub(super) fn over(inner: MemoryOutbox, clock: Arc<ManualClock>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            clock,
            rule: Mutex::new(Box::new(|_| Do::Pass)),
            calls: Mutex::default(),
            settled: Arc::default(),
            lie: Mutex::new(Box::new(|settle| settle)),
        })
    }

    /// Sets the rule.
    pub(super) fn rule(&self, rule: impl FnMut(Verb) -> Do + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
    }

    /// Changes every settlement before it is written, as a relay would that is wrong.
    pub(super) fn lie(&self, lie: impl FnMut(Settle) -> Settle + Send + 'static) {
        *self.lie.lock().unwrap() = Box::new(lie);
    }

    /// Does something once, to the next call of a verb.
    pub(super) fn once(&self, verb: Verb, what: Do) {
        let mut left = true;
        self.rule(move |of| if of == verb && std::mem::take(&mut left) { what } else { Do::Pass });
    }

    pub(super) fn calls(&self, verb: Verb) -> u64 {
        self.calls.lock().unwrap().get(&verb).copied().unwrap_or(0)
    }

    /// Every settlement that arrived, with its answer.
    pub(super) fn settlements(&self) -> Vec<Answered> {
        self.timed().into_iter().map(|(settle, answer, _)| (settle, answer)).collect()
    }

    /// The same, and when each arrived.
    pub(super) fn timed(&self) -> Vec<Timed> {
        self.settled.lock().unwrap().clone()
    }

    async fn through<T, F>(&self, verb: Verb, call: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        *self.calls.lock().unwrap().entry(verb).or_default() += 1;
        let what = (self.rule.lock().unwrap())(verb);
        let wait = |wait| self.clock.sleep_until(self.clock.monotonic().after(wait));
        let failed = |says: &str| Err(StoreError::new(StoreErrorKind::Unavailable, says));
        match what {
            Do::Fail => failed("the call was lost"),
            Do::Hang => pending().await,
            Do::Late(by) => {
                let answer = call.await;
                wait(by).await;
                answer
            }
            Do::LoseAnswer => {
                call.await?;
                failed("the answer was lost")
            }
            Do::Pass => call.await,
            Do::Slow(by) => {
                // It is on its way: it arrives although nobody waits for its answer any more.
                let clock = Arc::clone(&self.clock);
                let at = clock.monotonic().after(by);
                let arrives = tokio::spawn(async move {
                    clock.sleep_until(at).await;
                    call.await
                });
                arrives.await.unwrap()
            }
        }
    }
}

#[async_trait]
impl OutboxStore for Faulty {
    async fn lead(&self, ask: Lead) -> Result<Led, StoreError> {
        let inner = self.inner.clone();
        self.through(Verb::Lead, async move { inner.lead(ask).await }).await
    }

    async fn renew(&self, leader: Leader, lease: Duration) -> Result<Settled, StoreError> {
        let inner = self.inner.clone();
        self.through(Verb::Renew, async move { inner.renew(leader, lease).await }).await
    }

    async fn resign(&self, leader: Leader) -> Result<Settled, StoreError> {
        let inner = self.inner.clone();
        self.through(Verb::Resign, async move { inner.resign(leader).await }).await
    }

    async fn read(
        &self,
        leader: Leader,
        after: Option<(Pass, Pos)>,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Window, StoreError> {
        let inner = self.inner.clone();
        self.through(Verb::Read, async move { inner.read(leader, after, limit, bytes_max).await })
            .await
    }

    async fn settle(&self, settle: Settle) -> Result<Settled, StoreError> {
        let (inner, settled) = (self.inner.clone(), Arc::clone(&self.settled));
        let clock = Arc::clone(&self.clock);
        let settle = (self.lie.lock().unwrap())(settle);
        let call = async move {
            let answer = inner.settle(settle.clone()).await;
            let seen = answer.as_ref().ok().copied();
            settled.lock().unwrap().push((settle, seen, clock.monotonic()));
            answer
        };
        self.through(Verb::Settle, call).await
    }

    async fn parked_lanes(
        &self,
        destination: Destination,
        after: Option<Lane>,
    ) -> Result<Vec<Lane>, StoreError> {
        let inner = self.inner.clone();
        self.through(Verb::ParkedLanes, async move { inner.parked_lanes(destination, after).await })
            .await
    }

    async fn due(
        &self,
        destination: Destination,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Vec<Due>, StoreError> {
        let inner = self.inner.clone();
        self.through(Verb::Due, async move { inner.due(destination, limit, bytes_max).await }).await
    }
}
