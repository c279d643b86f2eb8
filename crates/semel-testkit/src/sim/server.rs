//! The store that all machines of a world share: records in memory that outlive its restarts, a clock
//! that jumps at them, locks that applications hold, and lies, to show that the checker can fail.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use semel::{
    Clock, IntentId, Monotonic, Outcome, Permit, Record, Refusal, State, Store, StoreError,
    Timestamp, Token,
    decide::{Ask, Finish, ReleaseAsk, Resolution, ResolveAsk},
    store::{
        Actor, Capabilities, ClaimAnswer, Claimed, Completed, Reading, ReleaseAnswer, Released,
        Renew, Renewed,
        capability::{Looked, Sweep, SweepBudget, Swept},
        memory::MemoryStore,
    },
};
use tokio::sync::Notify;

use super::{time::Time, trace::Trace};
use crate::{History, ManualClock};

/// What a store does against its promises.
#[derive(Clone, Debug, Default)]
pub enum Lie {
    /// Not the store lies but the provider, which loses an effect now and then.
    ActsNot,
    /// It compares no contents: it replays what was asked for with another.
    ComparesNothing,
    /// It acknowledges completions that it does not keep.
    ForgetsCompletion,
    /// It says now and then that an outcome was dropped.
    ForgottenForNothing,
    /// It grants once in so many claims what somebody holds; the number counts the claims.
    GrantsTwice(u64, Arc<AtomicU64>),
    /// After some claims it says for ever that somebody works on it.
    HeldForEver,
    /// It says now and then that somebody works on what nobody works on.
    HeldForNothing,
    /// It replays something else.
    Invents,
    /// It acknowledges releases and keeps the holder.
    KeepsHolder,
    /// It says now and then that the content is another.
    MismatchForNothing,
    /// It keeps every promise.
    #[default]
    None,
    /// Not the store lies but the operator, who says "not done" without looking.
    OperatorGuesses,
    /// It remembers what was finished for a moment only.
    RemembersBriefly,
    /// It replays for longer than it was told to.
    RemembersLong,
    /// It says of a permit that has ended that it holds.
    RenewsEnded,
    /// It stores the end of a run by a permit that has ended.
    StoresEnded,
    /// It says now and then that nobody can say.
    UnknownForNothing,
}

/// The server.
#[derive(Debug)]
pub(super) struct Server {
    memory: MemoryStore,
    clock: Arc<ServerClock>,
    began: Monotonic,
    trace: Arc<Trace>,
    history: Arc<History>,
    lie: Lie,
    claims: AtomicU64,
    state: Mutex<ServerState>,
    unlocked: Notify,
}

#[derive(Debug, Default)]
struct ServerState {
    away_until: Duration,
    /// The store's time of the last write: what it knows after a restart.
    persisted: Timestamp,
    locked: BTreeSet<IntentId>,
    /// When the claims of tokens were granted.
    grants: BTreeMap<Token, Timestamp>,
}

#[derive(Debug)]
struct ServerClock {
    time: Arc<Time>,
    /// How far it is ahead of real time.
    ahead: Mutex<Duration>,
}

#[async_trait]
impl Clock for ServerClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(ManualClock::START_US)
    }

    fn monotonic(&self) -> Monotonic {
        let ahead = *self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        Monotonic::from_start(self.time.now() + ahead)
    }

    async fn sleep_until(&self, instant: Monotonic) {
        self.time.sleep_until(instant.since(Monotonic::default())).await;
    }
}

impl Server {
    pub(super) fn new(
        time: &Arc<Time>,
        trace: &Arc<Trace>,
        history: &Arc<History>,
        lie: Lie,
    ) -> Arc<Self> {
        let ahead = Mutex::new(Duration::from_secs(86_400));
        let clock = Arc::new(ServerClock { time: Arc::clone(time), ahead });
        Arc::new(Self {
            memory: MemoryStore::with_clock(Arc::clone(&clock) as Arc<dyn Clock>),
            began: clock.monotonic(),
            clock,
            trace: Arc::clone(trace),
            history: Arc::clone(history),
            lie,
            claims: AtomicU64::new(0),
            state: Mutex::default(),
            unlocked: Notify::new(),
        })
    }

    /// Returns the store's time.
    pub(super) fn now(&self) -> Timestamp {
        let since = self.clock.monotonic().since(self.began);
        Timestamp::from_micros(ManualClock::START_US).after(since)
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.memory.capabilities();
        capabilities.shared = true;
        capabilities
    }

