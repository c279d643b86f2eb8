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
    policy::{By, InboxPolicy},
    store::{ParkedMessage, Recorded, Standing},
};
use crate::{
    clock::{Clock, Timestamp},
    fingerprint::Fingerprint,
};

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
    /// Fails with what `effect` fails with; then nothing is remembered.
    pub fn handle(
        &self,
        policy: &InboxPolicy,
        delivery: &Delivery,
        effect: impl FnOnce() -> Result<Option<Bytes>, Failed>,
    ) -> Result<Handled, Failed> {
        let (now, mut kept) = (self.clock.wall(), self.kept());
        let name = (policy.consumer.clone(), delivery.message.clone());
        if policy.by == By::Positions && !delivery.parked {
            return kept.at_position(policy, delivery, now, effect);
        }
        let fingerprint = delivery.fingerprint();
        if let Some(known) = kept.known.get(&name) {
            if known.recorded.fingerprint != fingerprint {
                return Ok(Handled::Mismatch(known.recorded.clone()));
            }
            let takes_back = delivery.parked && known.recorded.standing == Standing::Parked;
            if !takes_back {
                return Ok(Handled::Duplicate(Some(known.recorded.clone())));
            }
        }
        let recorded = done(fingerprint, effect()?, now);
        let remember_until = match delivery.parked {
            true => None,
            false => Some(now.after(policy.remember_for)),
        };
        kept.known.insert(name, Known { recorded: recorded.clone(), remember_until });
        Ok(Handled::First(recorded))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn at_position(
        &mut self,
        policy: &InboxPolicy,
        delivery: &Delivery,
        now: Timestamp,
        effect: impl FnOnce() -> Result<Option<Bytes>, Failed>,
    ) -> Result<Handled, Failed> {
        let position = delivery.position.as_ref();
        let position = position.ok_or_else(|| Failed::Refused("it has no position".into()))?;
        let log = (policy.consumer.clone(), position.log.clone());
        if self.positions.get(&log).is_some_and(|next| *next > position.offset) {
            return Ok(Handled::Duplicate(None));
        }
        let recorded = done(delivery.fingerprint(), effect()?, now);
        self.positions.insert(log, position.offset.saturating_add(1));
        Ok(Handled::First(recorded))
    }
}

fn done(fingerprint: Fingerprint, answer: Option<Bytes>, at: Timestamp) -> Recorded {
    Recorded { fingerprint, standing: Standing::Done, answer, events: Vec::new(), at }
}
