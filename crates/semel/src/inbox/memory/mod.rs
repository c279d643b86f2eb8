//! The reference inbox, in memory: what the rules say, and nothing else. It is lost with its process.

mod inspect;
mod store;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;

use super::{
    handler::{Failed, Handled},
    inspect::InboxAudit,
    message::{Consumer, Delivery, LogId, MessageId},
    policy::InboxPolicy,
    receive::{self, How, Incoming, IncomingBatch, Judged, Verdict},
    store::{ParkedMessage, Recorded, Standing},
};
use crate::clock::{Clock, Timestamp};

/// How many rows of the audit are kept.
const AUDIT_MAX: usize = 1_000;

/// Remembers messages in memory.
///
/// ```
/// use std::sync::Arc;
/// use semel::{SystemClock, inbox::{
///     Consumer, Delivery, Handled, InboxPolicy, MessageId, Receipt, SourceName,
///     memory::MemoryInbox,
/// }};
///
/// let inbox = MemoryInbox::new(Arc::new(SystemClock::new()));
/// let policy = InboxPolicy::new(Consumer::new("billing")?);
/// let message = MessageId::new(SourceName::new("orders")?, "order-7")?;
/// let delivery = Delivery::new(message, Receipt(1), None);
/// let mut effects = 0;
/// for _ in 0..2 {
///     let handled = inbox.handle(&policy, &delivery, || {
///         effects += 1;
///         Ok(None)
///     });
///     assert!(handled.is_ok());
/// }
/// assert_eq!(effects, 1);
/// # Ok::<(), semel::NameError>(())
/// ```
#[derive(Debug)]
pub struct MemoryInbox {
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
}

type Name = (Consumer, MessageId);

#[derive(Debug, Default)]
struct Kept {
    known: BTreeMap<Name, Known>,
    attempts: BTreeMap<Name, Counted>,
    parked: BTreeMap<Name, ParkedMessage>,
    positions: BTreeMap<(Consumer, LogId), u64>,
    audit: VecDeque<InboxAudit>,
}

#[derive(Clone, Debug)]
struct Known {
    recorded: Recorded,
    /// `None`: for ever.
    remember_until: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    count: u32,
    first_at: Timestamp,
    last_at: Timestamp,
}

impl MemoryInbox {
    /// Makes an empty one on a clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, kept: Mutex::default() }
    }

    /// Runs `effect` and remembers the message, as one step, unless the consumer had it. What `effect`
    /// returns is what a copy is answered with.
    ///
    /// # Errors
    ///
    /// Fails with what `effect` fails with, and if a bound is broken; then nothing is remembered.
    pub fn handle(
        &self,
        policy: &InboxPolicy,
        delivery: &Delivery,
        effect: impl FnOnce() -> Result<Option<Bytes>, Failed>,
    ) -> Result<Handled, Failed> {
        let (now, mut kept) = (self.clock.wall(), self.kept());
        let one = Incoming::new(delivery, policy.by, delivery.fingerprint())?;
        let verdict = kept.judge(&policy.consumer, &one);
        if verdict != Verdict::First {
            return Ok(verdict.handled());
        }
        let answer = effect()?;
        one.check_answer(answer.as_ref())?;
        let recorded = one.done(answer, Vec::new(), now);
        kept.had(policy, &one, &recorded);
        Ok(Handled::First(recorded))
    }

    /// Runs `effects` for the messages of a batch that are new, by their places, and remembers them, as
    /// one step; it is not called if none is new. What it returns is what copies are answered with.
    ///
    /// # Errors
    ///
    /// Fails with what `effects` fails with, and if a bound is broken; then nothing is remembered.
    pub fn batch(
        &self,
        policy: &InboxPolicy,
        deliveries: &[Delivery],
        effects: impl FnOnce(&[usize]) -> Result<BTreeMap<usize, Bytes>, Failed>,
    ) -> Result<Vec<Handled>, Failed> {
        let (at, mut kept) = (self.clock.wall(), self.kept());
        let came = IncomingBatch::new(deliveries, policy.by, Delivery::fingerprint)?;
        let verdicts = match &came.span {
            None => came.by_names(at, |one| Ok::<_, Failed>(kept.judge(&policy.consumer, one)))?,
            Some(span) => came.by_positions(kept.next(&policy.consumer, &span.log)),
        };
        let judged = Judged { messages: came.messages, verdicts, at };
        let new: Vec<_> = judged.new_ones().collect();
        let mut answers = BTreeMap::new();
        if !new.is_empty() {
            answers = effects(&new)?;
        }
        for (place, answer) in &answers {
            judged.new_one(*place)?.check_answer(Some(answer))?;
        }
        let (messages, handled) =
            judged.handled(receive::Kept { answers, ..receive::Kept::default() });
        for (one, handled) in messages.iter().zip(&handled) {
            if let Handled::First(recorded) = handled {
                kept.had(policy, one, recorded);
            }
        }
        Ok(handled)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn judge(&self, consumer: &Consumer, one: &Incoming) -> Verdict {
        if let How::At(position) = &one.how {
            return match position.offset < self.next(consumer, &position.log) {
                true => Verdict::Duplicate(None),
                false => Verdict::First,
            };
        }
        match self.known.get(&(consumer.clone(), one.message.clone())) {
            None => Verdict::First,
            Some(known)
                if one.how == How::Parked && known.recorded.standing == Standing::Parked =>
            {
                Verdict::First
            }
            Some(known) => one.known(known.recorded.clone()),
        }
    }

    /// The first offset of a log that a consumer has not had.
    fn next(&self, consumer: &Consumer, log: &LogId) -> u64 {
        self.positions.get(&(consumer.clone(), log.clone())).copied().unwrap_or_default()
    }

    /// Keeps that a consumer had a message.
    fn had(&mut self, policy: &InboxPolicy, one: &Incoming, recorded: &Recorded) {
        let consumer = policy.consumer.clone();
        let remember_until = match &one.how {
            How::At(position) => {
                let next = position.offset.saturating_add(1);
                self.positions.insert((consumer, position.log.clone()), next);
                return;
            }
            How::New => Some(recorded.at.after(policy.remember_for)),
            How::Parked => None,
        };
        let known = Known { recorded: recorded.clone(), remember_until };
        self.known.insert((consumer, one.message.clone()), known);
    }
}
