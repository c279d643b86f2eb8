//! Short words for what the promises do to an outbox.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use semel::{
    outbox::{
        Destination, Event, EventId, Lane, Lead, Leader, Led, OutboxRetain, OutboxStore, Park,
        Parked, ParkedState, Placed, Pos, Settle, Settled, Start, Window,
        store::{
            DestinationState, Due, EventFilter, ParkedFilter, Pass, READ_MAX, Retained, Unpark,
        },
    },
    store::Actor,
};

use super::FreshOutbox;

pub(super) const LEASE: Duration = Duration::from_secs(30);
pub(super) const KEEP: Duration = Duration::from_secs(3_600);
pub(super) const INSTANT: Duration = Duration::from_millis(1);
/// More windows, rounds and steps than any promise needs.
pub(super) const ROUNDS_MAX: usize = 1_000;
/// More bytes than a window of a promise has.
pub(super) const BYTES: usize = 64 * 1024 * 1024;

/// The destination of most promises.
pub(super) fn kafka() -> Destination {
    destination("kafka")
}

pub(super) fn destination(name: &str) -> Destination {
    Destination::new(name).expect("a destination of the suite is a name")
}

pub(super) fn lane(id: &str) -> Lane {
    Lane::new("order", id).expect("a lane of the suite is a name")
}

/// Returns an id that no other call returns.
pub(super) fn event_id() -> EventId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = u128::from(NEXT.fetch_add(1, Ordering::Relaxed));
    EventId::from_bytes((number | (0x70 << 72) | (0x80 << 56)).to_be_bytes())
}

/// Makes an event of the aggregate `id` that tells `told`.
pub(in crate::conformance) fn event(id: &str, told: &str) -> Event {
    Event::new(event_id(), lane(id), "OrderPlaced", Some(told.to_owned().into()))
        .expect("an event of the suite keeps its bounds")
}

/// Makes `n` events, in turn of the aggregates `a` and `b`.
pub(super) fn events(n: usize) -> Vec<Event> {
    (0..n).map(|at| event(["a", "b"][at % 2], &format!("event {at}"))).collect()
}

pub(super) fn lead(destination: &Destination, owner: &str) -> Lead {
    Lead {
        destination: destination.clone(),
        owner: owner.into(),
        lease: LEASE,
        start: Start::Earliest,
    }
}

/// Settles nothing yet, by a leader.
pub(super) fn settlement(leader: &Leader) -> Settle {
    Settle {
        destination: leader.destination.clone(),
        epoch: leader.epoch,
        upto: None,
        ends: false,
        park: Vec::new(),
        unpark: Vec::new(),
    }
}

pub(super) fn parked_as(state: ParkedState, placed: &Placed) -> Park {
    let (attempts, why) = match state {
        ParkedState::Failed => (8, "the topic takes no such payload"),
        _ => (0, ""),
    };
    Park { placed: placed.clone(), state, attempts, why: why.into() }
}

pub(super) fn failed(placed: &Placed) -> Park {
    parked_as(ParkedState::Failed, placed)
}

pub(super) fn behind(placed: &Placed) -> Park {
    parked_as(ParkedState::Behind, placed)
}

/// Every event that a promise is about.
pub(super) fn all() -> EventFilter {
    EventFilter { limit: 1_000, ..EventFilter::default() }
}

pub(super) fn actor() -> Actor {
    Actor { name: "ada".into(), note: "the topic was mended".into() }
}

pub(super) fn ids<'a>(placed: impl IntoIterator<Item = &'a Placed>) -> Vec<EventId> {
    placed.into_iter().map(|placed| placed.event.id).collect()
}

pub(super) fn ids_of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<EventId> {
    events.into_iter().map(|event| event.id).collect()
}

pub(super) fn parked_ids<'a>(parked: impl IntoIterator<Item = &'a Parked>) -> Vec<EventId> {
    parked.into_iter().map(|parked| parked.placed.event.id).collect()
}

/// All that is left of a pass.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) pass: Pass,
    pub(super) placed: Vec<Placed>,
    pub(super) upto: Pos,
}

/// A window of any size, behind what is settled.
pub(super) async fn window(store: &dyn OutboxStore, leader: &Leader) -> Window {
    store.read(leader.clone(), None, READ_MAX, BYTES).await.expect("a window is read")
}

