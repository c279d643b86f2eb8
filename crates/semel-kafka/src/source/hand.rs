//! One log in hand: what was received, what is out, what is settled. No I/O, no clock.

use std::{collections::VecDeque, fmt, time::Duration};

use semel::{
    clock::Monotonic,
    inbox::{Delivery, LogId, Receipt, Redelivered},
};

use crate::native::TopicId;

/// How far a log is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// It is assigned, and not known yet which incarnation of its topic it is of.
    Unnamed,
    /// The caller is to say where it begins.
    Named(LogId, TopicId),
    /// It is delivered.
    Started(LogId, TopicId),
}

/// A delivery that is out, or was.
#[derive(Debug)]
struct Held {
    offset: i64,
    receipt: Receipt,
    delivery: Delivery,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Again(Monotonic, u32),
    Out(u32),
    Settled,
}

/// A delivery on its way to the caller.
#[derive(Debug)]
pub(super) struct HandedOut {
    pub(super) offset: i64,
    pub(super) delivery: Delivery,
    /// What it was settled by before: good for nothing now.
    pub(super) spent: Option<Receipt>,
}

/// A partition that is assigned to this consumer.
pub(super) struct Hand {
    /// Which assignment it is of: a log that goes and comes back is another hand.
    pub(super) nth: u64,
    pub(super) phase: Phase,
    /// The offset of the next message that was not received.
    pub(super) expected: i64,
    /// Everything below is settled.
    pub(super) settled: i64,
    /// What the broker was last told of that.
    pub(super) told: i64,
    /// From here on nothing was there when this consumer began: nobody had it before.
    pub(super) fresh: i64,
    pub(super) is_paused: bool,
    ready: VecDeque<(i64, Delivery)>,
    /// What is out or behind something that is out, by offset.
    held: VecDeque<Held>,
}

impl fmt::Debug for Hand {
    /// Shows how far it is, and no message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hand")
            .field("phase", &self.phase)
            .field("expected", &self.expected)
            .field("settled", &self.settled)
            .field("ready", &self.ready.len())
            .field("held", &self.held.len())
            .field("is_paused", &self.is_paused)
            .finish_non_exhaustive()
    }
}

impl Hand {
    pub(super) const fn new(nth: u64) -> Self {
        Self {
            nth,
            phase: Phase::Unnamed,
            expected: 0,
            settled: 0,
            told: 0,
            fresh: 0,
            is_paused: true,
            ready: VecDeque::new(),
            held: VecDeque::new(),
        }
    }

    /// The name of the log, once it is known.
    pub(super) const fn id(&self) -> Option<&LogId> {
        match &self.phase {
            Phase::Unnamed => None,
            Phase::Named(id, _) | Phase::Started(id, _) => Some(id),
        }
    }

    /// The topic that it is of, once it is known.
    pub(super) const fn topic_id(&self) -> Option<&TopicId> {
        match &self.phase {
            Phase::Unnamed => None,
            Phase::Named(_, topic) | Phase::Started(_, topic) => Some(topic),
        }
    }

    pub(super) const fn is_started(&self) -> bool {
        matches!(self.phase, Phase::Started(..))
    }

    /// Begins to deliver from an offset on; `end` is where the log ended at that time.
    pub(super) fn start(&mut self, id: LogId, topic: TopicId, from: i64, end: i64) {
        self.phase = Phase::Started(id, topic);
        (self.expected, self.settled, self.told, self.fresh) = (from, from, from, end);
    }

    /// Takes what the broker sent, unless it was there before.
    pub(super) fn receive(&mut self, offset: i64, delivery: Delivery) {
        if self.is_started() && offset >= self.expected {
            self.expected = offset + 1;
            self.ready.push_back((offset, delivery));
        }
    }

