//! Short words for what the promises do to an inbox.

use std::time::{Duration, Instant};

use bytes::Bytes;
use semel::{
    StoreError,
    inbox::{
        Attempts, By, Consumer, Delivery, Failed, Handled, InboxAudit, InboxPolicy, InboxSwept,
        LogId, Mark, MessageId, MessageState, Park, ParkAnswer, ParkedFilter, ParkedMessage,
        Position, Receipt, Recorded, SourceName, Uncount,
    },
    store::Actor,
};

use super::{FreshInbox, Work};

pub(super) const DAY: Duration = Duration::from_secs(86_400);
pub(super) const INSTANT: Duration = Duration::from_millis(1);
/// More steps than any promise needs.
pub(super) const ROUNDS_MAX: usize = 1_000;

/// The consumer of most promises.
pub(super) fn billing() -> Consumer {
    consumer("billing")
}

pub(super) fn consumer(name: &str) -> Consumer {
    Consumer::new(name).expect("a consumer of the suite is a name")
}

pub(super) fn policy() -> InboxPolicy {
    InboxPolicy::new(billing())
}

pub(super) fn by_positions() -> InboxPolicy {
    InboxPolicy { by: By::Positions, ..policy() }
}

pub(super) fn of(name: &str) -> InboxPolicy {
    InboxPolicy::new(consumer(name))
}

pub(super) fn message(id: &str) -> MessageId {
    message_of("queue:orders", id)
}

pub(super) fn message_of(source: &str, id: &str) -> MessageId {
    let source = SourceName::new(source).expect("a source of the suite is a name");
    MessageId::new(source, id).expect("a message of the suite has a name")
}

/// A copy of a message whose payload is its id.
pub(super) fn delivery(id: &str) -> Delivery {
    telling(id, id)
}

pub(super) fn telling(id: &str, told: &str) -> Delivery {
    delivered(message(id), told)
}

pub(super) fn delivered(message: MessageId, told: &str) -> Delivery {
    Delivery::new(message, Receipt(1), Some(Bytes::copy_from_slice(told.as_bytes())))
}

pub(super) fn deliveries<const N: usize>(ids: [&str; N]) -> Vec<Delivery> {
    ids.into_iter().map(delivery).collect()
}

pub(super) fn log(name: &str) -> LogId {
    LogId::new(name).expect("a log of the suite is a name")
}

/// A copy of the message at an offset of the log `a`.
pub(super) fn at(offset: u64) -> Delivery {
    within("a", offset)
}

pub(super) fn within(name: &str, offset: u64) -> Delivery {
    let mut delivery = delivery(&format!("{name} {offset}"));
    delivery.position = Some(Position { log: log(name), offset });
    delivery
}

pub(super) fn parking(delivery: Delivery) -> Park {
    Park {
        consumer: billing(),
        fingerprint: delivery.fingerprint(),
        delivery,
        moves: false,
        attempts: 8,
        why: "cannot be read".into(),
    }
}

pub(super) fn actor() -> Actor {
    Actor { name: "ada".into(), note: "the schema was mended".into() }
}

pub(super) fn answering(answer: &'static str) -> Work {
    Work { answer: Some(Bytes::from_static(answer.as_bytes())), ..Work::default() }
}

pub(super) fn failing() -> Work {
    Work { fails: true, ..Work::default() }
}

#[track_caller]
pub(super) fn first(handled: Handled) -> Recorded {
    match handled {
        Handled::First(recorded) => recorded,
        other => panic!("a message that is new was not run: {other:?}"),
    }
}

#[track_caller]
pub(super) fn copy(handled: Handled) -> Recorded {
    match handled {
        Handled::Duplicate(Some(recorded)) => recorded,
        other => panic!("a copy was not told what is remembered: {other:?}"),
    }
}

#[track_caller]
pub(super) fn mismatch(handled: Handled) -> Recorded {
    match handled {
        Handled::Mismatch(recorded) => recorded,
        other => panic!("other content was taken for the same: {other:?}"),
    }
}

pub(super) fn is_first(handled: &Handled) -> bool {
    matches!(handled, Handled::First(_))
}

pub(super) fn firsts(handled: &[Handled]) -> usize {
    handled.iter().filter(|handled| is_first(handled)).count()
}

pub(super) fn ids<'a>(messages: impl IntoIterator<Item = &'a MessageId>) -> Vec<&'a str> {
    messages.into_iter().map(MessageId::id).collect()
}

pub(super) fn parked_ids(parked: &[ParkedMessage]) -> Vec<&str> {
    ids(parked.iter().map(|parked| &parked.message))
}

pub(super) fn counts(attempts: &[Attempts]) -> Vec<u32> {
    attempts.iter().map(|attempts| attempts.count).collect()
}

/// Waits until a condition holds: what was cut off may still be at work, and nobody waits for it.
pub(super) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::task::yield_now().await;
    }
}

#[track_caller]
pub(super) fn refused<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    let error = answer.expect_err("a call that breaks a bound was answered");
    assert_eq!(error.kind(), semel::StoreErrorKind::Invalid, "{error}");
}

