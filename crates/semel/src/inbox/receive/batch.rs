//! Several messages that come together: which of them are new, and what their runs keep.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use super::{Incoming, Verdict, invalid};
use crate::{
    clock::Timestamp,
    error::StoreError,
    fingerprint::Fingerprint,
    inbox::{
        handler::Handled,
        message::{Delivery, LogId, MessageId},
        policy::By,
        store::READ_MAX,
    },
    outbox::EventId,
};

/// Where the messages of a batch lie that is known by positions.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Span {
    /// In which log.
    pub log: LogId,
    /// The first offset.
    pub first: u64,
    /// The first offset behind it.
    pub end: u64,
}

/// Several messages that came together, to be received in one transaction.
#[derive(Clone, Debug)]
pub struct IncomingBatch {
    /// The messages, in the order given.
    pub messages: Vec<Incoming>,
    /// Where they lie, if the consumer knows messages by positions.
    pub span: Option<Span>,
}

impl IncomingBatch {
    /// Takes deliveries, in their order.
    ///
    /// # Errors
    ///
    /// Refuses none, more than [`READ_MAX`], and a parked one; of a consumer that knows messages by
    /// positions also those that are not of one log, in its order.
    pub fn new(
        deliveries: &[Delivery],
        by: By,
        fingerprint: fn(&Delivery) -> Fingerprint,
    ) -> Result<Self, StoreError> {
        if deliveries.is_empty() || deliveries.len() > READ_MAX {
            return Err(invalid("a batch has no message, or more than 10,000"));
        }
        if deliveries.iter().any(|delivery| delivery.parked) {
            return Err(invalid("a parked message is run again by itself"));
        }
        let incoming = |delivery: &Delivery| Incoming::new(delivery, by, fingerprint(delivery));
        let messages: Vec<_> = deliveries.iter().map(incoming).collect::<Result<_, _>>()?;
        let span = match by {
            By::Ids => None,
            By::Positions => Some(span(&messages)?),
        };
        Ok(Self { messages, span })
    }

    /// Judges each message by its name. `known` judges one by what is remembered; it is not asked of
    /// those whose name stands further ahead in the batch as a new one.
    ///
    /// # Errors
    ///
    /// Fails with what `known` fails with.
    pub fn by_names<E>(
        &self,
        at: Timestamp,
        mut known: impl FnMut(&Incoming) -> Result<Verdict, E>,
    ) -> Result<Vec<Verdict>, E> {
        let mut new: HashMap<&MessageId, &Incoming> = HashMap::new();
        let mut verdicts = Vec::with_capacity(self.messages.len());
        for one in &self.messages {
            verdicts.push(match new.get(&one.message) {
                None => {
                    let verdict = known(one)?;
                    if verdict == Verdict::First {
                        new.insert(&one.message, one);
                    }
                    verdict
                }
                Some(first) if first.fingerprint == one.fingerprint => Verdict::Duplicate(None),
                Some(first) => Verdict::Mismatch(first.done(None, Vec::new(), at)),
            });
        }
        Ok(verdicts)
    }

    /// Judges each message by its position: `next` is the first offset that the consumer has not had.
    #[must_use]
    pub fn by_positions(&self, next: u64) -> Vec<Verdict> {
        let is_new = |one: &Incoming| one.position().is_some_and(|at| at.offset >= next);
        let verdict = |one| match is_new(one) {
            true => Verdict::First,
            false => Verdict::Duplicate(None),
        };
        self.messages.iter().map(verdict).collect()
    }
}

fn span(messages: &[Incoming]) -> Result<Span, StoreError> {
    let positions: Vec<_> = messages.iter().filter_map(Incoming::position).collect();
    let ordered = positions
        .windows(2)
        .all(|pair| pair[0].log == pair[1].log && pair[0].offset < pair[1].offset);
    match (positions.first(), positions.last()) {
        (Some(first), Some(last)) if ordered => Ok(Span {
            log: first.log.clone(),
            first: first.offset,
            end: last.offset.saturating_add(1),
        }),
        _ => Err(invalid("a batch that is known by positions is of one log, in its order")),
    }
}

/// A batch, of each message of which it is known what is to be done about it.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The messages, in the order given.
    pub messages: Vec<Incoming>,
    /// What is to be done about each.
    pub verdicts: Vec<Verdict>,
    /// When they were received, in the store's time.
    pub at: Timestamp,
}

/// What the runs of a batch recorded, by the places of their messages.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// What copies are answered with.
    pub answers: BTreeMap<usize, Bytes>,
    /// The events that were published.
    pub events: BTreeMap<usize, Vec<EventId>>,
}

impl Judged {
    /// Returns the places of the messages that are new, in the order given.
    pub fn new_ones(&self) -> impl Iterator<Item = usize> {
        let is_new = |(_, verdict): &(usize, &Verdict)| **verdict == Verdict::First;
        self.verdicts.iter().enumerate().filter(is_new).map(|(at, _)| at)
    }

    /// Returns the new message at a place: only of such a one something is recorded.
    ///
    /// # Errors
    ///
    /// Refuses a place at which the batch has no new message.
    pub fn new_one(&self, at: usize) -> Result<&Incoming, StoreError> {
        let is_new = self.verdicts.get(at) == Some(&Verdict::First);
        let one = self.messages.get(at).filter(|_| is_new);
        one.ok_or_else(|| invalid("the batch has no new message at this place"))
    }

