//! Where a log begins.

use std::sync::Arc;

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
};
use semel::inbox::LogId;

use super::{
    First, LostMessages, PATIENCE,
    hand::Phase,
    state::{Callbacks, Part, Shared},
};
use crate::{error::Error, native::TopicId};

/// A log that waits for its beginning.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) part: Part,
    pub(super) topic: TopicId,
    /// Of which assignment.
    pub(super) nth: u64,
}

impl Place {
    pub(super) fn of(shared: &Shared, id: &LogId) -> Option<Self> {
        shared.hands().logs.iter().find_map(|(part, hand)| match &hand.phase {
            Phase::Named(named, topic) if named == id => {
                Some(Self { part: part.clone(), topic: topic.clone(), nth: hand.nth })
            }
            _ => None,
        })
    }

    /// Whether it still waits, of the same assignment.
    pub(super) fn waits(&self, shared: &Shared) -> bool {
        let hands = shared.hands();
        let hand = hands.logs.get(&self.part).filter(|hand| hand.nth == self.nth);
        hand.is_some_and(|hand| matches!(hand.phase, Phase::Named(..)))
    }
}

/// What is asked to find where a log begins.
pub(super) struct Beginning {
    pub(super) consumer: Arc<BaseConsumer<Callbacks>>,
    pub(super) place: Place,
    /// Where the caller's own memory is.
    pub(super) from: Option<u64>,
    pub(super) first: First,
    pub(super) lost: LostMessages,
}

impl Beginning {
    /// Returns where it begins, and where it ends by now. Blocks.
    pub(super) fn find(&self) -> Result<(i64, i64), Error> {
        let (topic, partition) = (&self.place.part.0, self.place.part.1);
        let marks = self.consumer.fetch_watermarks(topic, partition, PATIENCE);
        let (low, high) =
            marks.map_err(|error| Error::asking("cannot read where a log begins", error))?;
        let known = match self.from {
            Some(from) => Some(i64::try_from(from).unwrap_or(i64::MAX)),
            None => self.remembered()?,
        };
        let Some(from) = known else {
            return Ok((if self.first == First::Earliest { low } else { high }, high));
        };
        if (low..=high).contains(&from) {
            return Ok((from, high));
        }
        let nearest = from.clamp(low, high);
        gap(self.lost, &self.place.part, from, nearest).map(|()| (nearest, high))
    }

    /// Where the broker remembers this group to be, if that was in this very topic.
    fn remembered(&self) -> Result<Option<i64>, Error> {
        let (topic, partition) = (&self.place.part.0, self.place.part.1);
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        let list = self.consumer.committed_offsets(list, PATIENCE);
        let list = list.map_err(|error| Error::asking("cannot read where a group is", error))?;
        let Some(element) = list.find_partition(topic, partition) else { return Ok(None) };
        let Offset::Offset(offset) = element.offset() else { return Ok(None) };
        let of = element.metadata();
        // Whoever resets a group by Kafka's own tools leaves this empty.
        if !of.is_empty() && of != self.place.topic.to_string() {
            tracing::warn!(
                topic = %topic, partition,
                "the topic was deleted and made again: its messages are read from the first on"
            );
            return Ok(None);
        }
        Ok(Some(offset))
    }
}

/// Moves a log that is paused. Blocks. The inner error is the log's own, such as that it has not begun.
pub(super) fn seek(
    consumer: &BaseConsumer<Callbacks>,
    part: &Part,
    to: i64,
) -> Result<Result<(), KafkaError>, Error> {
    let mut list = TopicPartitionList::new();
    let added = list.add_partition_offset(&part.0, part.1, Offset::Offset(to));
    let list = added.and_then(|()| consumer.seek_partitions(list, PATIENCE));
    let list = list.map_err(|error| Error::asking("cannot move a log", error))?;
    let failed = list.elements().iter().find_map(|element| element.error().err());
    Ok(failed.map_or(Ok(()), Err))
}

/// Tells of messages that are gone before they were read.
pub(super) fn gap(lost: LostMessages, part: &Part, from: i64, to: i64) -> Result<(), Error> {
    let (topic, partition) = (&part.0, part.1);
    let why = if to > from {
        format!(
            "partition {partition} of {topic} has lost the messages from {from} to {}: they were \
             deleted before they were read",
            to - 1
        )
    } else {
        format!(
            "partition {partition} of {topic} ends at {to}, before {from} where this consumer is: \
             its broker has lost messages"
        )
    };
    match lost {
        LostMessages::Refuse => Err(Error::invalid(why)),
        LostMessages::Skip => {
            tracing::error!("{why}");
            Ok(())
        }
    }
}
