//! All logs in hand, and what the client tells of them from its callbacks.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rdkafka::{
    ClientContext, Offset, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, RebalanceProtocol},
    error::{KafkaError, KafkaResult},
    types::RDKafkaRespErr,
};
use semel::{
    clock::Monotonic,
    inbox::{Acked, LogId, Receipt, Received, Settlement},
};
use tokio::sync::Notify;

use super::{
    hand::{self, Hand, Phase},
    start::Place,
};
use crate::{log, native::TopicId};

/// A partition of a topic.
pub(super) type Part = (Arc<str>, i32);

/// What the callbacks of a consumer and its callers share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    hands: Mutex<Hands>,
    /// Wakes whoever waits to receive.
    pub(super) wake: Notify,
    /// How many callbacks were called.
    pub(super) calls: AtomicU64,
}

impl Shared {
    pub(super) fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The logs of a consumer.
#[derive(Debug, Default)]
pub(super) struct Hands {
    pub(super) logs: BTreeMap<Part, Hand>,
    /// Where each delivery lies that is out.
    receipts: HashMap<u64, (Part, i64)>,
    last_receipt: u64,
    last_assigned: u64,
    /// What the caller is to be told next.
    assigned: Vec<LogId>,
    revoked: Vec<LogId>,
    /// The log that is served first next time.
    turn: usize,
    /// Whether a commit is under way.
    committing: bool,
    /// Whether messages came since their topics were last looked at.
    pub(super) unverified: bool,
    /// Whether something hints at a topic that is another, or a log that lost messages.
    pub(super) suspect: bool,
}

impl Hands {
    /// How many messages are in memory.
    pub(super) fn len(&self) -> usize {
        self.logs.values().map(Hand::len).sum()
    }

    pub(super) fn ready(&self) -> usize {
        self.logs.values().map(Hand::ready).sum()
    }

    /// When something that is to come again is due.
    pub(super) fn due(&self) -> Option<Monotonic> {
        self.logs.values().filter_map(Hand::due).min()
    }

    /// Begins to deliver a log, if it is still of the assignment that its beginning was found for: of a later
    /// one the client is elsewhere, and the caller is told of it.
    pub(super) fn start(&mut self, place: &Place, from: i64, end: i64) {
        let hand = self.logs.get_mut(&place.part).filter(|hand| hand.nth == place.nth);
        if let Some(hand) = hand
            && let Phase::Named(id, topic) = hand.phase.clone()
        {
            hand.start(id, topic, from, end);
        }
    }

    /// Takes what the caller is told: at most `max` deliveries, every log in turn.
    pub(super) fn take(&mut self, max: usize, now: Monotonic) -> Received {
        let mut received = Received::default();
        received.assigned = std::mem::take(&mut self.assigned);
        received.revoked = std::mem::take(&mut self.revoked);
        let parts: Vec<_> = self.logs.keys().cloned().collect();
        let verified = !self.unverified;
        self.turn = self.turn.wrapping_add(1);
        for at in 0..parts.len() {
            let part = &parts[(at + self.turn) % parts.len()];
            let Some(hand) = self.logs.get_mut(part) else { continue };
            while received.deliveries.len() < max {
                let receipt = Receipt(self.last_receipt + 1);
                let Some(out) = hand.hand_out(now, verified, receipt) else { break };
                self.last_receipt += 1;
                out.spent.and_then(|spent| self.receipts.remove(&spent.0));
                self.receipts.insert(receipt.0, (part.clone(), out.offset));
                received.deliveries.push(out.delivery);
            }
        }
        received
    }

    /// Settles deliveries that are out.
    pub(super) fn settle(
        &mut self,
        settlements: &[(Receipt, Settlement)],
        now: Monotonic,
    ) -> Vec<Acked> {
        let mut acked = vec![Acked::Lost; settlements.len()];
        let is_ack = |at: &usize| settlements[*at].1 == Settlement::Ack;
        // What is to come again brings along what is out behind it: first what is done is noted as done, then
        // what is to come again from its end.
        let (acks, again): (Vec<_>, Vec<_>) = (0..settlements.len()).partition(is_ack);
        for at in acks.into_iter().chain(again.into_iter().rev()) {
            let (receipt, settlement) = settlements[at];
            if self.settle_one(receipt, settlement, now) == Some(true) {
                acked[at] = Acked::Confirmed;
            }
        }
        acked
    }

