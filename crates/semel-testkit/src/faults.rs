//! A store that fails by script: calls that never arrive, answers that are lost on the way.

use std::{
    collections::{HashMap, VecDeque},
    future::{Future, pending},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use semel::{
    IntentId, Permit, Refusal, Store, StoreError, StoreErrorKind,
    decide::{Ask, Finish, ReleaseAsk, Resolution, ResolveAsk},
    store::{
        Actor, Capabilities, ClaimAnswer, Claimed, Completed, Reading, Released, Renew, Renewed,
    },
};
use tokio::sync::watch;

/// A verb of the store.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Verb {
    /// `Store::claim`.
    Claim,
    /// `Store::complete`.
    Complete,
    /// `Store::read`.
    Read,
    /// `Store::release`.
    Release,
    /// `Store::renew`.
    Renew,
    /// `Store::resolve`.
    Resolve,
}

/// What happens to one call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The call arrives only when the gate is opened.
    Delay(Arc<Gate>),
    /// The call is done at once, and answered only when the gate is opened.
    DelayAnswer(Arc<Gate>),
    /// Nothing is done, and an error of this kind is answered.
    Fail(StoreErrorKind),
    /// The call is done and never answered.
    HangAnswer,
    /// The call never arrives and is never answered.
    HangCall,
    /// The call is done, and an error says that the answer was lost.
    LoseAnswer,
    /// A claim or a renewal meets a lock that somebody's transaction holds, of which nobody can say
    /// more; other verbs pass.
    LockTaken,
    /// The call never arrives, and an error says that it may have.
    LoseCall,
    /// The call panics.
    Panic,
    /// Nothing happens.
    Pass,
    /// The call is done, and waits for its turn before and after.
    Slow,
}

/// A gate that holds calls until a test opens it.
#[derive(Debug)]
pub struct Gate {
    open: watch::Sender<bool>,
    arrived: watch::Sender<usize>,
}

impl Gate {
    /// Makes a gate that is shut.
    #[must_use]
    pub fn shut() -> Arc<Self> {
        Arc::new(Self { open: watch::Sender::new(false), arrived: watch::Sender::new(0) })
    }

    /// Lets everybody pass, now and later.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until `count` calls stand before the gate or have passed it.
    pub async fn arrived(&self, count: usize) {
        let mut arrived = self.arrived.subscribe();
        arrived.wait_for(|now| *now >= count).await.expect("the gate outlives its borrow");
    }

    /// Waits until the gate is open.
    pub async fn pass(&self) {
        self.arrived.send_modify(|count| *count += 1);
        let mut open = self.open.subscribe();
        open.wait_for(|open| *open).await.expect("the gate outlives its borrow");
    }
}

#[derive(Debug, Default)]
struct Script {
    once: HashMap<Verb, VecDeque<Fault>>,
    always: HashMap<Verb, Fault>,
    calls: HashMap<Verb, usize>,
    done: HashMap<Verb, usize>,
}

/// Wraps any store and does to its calls what a script says.
///
/// ```
/// # use std::sync::Arc;
/// # use semel::{Store, store::memory::MemoryStore};
/// # use semel_testkit::{Fault, FaultyStore, Verb};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let store = FaultyStore::over(Arc::new(MemoryStore::new()));
/// store.next(Verb::Read, Fault::LoseAnswer);
/// assert!(store.read(Vec::new()).await.is_err());
/// assert!(store.read(Vec::new()).await.is_ok());
/// assert_eq!((store.calls(Verb::Read), store.done(Verb::Read)), (2, 2));
/// # }
/// ```
#[derive(Debug)]
pub struct FaultyStore {
    store: Arc<dyn Store>,
    script: Mutex<Script>,
    called: watch::Sender<usize>,
    capabilities: Option<Capabilities>,
}