impl FreshInbox {
    pub(super) async fn after(&self, by: Duration) {
        self.time.advance(by).await;
    }

    pub(super) async fn try_handle(
        &self,
        policy: InboxPolicy,
        delivery: &Delivery,
        work: Work,
    ) -> Result<Handled, Failed> {
        self.worker.handle(policy, delivery.clone(), work).await
    }

    pub(super) async fn run_by(&self, policy: InboxPolicy, delivery: &Delivery) -> Handled {
        let handled = self.try_handle(policy, delivery, Work::default()).await;
        handled.expect("a message is handled")
    }

    pub(super) async fn handle(&self, delivery: &Delivery) -> Handled {
        self.run_by(policy(), delivery).await
    }

    /// Handles a message whose run answers.
    pub(super) async fn answer(&self, delivery: &Delivery, answer: &'static str) -> Handled {
        let handled = self.try_handle(policy(), delivery, answering(answer)).await;
        handled.expect("a message is handled")
    }

    /// Handles several messages, with nothing beside their effects.
    pub(super) async fn batch(
        &self,
        policy: InboxPolicy,
        deliveries: Vec<Delivery>,
    ) -> Result<Vec<Handled>, Failed> {
        let work = vec![Work::default(); deliveries.len()];
        self.worker.batch(policy, deliveries, work).await
    }

    /// How many effects are committed.
    pub(super) async fn effects(&self) -> usize {
        self.worker.effects().await.len()
    }

    /// How many effects are committed of a message.
    pub(super) async fn effects_of(&self, id: &str) -> usize {
        self.worker.effects().await.iter().filter(|effect| **effect == id).count()
    }

    pub(super) async fn attempts(&self, ids: &[&str]) -> Vec<Attempts> {
        let messages = ids.iter().map(|id| message(id)).collect();
        self.store.attempts(billing(), messages).await.expect("attempts are read")
    }

    pub(super) async fn count(&self, ids: &[&str]) -> Vec<Attempts> {
        let messages = ids.iter().map(|id| message(id)).collect();
        self.store.count(billing(), messages).await.expect("attempts are counted")
    }

    pub(super) async fn uncount(&self, ids: &[&str], why: Uncount) {
        let messages = ids.iter().map(|id| message(id)).collect();
        self.store.uncount(billing(), messages, why).await.expect("attempts are forgotten");
    }

    pub(super) async fn park(&self, delivery: Delivery) -> ParkAnswer {
        self.park_as(parking(delivery)).await
    }

    pub(super) async fn park_as(&self, park: Park) -> ParkAnswer {
        self.store.park(park).await.expect("who parks a message is answered")
    }

    pub(super) async fn due(&self) -> Vec<ParkedMessage> {
        self.store.due(billing(), 1_000).await.expect("due messages are listed")
    }

    pub(super) async fn mark(&self, id: &str, mark: Mark) -> bool {
        let marked = self.inspect.mark(billing(), message(id), mark, actor()).await;
        marked.expect("who marks a message is answered")
    }

    /// Parks a message, has it run again, and returns what is due.
    pub(super) async fn again(&self, id: &str) -> Delivery {
        assert_eq!(self.park(delivery(id)).await, ParkAnswer::Parked);
        assert!(self.mark(id, Mark::Retry).await);
        let due = self.due().await;
        let parked = due.iter().find(|parked| parked.message.id() == id);
        parked.expect("it is to be run again").delivery()
    }

    pub(super) async fn state(&self, id: &str) -> MessageState {
        self.inspect.message(billing(), message(id)).await.expect("a message is read")
    }

    pub(super) async fn parked(&self) -> Vec<ParkedMessage> {
        let all = ParkedFilter { limit: 1_000, ..ParkedFilter::default() };
        self.inspect.parked(all).await.expect("parked messages are listed")
    }

    pub(super) async fn audit(&self) -> Vec<InboxAudit> {
        self.inspect.inbox_audit(None, 1_000).await.expect("the audit is read")
    }

    /// Up to where a consumer has a log.
    pub(super) async fn next(&self, name: &str) -> Option<u64> {
        let next = self.store.positions(billing(), vec![log(name)]).await;
        next.expect("positions are read")[0]
    }

    pub(super) async fn remembered(&self) -> usize {
        let had = self.inspect.had(billing(), None, 1_000).await;
        had.expect("what a consumer remembers is listed").len()
    }

    /// Does steps of the sweep until nothing more is due, and tells how much was forgotten.
    pub(super) async fn swept(&self, limit: u32) -> InboxSwept {
        let mut all = InboxSwept::default();
        for _ in 0..ROUNDS_MAX {
            let step = self.sweep.sweep_inbox(limit).await.expect("a step of the sweep is done");
            let most = step.messages.max(step.attempts);
            assert!(most <= u64::from(limit), "{step:?} in one step of {limit}");
            all.messages += step.messages;
            all.attempts += step.attempts;
            if !step.more {
                return all;
            }
        }
        panic!("the sweep never ends")
    }
}