    fn settle_one(
        &mut self,
        receipt: Receipt,
        settlement: Settlement,
        now: Monotonic,
    ) -> Option<bool> {
        let (part, offset) = self.receipts.remove(&receipt.0)?;
        let hand = self.logs.get_mut(&part)?;
        Some(match settlement {
            Settlement::Ack => hand.settle(offset, receipt),
            Settlement::Again(after) => hand.again(offset, receipt, now.after(hand::wait(after))),
        })
    }

    /// Where deliveries lie, log by log; `None` if one of them is no longer out.
    pub(super) fn places(&self, receipts: &[Receipt]) -> Option<BTreeMap<Part, Vec<i64>>> {
        let mut places = BTreeMap::<_, Vec<_>>::new();
        for receipt in receipts {
            let (part, offset) = self.receipts.get(&receipt.0)?;
            places.entry(part.clone()).or_default().push(*offset);
        }
        Some(places)
    }

    /// What the broker is to be told, unless it is being told something; notes that it is.
    pub(super) fn commit(&mut self) -> Option<TopicPartitionList> {
        if self.committing {
            return None;
        }
        let list = self.untold(|_| true)?;
        self.committing = true;
        Some(list)
    }

    /// What of some logs the broker was not told, as told from now on.
    pub(super) fn untold(&mut self, wanted: impl Fn(&Part) -> bool) -> Option<TopicPartitionList> {
        let mut list = TopicPartitionList::new();
        for (part, hand) in self.logs.iter_mut().filter(|(part, _)| wanted(part)) {
            let Some(topic) = hand.topic_id().filter(|_| hand.settled != hand.told) else {
                continue;
            };
            // Which topic it was is kept with it: after it was made anew, the offset means nothing.
            add(&mut list, part, hand.settled, topic);
            hand.told = hand.settled;
        }
        (list.count() > 0).then_some(list)
    }

    /// Notes that the broker knows what is settled of these logs: a transaction told it.
    pub(super) fn told<'a>(&mut self, parts: impl Iterator<Item = &'a Part>) {
        for part in parts {
            if let Some(hand) = self.logs.get_mut(part) {
                hand.told = hand.settled;
            }
        }
    }

    /// Notes that the broker did not take a commit: it is told again.
    pub(super) fn not_told(&mut self, list: &TopicPartitionList) {
        self.committing = false;
        for part in parts(list) {
            if let Some(hand) = self.logs.get_mut(&part) {
                hand.told = -1;
            }
        }
    }

    /// Lets logs go: what is out of them can no longer be settled.
    fn lose(&mut self, part: &Part) {
        if let Some(hand) = self.logs.remove(part)
            && let Some(id) = hand.id()
        {
            // Whoever was not told of it need not be told that it is gone.
            match self.assigned.iter().position(|assigned| assigned == id) {
                Some(at) => drop(self.assigned.remove(at)),
                None => self.revoked.push(id.clone()),
            }
        }
        self.receipts.retain(|_, (of, _)| of != part);
    }

    /// Names the logs of a topic by the topic that bears its name now, and lets those go that are of another.
    /// Says whether there were any.
    pub(super) fn name(&mut self, topic: &str, id: Option<&TopicId>) -> bool {
        let parts: Vec<_> =
            self.logs.keys().filter(|part| part.0.as_ref() == topic).cloned().collect();
        let mut was_another = false;
        for part in parts {
            let known = self.logs.get(&part).and_then(Hand::topic_id);
            if known.is_some() && known != id {
                was_another = true;
                self.lose(&part);
            } else if let (None, Some(id)) = (known, id)
                && let Ok(log) = LogId::new(format!("{topic}@{id}/{}", part.1))
                && let Some(hand) = self.logs.get_mut(&part)
            {
                self.assigned.push(log.clone());
                hand.phase = Phase::Named(log, id.clone());
            }
        }
        was_another
    }

