//! Taking from the client, and looking whether its topics are still the same.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use rdkafka::{
    Message, Timestamp as KafkaTime,
    consumer::{BaseConsumer, CommitMode, Consumer},
    error::KafkaError,
    message::{BorrowedMessage, Headers},
    types::RDKafkaErrorCode as Code,
};
use semel::{
    clock::{Monotonic, Timestamp},
    inbox::{Delivery, MessageId, Position, Receipt, SourceName},
};

use super::{
    LostMessages, PATIENCE,
    hand::Phase,
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
        let name = format!("{topic}/{}/{offset}", part.1);
        let Some(mut delivery) = self.delivery(message, &name) else { return };
        let position = u64::try_from(offset).unwrap_or_default();
        delivery.position = Some(Position { log: log.clone(), offset: position });
        hand.receive(offset, delivery);
        hands.unverified = true;
    }

    /// Makes a delivery of a message. `name` is its name unless its producer gave it one.
    fn delivery(&self, message: &BorrowedMessage<'_>, name: &str) -> Option<Delivery> {
        let source = SourceName::new(format!("kafka:{}", message.topic())).ok()?;
        let headers: Vec<_> = message
            .headers()
            .into_iter()
            .flat_map(|headers| headers.iter())
            .map(|header| {
                let value = header.value.map(Bytes::copy_from_slice).unwrap_or_default();
                (Box::<str>::from(header.key), value)
            })
            .collect();
        let given = headers.iter().find(|(key, _)| key.as_ref() == self.id_header.as_ref());
        let given = given.and_then(|(_, value)| std::str::from_utf8(value).ok());
        let given = given.and_then(|id| MessageId::new(source.clone(), id).ok());
        let id = given.or_else(|| MessageId::new(source, name).ok())?;
        let payload = message.payload().map(Bytes::copy_from_slice);
        let mut delivery = Delivery::new(id, Receipt(0), payload);
        delivery.headers = headers;
        delivery.key = message.key().map(Bytes::copy_from_slice);
        delivery.sent_at = match message.timestamp() {
            KafkaTime::CreateTime(millis) | KafkaTime::LogAppendTime(millis) => {
                let millis = u64::try_from(millis).ok();
                millis.map(|millis| Timestamp::from_micros(millis.saturating_mul(1_000)))
            }
            KafkaTime::NotAvailable => None,
        };
        Some(delivery)
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