/// Reads what is left of the current pass in windows of `limit` events, or says that there is none.
pub(super) async fn rest_by(
    store: &dyn OutboxStore,
    leader: &Leader,
    limit: usize,
) -> Option<Rest> {
    let mut after = None;
    let mut rest: Option<Rest> = None;
    for _ in 0..ROUNDS_MAX {
        let window =
            store.read(leader.clone(), after, limit, BYTES).await.expect("a window is read");
        let Some(pass) = window.pass else {
            assert!(window.events.is_empty(), "events of no pass");
            assert!(rest.is_none(), "a pass is gone that nobody settled");
            return None;
        };
        let rest = rest.get_or_insert(Rest { pass, placed: Vec::new(), upto: Pos(0) });
        assert_eq!(rest.pass, pass, "another pass, and nobody settled the one before");
        assert!(window.events.len() <= limit);
        for placed in window.events {
            assert!(rest.placed.last().is_none_or(|last| last.pos < placed.pos), "not in order");
            assert!(placed.pos <= window.upto && placed.at <= window.now);
            rest.placed.push(placed);
        }
        rest.upto = window.upto;
        if window.ends {
            return Some(Rest { pass, placed: std::mem::take(&mut rest.placed), upto: rest.upto });
        }
        after = Some((pass, window.upto));
    }
    panic!("a pass never ends")
}

/// Settles all of a pass.
pub(super) async fn end(store: &dyn OutboxStore, leader: &Leader, rest: &Rest) {
    let settle = Settle { upto: Some((rest.pass, rest.upto)), ends: true, ..settlement(leader) };
    let settled = store.settle(settle).await.expect("a settlement is answered");
    assert_eq!(settled, Settled::Stored);
}

/// Reads what is left of the current pass, and of the next ones for as long as they hold nothing.
pub(super) async fn rest(store: &dyn OutboxStore, leader: &Leader) -> Option<Rest> {
    for _ in 0..ROUNDS_MAX {
        let rest = rest_by(store, leader, READ_MAX).await?;
        if !rest.placed.is_empty() {
            return Some(rest);
        }
        end(store, leader, &rest).await;
    }
    panic!("pass after pass holds nothing")
}

/// Reads and settles all there is, pass by pass.
pub(super) async fn drain(store: &dyn OutboxStore, leader: &Leader) -> Vec<Placed> {
    let mut all = Vec::new();
    while let Some(rest) = rest(store, leader).await {
        end(store, leader, &rest).await;
        all.extend(rest.placed);
    }
    all
}

pub(super) async fn led(store: &dyn OutboxStore, ask: Lead) -> Leader {
    match store.lead(ask).await.expect("who asks to lead is answered") {
        Led::Leader(leader) => leader,
        Led::Follower { owner, ends_in } => {
            panic!("a leadership was promised, and {owner} leads for {ends_in:?} more")
        }
    }
}

/// Expects that another leads, and says who.
pub(super) async fn follows(store: &dyn OutboxStore, ask: Lead) -> Box<str> {
    match store.lead(ask).await.expect("who asks to lead is answered") {
        Led::Follower { owner, ends_in } => {
            assert!(ends_in > Duration::ZERO, "a lease that is over ends nobody's leadership");
            owner
        }
        Led::Leader(leader) => panic!("another leads, and a second one does too: {leader:?}"),
    }
}

/// Expects that a pass read again holds what it held, and in a store whose commits come one by one
/// nothing else but `since`, behind it.
pub(super) fn assert_again(fixed: bool, again: &Rest, held: &[Placed], since: &[Event]) {
    assert!(again.placed.starts_with(held), "{again:?} after {held:?}");
    let more = ids(&again.placed[held.len()..]);
    assert!(if fixed { more.is_empty() } else { ids_of(since).starts_with(&more) }, "{more:?}");
}

impl FreshOutbox {
    pub(super) async fn after(&self, by: Duration) {
        self.time.advance(by).await;
    }

    /// Appends and commits in one transaction.
    pub(super) async fn commit(&self, events: &[Event]) {
        let mut transaction = self.producer.begin().await;
        transaction.append(events.to_vec()).await.expect("events are appended");
        transaction.commit().await;
    }

    /// Commits an event in a way that is hinted at.
    pub(super) async fn commit_hinted(&self) {
        let told = event("a", "hinted at");
        match &self.hinted {
            Some(commit) => commit(told).await,
            None => self.commit(&[told]).await,
        }
    }

    /// Leads the destination of most promises.
    pub(super) async fn lead(&self, owner: &str) -> Leader {
        self.lead_to(&kafka(), owner).await
    }

    pub(super) async fn lead_to(&self, destination: &Destination, owner: &str) -> Leader {
        led(&*self.store, lead(destination, owner)).await
    }

    /// Lets the lease of a leader end, and has another take over.
    pub(super) async fn overtaken(&self, leader: &Leader) -> Leader {
        self.after(LEASE + INSTANT).await;
        let new = self.lead_to(&leader.destination, "another").await;
        assert!(new.epoch > leader.epoch, "{new:?} took over from {leader:?}");
        new
    }

    pub(super) async fn rest(&self, leader: &Leader) -> Option<Rest> {
        rest(&*self.store, leader).await
    }

    /// Reads what is left of a pass that is promised to hold something.
    pub(super) async fn some(&self, leader: &Leader) -> Rest {
        self.rest(leader).await.expect("something is to be read")
    }

    pub(super) async fn end(&self, leader: &Leader, rest: &Rest) {
        end(&*self.store, leader, rest).await;
    }