impl FaultyStore {
    /// Wraps a store; without a script every call passes.
    #[must_use]
    pub fn over(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            store,
            script: Mutex::default(),
            called: watch::Sender::new(0),
            capabilities: None,
        })
    }

    /// Wraps a store, and says other capabilities than it does.
    #[must_use]
    pub fn claiming(store: Arc<dyn Store>, capabilities: Capabilities) -> Arc<Self> {
        Arc::new(Self {
            store,
            script: Mutex::default(),
            called: watch::Sender::new(0),
            capabilities: Some(capabilities),
        })
    }

    /// Adds a fault for the next call of a verb that has none yet.
    pub fn next(&self, verb: Verb, fault: Fault) {
        self.lock().once.entry(verb).or_default().push_back(fault);
    }

    /// Sets what happens to every call of a verb once its single faults are used up.
    pub fn always(&self, verb: Verb, fault: Fault) {
        self.lock().always.insert(verb, fault);
    }

    /// Takes all faults away.
    pub fn heal(&self) {
        let mut script = self.lock();
        script.once.clear();
        script.always.clear();
    }

    /// Returns how often a verb was called.
    #[must_use]
    pub fn calls(&self, verb: Verb) -> usize {
        self.lock().calls.get(&verb).copied().unwrap_or(0)
    }

    /// Returns how often a verb was done by the store below.
    #[must_use]
    pub fn done(&self, verb: Verb) -> usize {
        self.lock().done.get(&verb).copied().unwrap_or(0)
    }

    /// Waits until a verb was called at least `count` times.
    pub async fn called(&self, verb: Verb, count: usize) {
        let mut called = self.called.subscribe();
        let enough = called.wait_for(|_| self.calls(verb) >= count);
        drop(enough.await.expect("the store outlives its borrow"));
    }

    fn lock(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, verb: Verb) -> Fault {
        let mut script = self.lock();
        *script.calls.entry(verb).or_default() += 1;
        let once = script.once.get_mut(&verb).and_then(VecDeque::pop_front);
        let fault = once.or_else(|| script.always.get(&verb).cloned()).unwrap_or(Fault::Pass);
        drop(script);
        self.called.send_modify(|count| *count += 1);
        fault
    }

    async fn through<T>(
        &self,
        verb: Verb,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.meet(self.take(verb), verb, call).await
    }

    async fn meet<T>(
        &self,
        fault: Fault,
        verb: Verb,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        match &fault {
            Fault::Delay(gate) => gate.pass().await,
            Fault::Fail(kind) => return Err(StoreError::new(*kind, "the script says so")),
            Fault::HangCall => pending().await,
            Fault::LoseCall => return Err(lost()),
            Fault::Slow => tokio::task::yield_now().await,
            Fault::Panic => panic!("the script says that {verb:?} panics"),
            _ => {}
        }
        let answer = call.await;
        *self.lock().done.entry(verb).or_default() += 1;
        match fault {
            Fault::DelayAnswer(gate) => gate.pass().await,
            Fault::HangAnswer => pending().await,
            Fault::LoseAnswer => return Err(lost()),
            Fault::Slow => tokio::task::yield_now().await,
            _ => {}
        }
        answer
    }
}

pub(crate) fn lost() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "the script lost the call or its answer")
}

fn lock_taken() -> ClaimAnswer {
    ClaimAnswer::Refused(Refusal::InProgress {
        claimed_at: None,
        lease_left: Duration::ZERO,
        claimed_by: None,
    })
}

#[async_trait]
impl Store for FaultyStore {
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone().unwrap_or_else(|| self.store.capabilities())
    }

    async fn claim(&self, asks: Vec<Ask>) -> Result<Vec<Claimed>, StoreError> {
        match self.take(Verb::Claim) {
            Fault::LockTaken => {
                let now = self.store.read(Vec::new()).await?.now;
                Ok(asks.iter().map(|_| Claimed { answer: lock_taken(), now }).collect())
            }
            fault => self.meet(fault, Verb::Claim, self.store.claim(asks)).await,
        }
    }

    async fn renew(&self, renewals: Vec<Renew>) -> Result<Vec<Renewed>, StoreError> {
        match self.take(Verb::Renew) {
            Fault::LockTaken => Ok(renewals.iter().map(|_| Renewed::Busy).collect()),
            fault => self.meet(fault, Verb::Renew, self.store.renew(renewals)).await,
        }
    }

    async fn complete(&self, permit: Permit, finish: Finish) -> Result<Completed, StoreError> {
        self.through(Verb::Complete, self.store.complete(permit, finish)).await
    }

    async fn release(&self, id: IntentId, ask: ReleaseAsk) -> Result<Released, StoreError> {
        self.through(Verb::Release, self.store.release(id, ask)).await
    }

    async fn read(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError> {
        self.through(Verb::Read, self.store.read(ids)).await
    }

    async fn resolve(
        &self,
        id: IntentId,
        ask: ResolveAsk,
        actor: Actor,
    ) -> Result<Resolution, StoreError> {
        self.through(Verb::Resolve, self.store.resolve(id, ask, actor)).await
    }
}
