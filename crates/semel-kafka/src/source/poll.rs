//! Taking from the client, and looking whether its topics are still the same.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rdkafka::{
    Message, Timestamp as KafkaTime,
    consumer::{BaseConsumer, CommitMode, Consumer},
    error::KafkaError,
    message::BorrowedMessage,
    types::RDKafkaErrorCode as Code,
};
use semel::clock::Monotonic;

use super::{
    LostMessages, PATIENCE,
    hand::Phase,
    record::Record,
    start,
    state::{Callbacks, Part, Shared},
};
use crate::{error::Error, native};

/// How often topics are looked at where nothing comes.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// One look at the client. Everything here may block.
pub(super) struct Polling {
    pub(super) consumer: Arc<BaseConsumer<Callbacks>>,
    pub(super) shared: Arc<Shared>,
    pub(super) id_header: Arc<str>,
    pub(super) max: usize,
    pub(super) in_hand_max: usize,
    pub(super) lost: LostMessages,
    pub(super) now: Monotonic,
}

impl Polling {
    /// Takes what there is, and names and verifies the logs that it is of.
    pub(super) fn run(&self, checked: &mut Monotonic) -> Result<(), Error> {
        commit(&self.consumer, &self.shared)?;
        self.pause()?;
        self.take()?;
        let (unverified, suspect, unnamed) = {
            let hands = self.shared.hands();
            let unnamed = hands.logs.values().any(|hand| hand.phase == Phase::Unnamed);
            (hands.unverified, hands.suspect, unnamed)
        };
        if unverified || suspect || unnamed || self.now.since(*checked) >= CHECK_EVERY {
            self.verify()?;
            *checked = self.now;
        }
        if suspect {
            self.look_for_gaps()?;
            self.shared.hands().suspect = false;
        }
        Ok(())
    }

    fn pause(&self) -> Result<(), Error> {
        let [pause, resume] = self.shared.hands().pause(self.in_hand_max);
        let done = || {
            if pause.count() > 0 {
                self.consumer.pause(&pause)?;
            }
            if resume.count() > 0 {
                self.consumer.resume(&resume)?;
            }
            Ok(())
        };
        done().map_err(|error| Error::asking("cannot pause a log", error))
    }

    fn take(&self) -> Result<(), Error> {
        while self.shared.hands().ready() < self.max {
            let before = self.shared.calls.load(Ordering::Acquire);
            match self.consumer.poll(Duration::ZERO) {
                Some(Ok(message)) => self.receive(&message),
                Some(Err(error)) => self.heed(error)?,
                // A callback was called in its place: there may be more behind it.
                None if self.shared.calls.load(Ordering::Acquire) != before => {}
                None => return Ok(()),
            }
        }
        // There may be more: nothing tells of it again.
        self.shared.wake.notify_one();
        Ok(())
    }

    fn receive(&self, message: &BorrowedMessage<'_>) {
        let part: Part = (message.topic().into(), message.partition());
        let mut hands = self.shared.hands();
        let Some(hand) = hands.logs.get_mut(&part) else { return };
        let Phase::Started(log, topic) = &hand.phase else { return };
        let offset = message.offset();
        let record = Record {
            topic: &part.0,
            topic_id: topic.as_str(),
            log,
            partition: part.1,
            offset,
            key: message.key(),
            payload: message.payload(),
            headers: native::headers(message),
            sent_at: match message.timestamp() {
                KafkaTime::CreateTime(millis) | KafkaTime::LogAppendTime(millis) => Some(millis),
                KafkaTime::NotAvailable => None,
            },
        };
        let Some(delivery) = record.delivery(&self.id_header) else { return };
        hand.receive(offset, delivery);
        hands.unverified = true;
    }

    /// Sorts an error: most are of the way to the brokers, and pass.
    fn heed(&self, error: KafkaError) -> Result<(), Error> {
        match error.rdkafka_error_code() {
            Some(
                Code::AutoOffsetReset
                | Code::OffsetOutOfRange
                | Code::UnknownTopicOrPartition
                | Code::UnknownTopic
                | Code::UnknownTopicId
                | Code::UnknownPartition,
            ) => {
                self.shared.hands().suspect = true;
                Ok(())
            }
            Some(
                Code::TopicAuthorizationFailed
                | Code::GroupAuthorizationFailed
                | Code::Fatal
                | Code::FencedInstanceId
                | Code::UnsupportedVersion,
            ) => Err(Error::invalid("the brokers refuse this consumer").with_source(error)),
            _ => {
                tracing::debug!(%error, "the client goes on by itself");
                Ok(())
            }
        }
    }

    /// Asks which topics bear the names of those in hand. What was received before is theirs if they are the
    /// same still: an id never comes back.
    fn verify(&self) -> Result<(), Error> {
        let names: BTreeSet<_> =
            self.shared.hands().logs.keys().map(|(topic, _)| topic.clone()).collect();
        let names: Vec<_> = names.iter().map(AsRef::as_ref).collect();
        if !names.is_empty() {
            let ids = native::topic_ids(self.consumer.client(), &names, PATIENCE);
            let ids = ids.map_err(|error| Error::asking("cannot verify a topic", error))?;
            let mut others = Vec::new();
            let mut hands = self.shared.hands();
            for (name, id) in names.into_iter().zip(ids) {
                if hands.name(name, id.as_ref()) {
                    others.push(name);
                }
            }
            drop(hands);
            if !others.is_empty() {
                tracing::warn!(topics = ?others, "deleted, or deleted and made again");
                join_anew(&self.consumer)?;
            }
        }
        self.shared.hands().unverified = false;
        self.pause()
    }

    /// Looks whether a log no longer has what comes next.
    fn look_for_gaps(&self) -> Result<(), Error> {
        let started: Vec<(Part, i64)> = {
            let hands = self.shared.hands();
            let logs = hands.logs.iter().filter(|(_, hand)| hand.is_started());
            logs.map(|(part, hand)| (part.clone(), hand.expected)).collect()
        };
        let mut lost = false;
        for (part, expected) in started {
            let marks = self.consumer.fetch_watermarks(&part.0, part.1, PATIENCE);
            let (low, high) =
                marks.map_err(|error| Error::asking("cannot read where a log begins", error))?;
            if (low..=high).contains(&expected) {
                continue;
            }
            start::gap(self.lost, &part, expected, expected.clamp(low, high))?;
            lost = true;
        }
        // The client has given the log up, and takes it again only when it is assigned anew.
        if lost { join_anew(&self.consumer) } else { Ok(()) }
    }
}

/// Leaves the group and joins it again: a log that the client has given up, as one of a topic that is gone, it takes
/// again only when it is assigned anew.
pub(super) fn join_anew(consumer: &BaseConsumer<Callbacks>) -> Result<(), Error> {
    let topics = consumer.subscription();
    let topics = topics.map_err(|error| Error::asking("cannot subscribe", error))?;
    let topics = topics.elements();
    let topics: Vec<_> = topics.iter().map(|element| element.topic()).collect();
    consumer.unsubscribe();
    let joined = consumer.subscribe(&topics);
    joined.map_err(|error| Error::asking("cannot subscribe", error))
}

/// Tells the broker what is settled, unless it is being told something.
pub(super) fn commit(consumer: &BaseConsumer<Callbacks>, shared: &Shared) -> Result<(), Error> {
    let Some(list) = shared.hands().commit() else { return Ok(()) };
    let told = consumer.commit(&list, CommitMode::Async);
    if told.is_err() {
        shared.hands().not_told(&list);
    }
    told.map_err(|error| Error::asking("cannot tell what is settled", error))
}