    /// Returns the messages, and what became of each once what its run kept is committed.
    #[must_use]
    pub fn handled(self, mut kept: Kept) -> (Vec<Incoming>, Vec<Handled>) {
        let Self { messages, verdicts, at } = self;
        let one = |(place, verdict)| match verdict {
            Verdict::First => {
                let events = kept.events.remove(&place).unwrap_or_default();
                Handled::First(messages[place].done(kept.answers.remove(&place), events, at))
            }
            other => other.handled(),
        };
        let handled = verdicts.into_iter().enumerate().map(one).collect();
        (messages, handled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::{
        message::{Position, SourceName},
        receive::How,
        source::Receipt,
        store::Recorded,
    };

    fn telling(id: &str, payload: &str) -> Delivery {
        let message = MessageId::new(SourceName::new("orders").unwrap(), id).unwrap();
        Delivery::new(message, Receipt(1), Some(Bytes::copy_from_slice(payload.as_bytes())))
    }

    fn at(log: &str, offset: u64) -> Delivery {
        let mut delivery = telling(&offset.to_string(), "x");
        delivery.position = Some(Position { log: LogId::new(log).unwrap(), offset });
        delivery
    }

    fn batch(deliveries: &[Delivery], by: By) -> Result<IncomingBatch, StoreError> {
        IncomingBatch::new(deliveries, by, Delivery::fingerprint)
    }

    /// The verdicts on messages, each of an id and a payload, of whose names `old` is remembered.
    fn judged(came: &[(&str, &str)], old: (&str, &str)) -> Vec<Verdict> {
        let now = Timestamp::from_micros(7);
        let deliveries: Vec<_> = came.iter().map(|(id, told)| telling(id, told)).collect();
        let old =
            Incoming::new(&telling(old.0, old.1), By::Ids, telling(old.0, old.1).fingerprint());
        let old = old.unwrap();
        let known = |one: &Incoming| {
            Ok::<_, StoreError>(match one.message == old.message {
                true => one.known(old.done(None, Vec::new(), now)),
                false => Verdict::First,
            })
        };
        batch(&deliveries, By::Ids).unwrap().by_names(now, known).unwrap()
    }

    #[test]
    fn a_copy_behind_a_new_message_is_compared_with_that() {
        let verdicts = judged(&[("a", "one"), ("a", "one"), ("a", "other")], ("old", "x"));
        assert_eq!(verdicts[..2], [Verdict::First, Verdict::Duplicate(None)]);
        assert!(matches!(&verdicts[2], Verdict::Mismatch(first)
            if first.fingerprint == telling("a", "one").fingerprint()));
    }

    #[test]
    fn a_copy_behind_other_content_is_compared_with_what_is_remembered() {
        let verdicts = judged(&[("a", "other"), ("a", "one"), ("a", "one")], ("a", "one"));
        assert!(matches!(&verdicts[0], Verdict::Mismatch(_)));
        assert!(matches!(&verdicts[1], Verdict::Duplicate(Some(_))));
        assert_eq!(verdicts[1], verdicts[2]);
    }

    #[test]
    fn a_batch_of_positions_is_of_one_log_in_its_order() {
        let span = batch(&[at("log", 4), at("log", 7)], By::Positions).unwrap().span;
        assert_eq!(span, Some(Span { log: LogId::new("log").unwrap(), first: 4, end: 8 }));
        for wrong in [
            [at("log", 4), at("log", 4)],
            [at("log", 4), at("other", 5)],
            [at("log", 4), telling("5", "x")],
        ] {
            assert!(batch(&wrong, By::Positions).is_err());
        }
        assert!(batch(&[], By::Ids).is_err());
    }

    #[test]
    fn what_lies_before_the_next_offset_is_no_longer_new() {
        let batch = batch(&[at("log", 4), at("log", 7)], By::Positions).unwrap();
        let old = Verdict::Duplicate(None);
        assert_eq!(batch.by_positions(4), [Verdict::First, Verdict::First]);
        assert_eq!(batch.by_positions(5), [old.clone(), Verdict::First]);
        assert_eq!(batch.by_positions(8), [old.clone(), old]);
    }

    #[test]
    fn a_parked_message_is_known_by_its_id() {
        let (mut parked, by) = (at("log", 4), By::Positions);
        parked.parked = true;
        let one = Incoming::new(&parked, by, parked.fingerprint()).unwrap();
        assert_eq!((one.how.clone(), one.records()), (How::Parked, true));
        assert!(batch(&[parked], by).is_err());
    }

    #[test]
    fn only_of_new_messages_something_is_recorded() {
        let messages = batch(&[telling("a", "x"), telling("b", "x")], By::Ids).unwrap().messages;
        let verdicts = vec![Verdict::Duplicate(None), Verdict::First];
        let judged = Judged { messages, verdicts, at: Timestamp::default() };
        assert_eq!(judged.new_ones().collect::<Vec<_>>(), [1]);
        assert!(judged.new_one(0).is_err() && judged.new_one(2).is_err());
        let one = judged.new_one(1).unwrap().clone();
        let large = Bytes::from(vec![0; Recorded::ANSWER_MAX + 1]);
        assert!(one.check_answer(Some(&large)).is_err());
        let mut kept = Kept::default();
        kept.answers.insert(1, "paid".into());
        let recorded = one.done(Some("paid".into()), Vec::new(), Timestamp::default());
        assert_eq!(judged.handled(kept).1, [Handled::Duplicate(None), Handled::First(recorded)]);
    }
}