    /// How many messages it holds in memory.
    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.held.len()
    }

    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// When the first delivery that is to come again is due; nothing behind it goes out before.
    pub(super) fn due(&self) -> Option<Monotonic> {
        self.held.iter().find_map(|held| match held.fate {
            Fate::Again(due, _) => Some(due),
            _ => None,
        })
    }

    /// Hands out the next delivery, if one may go: what comes again before what never went. Nothing that
    /// is new goes out where that was not `verified`.
    pub(super) fn hand_out(
        &mut self,
        now: Monotonic,
        verified: bool,
        receipt: Receipt,
    ) -> Option<HandedOut> {
        let again = |held: &&mut Held| matches!(held.fate, Fate::Again(..));
        if let Some(held) = self.held.iter_mut().find(again) {
            let Fate::Again(due, times) = held.fate else { return None };
            if due > now {
                return None;
            }
            held.fate = Fate::Out(times);
            let spent = Some(std::mem::replace(&mut held.receipt, receipt));
            held.delivery.receipt = receipt;
            held.delivery.redelivered = Redelivered::Yes((times > 0).then_some(times));
            return Some(HandedOut { offset: held.offset, delivery: held.delivery.clone(), spent });
        }
        if !verified {
            return None;
        }
        let (offset, mut delivery) = self.ready.pop_front()?;
        delivery.receipt = receipt;
        let is_fresh = offset >= self.fresh;
        delivery.redelivered = if is_fresh { Redelivered::No } else { Redelivered::Unknown };
        let fate = Fate::Out(0);
        self.held.push_back(Held { offset, receipt, delivery: delivery.clone(), fate });
        Some(HandedOut { offset, delivery, spent: None })
    }

    /// Settles a delivery that is out; `false` if it is not.
    pub(super) fn settle(&mut self, offset: i64, receipt: Receipt) -> bool {
        let Some(held) = self.out(offset, receipt) else { return false };
        held.fate = Fate::Settled;
        while self.held.front().is_some_and(|held| held.fate == Fate::Settled) {
            let first = self.held.pop_front();
            self.settled = first.map_or(self.settled, |held| held.offset + 1);
        }
        true
    }

    /// Notes that a delivery is to come again, and all that is out behind it after it; `false` if it is
    /// not out.
    pub(super) fn again(&mut self, offset: i64, receipt: Receipt, due: Monotonic) -> bool {
        let Some(held) = self.out(offset, receipt) else { return false };
        let Fate::Out(times) = held.fate else { return false };
        held.fate = Fate::Again(due, times.saturating_add(1));
        for held in self.held.iter_mut().filter(|held| held.offset > offset) {
            if let Fate::Out(times) = held.fate {
                // It failed nobody: it is due at once, and counted no more than before.
                held.fate = Fate::Again(Monotonic::default(), times);
            }
        }
        true
    }

    /// Where the log would be settled to if these were settled too; `None` unless they follow on it without
    /// a gap.
    pub(super) fn after(&self, offsets: &[i64]) -> Option<i64> {
        let settled = |held: &&Held| held.fate == Fate::Settled || offsets.contains(&held.offset);
        let run: Vec<_> = self.held.iter().take_while(settled).map(|held| held.offset).collect();
        offsets.iter().all(|offset| run.contains(offset)).then_some(())?;
        run.last().map(|last| last + 1)
    }

    fn out(&mut self, offset: i64, receipt: Receipt) -> Option<&mut Held> {
        let at = self.held.binary_search_by_key(&offset, |held| held.offset).ok()?;
        let is_it = |held: &&mut Held| held.receipt == receipt && matches!(held.fate, Fate::Out(_));
        self.held.get_mut(at).filter(is_it)
    }
}

/// How long a delivery waits that is to come again: as long as asked for, and no longer than an hour.
pub(super) fn wait(asked: Duration) -> Duration {
    asked.min(Duration::from_secs(3_600))
}

#[cfg(test)]
mod tests {
    use semel::inbox::{MessageId, SourceName};

    use super::*;

    const NOW: Monotonic = Monotonic::from_start(Duration::from_secs(1));

    /// A started log with so many messages received, from offset 10 on, the last of them fresh.
    fn hand(count: i64) -> Hand {
        let mut hand = Hand::new(1);
        let id = LogId::new("t@x/0").unwrap();
        hand.start(id, TopicId::of("x"), 10, 10 + count - 1);
        for offset in 10..10 + count {
            let message = MessageId::new(SourceName::new("s").unwrap(), offset.to_string());
            hand.receive(offset, Delivery::new(message.unwrap(), Receipt(0), None));
        }
        hand
    }

    fn out(hand: &mut Hand, receipt: u64) -> Option<i64> {
        hand.hand_out(NOW, true, Receipt(receipt)).map(|out| out.offset)
    }

    #[test]
    fn the_longest_run_of_settled_ones_is_what_the_broker_is_told() {
        let mut hand = hand(3);
        let offsets: Vec<_> = (0..4).filter_map(|receipt| out(&mut hand, receipt)).collect();
        assert_eq!(offsets, [10, 11, 12]);
        assert!(hand.settle(11, Receipt(1)));
        assert_eq!(hand.settled, 10);
        assert_eq!(hand.after(&[10]), Some(12));
        assert_eq!(hand.after(&[12]), None);
        assert!(hand.settle(10, Receipt(0)));
        assert_eq!(hand.settled, 12);
        assert!(!hand.settle(10, Receipt(0)), "settled twice");
    }

    #[test]
    fn what_comes_again_comes_before_anything_behind_it_that_never_went() {
        let mut hand = hand(3);
        assert_eq!((out(&mut hand, 0), out(&mut hand, 1)), (Some(10), Some(11)));
        let due = NOW.after(Duration::from_secs(1));
        assert!(hand.again(10, Receipt(0), due));
        assert_eq!(out(&mut hand, 2), None, "not due, and nothing overtakes it");
        assert!(!hand.settle(11, Receipt(1)), "what is behind it comes again as well");
        let first = hand.hand_out(due, true, Receipt(3)).unwrap();
        assert_eq!((first.offset, first.spent), (10, Some(Receipt(0))));
        assert_eq!(first.delivery.redelivered, Redelivered::Yes(Some(1)));
        assert!(!hand.settle(10, Receipt(0)), "the first receipt is spent");
        assert!(hand.settle(10, Receipt(3)));
        let second = hand.hand_out(due, true, Receipt(4)).unwrap();
        assert_eq!((second.offset, second.delivery.redelivered), (11, Redelivered::Yes(None)));
        assert_eq!((hand.settled, out(&mut hand, 5)), (11, Some(12)));
    }

    #[test]
    fn only_what_came_after_the_start_is_known_to_be_new() {
        let mut hand = hand(2);
        let redelivered = |hand: &mut Hand, receipt| {
            hand.hand_out(NOW, true, Receipt(receipt)).unwrap().delivery.redelivered
        };
        assert_eq!(redelivered(&mut hand, 0), Redelivered::Unknown);
        assert_eq!(redelivered(&mut hand, 1), Redelivered::No);
    }

    #[test]
    fn nothing_new_goes_out_unless_its_topic_was_verified() {
        let mut hand = hand(1);
        assert!(hand.hand_out(NOW, false, Receipt(0)).is_none());
        assert_eq!(out(&mut hand, 1), Some(10));
    }
}