    /// Says whether it answers nobody now.
    pub(super) fn is_away(&self) -> bool {
        self.clock.time.now() < self.lock().away_until
    }

    pub(super) fn goes_away(&self, span: Duration) {
        self.lock().away_until = self.clock.time.now() + span;
    }

    /// Restarts on a machine whose clock was set forward.
    pub(super) fn jumps(&self, span: Duration) {
        *self.clock.ahead.lock().unwrap_or_else(PoisonError::into_inner) += span;
    }

    /// Restarts on a machine whose clock was set back: time goes on from the last write.
    pub(super) fn turns_back(&self) {
        let from = self.now();
        let to = self.lock().persisted.max(Timestamp::from_micros(ManualClock::START_US));
        let back = from.since(to);
        let mut ahead = self.clock.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        *ahead = ahead.saturating_sub(back);
        drop(ahead);
        self.history.turned_back(from, self.now());
    }

    pub(super) async fn record(&self, id: &IntentId) -> Option<Record> {
        let reading = self.memory.read(vec![id.clone()]).await;
        reading.ok().and_then(|reading| reading.records.into_iter().next().flatten())
    }

    /// Returns when the claim of a token was granted.
    pub(super) fn granted_at(&self, token: Token) -> Timestamp {
        self.lock().grants.get(&token).copied().unwrap_or_else(|| self.now())
    }

    /// Locks a name for an open transaction, unless another has it.
    pub(super) fn locks(&self, id: &IntentId) -> bool {
        self.history.locked(id);
        self.lock().locked.insert(id.clone())
    }

    pub(super) fn unlocks(&self, id: &IntentId) {
        self.history.locked(id);
        self.lock().locked.remove(id);
        self.unlocked.notify_waiters();
    }

    fn is_locked(&self, id: &IntentId) -> bool {
        self.lock().locked.contains(id)
    }

    async fn until_unlocked(&self, id: &IntentId) {
        while self.is_locked(id) {
            self.unlocked.notified().await;
        }
    }

    fn writes(&self) {
        let now = self.now();
        self.lock().persisted = now;
    }

    fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call that a lying store may lie at; every so many it does.
    fn lies_once_in(&self, many: u64) -> bool {
        (self.claims.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(many)
    }

    /// Says that somebody's open transaction has the lock of a name.
    pub(super) fn lock_taken(&self, asks: &[Ask]) -> Vec<Claimed> {
        let now = self.now();
        asks.iter()
            .map(|ask| {
                self.history.locked(&ask.id);
                Claimed { answer: ClaimAnswer::Refused(in_progress()), now }
            })
            .collect()
    }

    pub(super) async fn claim(&self, mut asks: Vec<Ask>) -> Result<Vec<Claimed>, StoreError> {
        self.writes();
        let id = asks[0].id.clone();
        let record = self.record(&id).await;
        if self.is_locked(&id) && record.as_ref().is_none_or(|record| !has_ended(record)) {
            return Ok(self.lock_taken(&asks));
        }
        let held = record.filter(|r| r.state == State::Running && !r.lapsed(self.now()));
        match &self.lie {
            Lie::HeldForEver if self.claims.fetch_add(1, Ordering::Relaxed) >= 20 => {
                let answer = ClaimAnswer::Refused(in_progress());
                return Ok(vec![Claimed { answer, now: self.now() }]);
            }
            Lie::ComparesNothing => asks[0].compare = semel::decide::Compare::ReplayFirst,
            Lie::GrantsTwice(many, claims) => {
                let many = claims.fetch_add(1, Ordering::Relaxed) + 1 >= *many;
                if let Some(held) = held.filter(|held| many && held.token != asks[0].token) {
                    claims.store(0, Ordering::Relaxed);
                    self.trace.note("lie", &"granted twice");
                    self.memory.release(id, release(&held)).await?;
                }
            }
            _ => {}
        }
        let mut claimed = self.memory.claim(asks).await?;
        for claimed in &mut claimed {
            // A token whose first answer was lost may be granted anew, once another had it in between.
            if let ClaimAnswer::Granted { permit, grant: Some(_) } = &claimed.answer {
                self.lock().grants.insert(permit.token, claimed.now);
            }
            self.lies(claimed);
        }
        Ok(claimed)
    }

    fn lies(&self, claimed: &mut Claimed) {
        let granted = matches!(claimed.answer, ClaimAnswer::Granted { .. });
        let refusal = match &self.lie {
            Lie::ForgottenForNothing => Refusal::Forgotten { settled_at: None, pointer: None },
            Lie::HeldForNothing => in_progress(),
            Lie::MismatchForNothing => Refusal::Mismatch,
            Lie::UnknownForNothing => {
                Refusal::Unknown { claimed_at: claimed.now, claimed_by: None }
            }
            Lie::Invents => {
                if let ClaimAnswer::Replay(record) = &mut claimed.answer {
                    record.outcome = Some(Outcome::new(201, "something else"));
                }
                return;
            }
            _ => return,
        };
        if !granted && self.lies_once_in(7) {
            claimed.answer = ClaimAnswer::Refused(refusal);
        }
    }

    pub(super) async fn renew(&self, renewals: Vec<Renew>) -> Result<Vec<Renewed>, StoreError> {
        self.writes();
        let mut renewed = Vec::new();
        for renewal in renewals {
            if self.is_locked(&renewal.id) {
                self.history.locked(&renewal.id);
                renewed.push(Renewed::Busy);
                continue;
            }
            let answer = self.memory.renew(vec![renewal]).await?.remove(0);
            let lies = matches!(self.lie, Lie::RenewsEnded) && answer == Renewed::Stale;
            if lies {
                self.trace.note("lie", &"renewed what has ended");
            }
            renewed.push(if lies { Renewed::Held } else { answer });
        }
        Ok(renewed)
    }

    pub(super) async fn complete(
        &self,
        permit: Permit,
        mut finish: Finish,
    ) -> Result<Completed, StoreError> {
        self.until_unlocked(&permit.id).await;
        self.completes(permit, &mut finish).await
    }

    /// Completes inside of the transaction that has the lock.
    pub(super) async fn completes(
        &self,
        permit: Permit,
        finish: &mut Finish,
    ) -> Result<Completed, StoreError> {
        self.writes();
        match self.lie {
            Lie::ForgetsCompletion if finish.outcome.is_some() => return Ok(Completed::Stored),
            Lie::RemembersLong => finish.replay_for *= 10,
            Lie::RemembersBriefly => {
                (finish.replay_for, finish.remember_for) = (Duration::ZERO, Duration::ZERO);
            }
            _ => {}
        }
        let completed = self.memory.complete(permit, finish.clone()).await?;
        if completed == Completed::Stale && matches!(self.lie, Lie::StoresEnded) {
            return Ok(Completed::Stored);
        }
        Ok(completed)
    }

    pub(super) async fn release(
        &self,
        id: IntentId,
        ask: ReleaseAsk,
    ) -> Result<Released, StoreError> {
        self.until_unlocked(&id).await;
        self.writes();
        if matches!(self.lie, Lie::KeepsHolder) {
            return Ok(Released { answer: ReleaseAnswer::Stored, now: self.now() });
        }
        self.memory.release(id, ask).await
    }

    pub(super) async fn read(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError> {
        self.memory.read(ids).await
    }

    pub(super) async fn resolve(
        &self,
        id: IntentId,
        ask: ResolveAsk,
        actor: Actor,
    ) -> Result<Resolution, StoreError> {
        self.until_unlocked(&id).await;
        self.writes();
        self.memory.resolve(id, ask, actor).await
    }

    pub(super) async fn sweep(&self, budget: SweepBudget) -> Result<Swept, StoreError> {
        self.writes();
        self.memory.sweep(budget).await
    }

    pub(super) async fn look(&self, id: IntentId) -> Result<Looked, StoreError> {
        if self.is_locked(&id) {
            return Ok(Looked::Busy);
        }
        let record = self.record(&id).await.map(Box::new);
        Ok(Looked::Seen { record, now: self.now() })
    }
}

fn has_ended(record: &Record) -> bool {
    matches!(record.state, State::Done | State::Failed | State::Unknown)
}

fn in_progress() -> Refusal {
    Refusal::InProgress { claimed_at: None, lease_left: Duration::ZERO, claimed_by: None }
}

fn release(held: &Record) -> ReleaseAsk {
    ReleaseAsk {
        token: held.token,
        fence: None,
        compare: false,
        reason: None,
        remember_for: Duration::from_secs(86_400),
    }
}