    /// Which logs are to be paused and which resumed, as they are from now on.
    pub(super) fn pause(&mut self, max: usize) -> [TopicPartitionList; 2] {
        let len = self.len();
        let mut lists = [TopicPartitionList::new(), TopicPartitionList::new()];
        for ((topic, partition), hand) in &mut self.logs {
            // Between half full and full it stays as it is: a resumed log is fetched anew.
            let is_full = len >= max || (hand.is_paused && len > max / 2);
            let pause = !hand.is_started() || hand.due().is_some() || is_full;
            if pause != hand.is_paused {
                lists[usize::from(!pause)].add_partition(topic, *partition);
                hand.is_paused = pause;
            }
        }
        lists
    }
}

/// Adds a position to a list, with the topic that it is of.
pub(super) fn add(list: &mut TopicPartitionList, part: &Part, offset: i64, topic: &TopicId) {
    let mut element = list.add_partition(&part.0, part.1);
    element.set_metadata(topic.to_string());
    let set = element.set_offset(Offset::Offset(offset));
    debug_assert!(set.is_ok(), "an offset that was received can be set");
}

fn parts(list: &TopicPartitionList) -> Vec<Part> {
    let elements = list.elements();
    elements.iter().map(|element| (element.topic().into(), element.partition())).collect()
}

/// Takes the word of a consumer: rebalances, commits, errors.
#[derive(Debug)]
pub(super) struct Callbacks(pub(super) Arc<Shared>);

impl Callbacks {
    /// New logs are assigned and paused, so that nothing is fetched before the caller says where they begin.
    ///
    /// Not at their end: librdkafka 2.12 would ask where that is, and if it is moved before the answer, it
    /// asks again after half a second and goes there, past all that came meanwhile.
    fn assign(
        &self,
        consumer: &BaseConsumer<Self>,
        list: &mut TopicPartitionList,
    ) -> KafkaResult<()> {
        list.set_all_offsets(Offset::Offset(0))?;
        match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_assign(list)?,
            _ => consumer.assign(list)?,
        }
        consumer.pause(list)?;
        let mut hands = self.0.hands();
        for part in parts(list) {
            hands.last_assigned += 1;
            let hand = Hand::new(hands.last_assigned);
            hands.logs.insert(part, hand);
        }
        Ok(())
    }

    /// What was settled is told to the broker before the logs go, unless they are gone already.
    fn revoke(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) -> KafkaResult<()> {
        let parts = parts(list);
        let untold = {
            let mut hands = self.0.hands();
            let untold = hands.untold(|part| parts.contains(part));
            parts.iter().for_each(|part| hands.lose(part));
            untold
        };
        if let Some(untold) = untold.filter(|_| !consumer.assignment_lost())
            && let Err(error) = consumer.commit(&untold, CommitMode::Async)
        {
            tracing::debug!(%error, "what was settled last is not remembered by the broker");
        }
        match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_unassign(list),
            _ => consumer.unassign(),
        }
    }

    fn called(&self) {
        self.0.calls.fetch_add(1, Ordering::AcqRel);
        self.0.wake.notify_one();
    }
}

impl ClientContext for Callbacks {
    fn log(&self, level: RDKafkaLogLevel, what: &str, line: &str) {
        log::line(level, what, line);
    }

    fn error(&self, error: KafkaError, why: &str) {
        log::trouble(&error, why);
    }
}

impl ConsumerContext for Callbacks {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        event: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let done = match event {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => self.assign(consumer, list),
            _ => self.revoke(consumer, list),
        };
        if let Err(error) = done {
            tracing::error!(%error, "a rebalance did not come to its end");
        }
        self.called();
    }

    fn commit_callback(&self, result: KafkaResult<()>, list: &TopicPartitionList) {
        match result {
            Ok(()) => self.0.hands().committing = false,
            Err(error) => {
                tracing::debug!(%error, "what was settled is told to the broker again");
                self.0.hands().not_told(list);
            }
        }
        self.called();
    }

    fn main_queue_min_poll_interval(&self) -> rdkafka::util::Timeout {
        Duration::from_secs(1).into()
    }
}