    pub(super) async fn drain(&self, leader: &Leader) -> Vec<Placed> {
        drain(&*self.store, leader).await
    }

    pub(super) async fn settle(&self, settle: Settle) -> Settled {
        self.store.settle(settle).await.expect("a settlement is answered")
    }

    pub(super) async fn stored(&self, settle: Settle) {
        assert_eq!(self.settle(settle).await, Settled::Stored);
    }

    /// Commits events, parks them all in one settlement, and ends the pass.
    pub(super) async fn park(
        &self,
        leader: &Leader,
        events: &[Event],
        park: impl Fn(usize, &Placed) -> Park,
    ) -> Vec<Parked> {
        self.commit(events).await;
        let rest = self.some(leader).await;
        assert_eq!(ids(&rest.placed), ids_of(events));
        let park = rest.placed.iter().enumerate().map(|(at, placed)| park(at, placed)).collect();
        let upto = Some((rest.pass, rest.upto));
        self.stored(Settle { upto, ends: true, park, ..settlement(leader) }).await;
        let parked = self.parked().await;
        let new = parked.len() - events.len();
        parked[new..].to_vec()
    }

    /// Parks one aggregate: its head failed, the others wait behind it.
    pub(super) async fn park_lane(&self, leader: &Leader, id: &str, n: usize) -> Vec<Parked> {
        let events: Vec<_> = (0..n).map(|at| event(id, &format!("{id} {at}"))).collect();
        let first = |at, placed: &_| if at == 0 { failed(placed) } else { behind(placed) };
        self.park(leader, &events, first).await
    }

    pub(super) async fn unpark(&self, leader: &Leader, unpark: Unpark) {
        self.stored(Settle { unpark: vec![unpark], ..settlement(leader) }).await;
    }

    pub(super) async fn parked_of(&self, filter: ParkedFilter) -> Vec<Parked> {
        self.inspect.parked(filter).await.expect("parked rows are listed")
    }

    pub(super) async fn parked(&self) -> Vec<Parked> {
        self.parked_of(ParkedFilter { limit: 1_000, ..ParkedFilter::default() }).await
    }

    /// Parks one aggregate, or more of it: every row waits for those before it.
    pub(super) async fn park_behind(&self, leader: &Leader, id: &str, n: usize) -> Vec<Parked> {
        let events: Vec<_> = (0..n).map(|at| event(id, &format!("{id} {at}"))).collect();
        self.park(leader, &events, |_, placed| behind(placed)).await
    }

    pub(super) async fn due(&self) -> Vec<Due> {
        self.store.due(kafka(), 1_000, BYTES).await.expect("due rows are listed")
    }

    /// The rows of all lanes that are due.
    pub(super) async fn due_rows(&self) -> Vec<Parked> {
        self.due().await.into_iter().flat_map(|due| due.rows).collect()
    }

    pub(super) async fn mark(&self, seqs: &[u64], state: ParkedState) -> u64 {
        let marked = self.inspect.mark(kafka(), seqs.to_vec(), state, actor()).await;
        marked.expect("rows are marked")
    }

    pub(super) async fn events_of(&self, filter: EventFilter) -> Vec<Placed> {
        self.inspect.events(filter).await.expect("events are listed")
    }

    pub(super) async fn events(&self) -> Vec<Placed> {
        self.events_of(all()).await
    }

    pub(super) async fn state_of(&self, destination: &Destination) -> Option<DestinationState> {
        let states = self.inspect.destinations().await.expect("destinations are listed");
        states.into_iter().find(|state| state.destination == *destination)
    }

    pub(super) async fn state(&self) -> DestinationState {
        self.state_of(&kafka()).await.expect("a destination that was led is listed")
    }

    /// Does steps of retention until none drops anything; tells how much was dropped and what the last
    /// one said.
    pub(super) async fn retain(&self, retain: &Arc<dyn OutboxRetain>) -> (u64, Retained) {
        let mut dropped = 0;
        for _ in 0..ROUNDS_MAX {
            let step = retain.retain(KEEP).await.expect("a step of retention is done");
            dropped += step.dropped;
            if step.dropped == 0 && !step.more {
                return (dropped, step);
            }
        }
        panic!("retention never ends")
    }

    /// Makes all that was appended so far old enough to be dropped.
    pub(super) async fn age(&self) {
        self.after(KEEP + INSTANT).await;
    }

    /// How much was written so far, if the outbox can tell.
    pub(super) async fn writes(&self) -> Option<u64> {
        match &self.writes {
            Some(writes) => Some(writes().await),
            None => None,
        }
    }

    /// Drops everything but what the outbox lies on, and opens it again.
    pub(super) async fn reopened(self) -> Option<(Arc<dyn OutboxStore>, impl Sized)> {
        let Self { guard, time, reopen, .. } = self;
        Some((reopen?().await, (guard, time)))
    }
}
