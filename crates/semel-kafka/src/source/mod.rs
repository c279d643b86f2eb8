//! Messages in: only committed ones, and nothing acknowledged before its effect.

mod builder;
mod hand;
mod poll;
mod record;
mod start;
mod state;

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use rdkafka::{
    TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer, ConsumerGroupMetadata},
    error::KafkaError,
    types::RDKafkaErrorCode,
};
use semel::{
    clock::{Clock, Monotonic, SystemClock},
    inbox::{Acked, LogId, Receipt, Received, Settlement, Source, SourceCapabilities, SourceError},
};
use tokio::{sync::Mutex, time::timeout};

pub use self::builder::KafkaSourceBuilder;
use self::{
    start::{Beginning, Place},
    state::{Callbacks, Shared, add},
};
use crate::{
    blocking::{aside, blocking},
    config::KafkaConfig,
    error::{Error, ErrorKind},
};

/// How long one question to the brokers may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a consumer that waits is looked after, whatever wakes it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long the client may take to begin with a log.
const SEEK_WAIT: Duration = Duration::from_secs(5);
/// How soon a log is moved again that could not be yet.
const SEEK_EVERY: Duration = Duration::from_millis(10);

/// Where a log begins that this group never read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum First {
    /// With the oldest message that is still there.
    #[default]
    Earliest,
    /// With what comes from now on.
    Latest,
}

/// What to do where a log no longer has what comes next: it was deleted before it was read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LostMessages {
    /// Stop, and say how much: somebody is to decide.
    #[default]
    Refuse,
    /// Go on with what is there, and say so in the log.
    Skip,
}

/// Hands out messages of Kafka, each at least once, until they are acknowledged.
///
/// - Only records of committed transactions are seen (`isolation.level = read_committed`).
/// - A message is named by its header `id`, in every copy that its producer made; without one by topic,
///   partition and offset, in every copy that Kafka makes.
/// - A log is a partition of one incarnation of a topic. A topic that is deleted and made again is found
///   out by its id, before anything of it is handed out: its logs are revoked and others are assigned.
/// - What is acknowledged is told to the broker in the background, as soon as the one before was taken;
///   [`Source::close`] waits for the last. Until then a crash brings it again.
/// - After a rebalance what was received from a partition that went cannot be settled any more. Those that
///   stay are untouched (`cooperative-sticky` unless set).
/// - A consumer that asks for nothing for `max.poll.interval.ms` (five minutes) loses its partitions.
pub struct KafkaSource {
    /// None once it is closed.
    consumer: RwLock<Option<Arc<BaseConsumer<Callbacks>>>>,
    shared: Arc<Shared>,
    /// When its topics were last looked at. Held by whoever takes from the consumer, also after its caller
    /// gave up: the order is kept.
    checked: Arc<Mutex<Monotonic>>,
    clock: SystemClock,
    first: First,
    lost: LostMessages,
    horizon: Option<Duration>,
    id_header: Arc<str>,
    in_hand_max: usize,
}

impl KafkaSource {
    /// Sets up a source to these brokers, for a group of consumers that share the messages of its topics.
    pub fn builder(config: KafkaConfig, group: impl Into<Box<str>>) -> KafkaSourceBuilder {
        KafkaSourceBuilder::new(config, group.into())
    }

    fn consumer(&self) -> Result<Arc<BaseConsumer<Callbacks>>, Error> {
        let consumer = self.consumer.read().unwrap_or_else(PoisonError::into_inner);
        consumer.clone().ok_or_else(|| Error::invalid("the source is closed"))
    }

    /// Takes what the client has, in a thread that may block. Goes on to its end if the caller gives up.
    async fn drain(&self, max: usize) -> Result<(), Error> {
        let consumer = self.consumer()?;
        let mut checked = self.checked.clone().lock_owned().await;
        let polling = poll::Polling {
            consumer,
            shared: self.shared.clone(),
            id_header: self.id_header.clone(),
            max,
            in_hand_max: self.in_hand_max,
            lost: self.lost,
            now: self.clock.monotonic(),
        };
        blocking(move || polling.run(&mut checked)).await
    }

    /// Tells the broker what is settled, unless it is being told something already: its answer goes on.
    fn commit(&self) -> Result<(), Error> {
        let consumer = self.consumer()?;
        poll::commit(&consumer, &self.shared)
    }

    /// Returns where its logs are after these deliveries, and the group that has it so, for a
    /// transaction that consumes them.
    pub(crate) fn positions(
        &self,
        receipts: &[Receipt],
    ) -> Result<(TopicPartitionList, ConsumerGroupMetadata), Error> {
        let consumer = self.consumer()?;
        let lost = || Error::new(ErrorKind::Lost, "a delivery is no longer this consumer's");
        let hands = self.shared.hands();
        let mut list = TopicPartitionList::new();
        for (part, offsets) in hands.places(receipts).ok_or_else(lost)? {
            let hand = hands.logs.get(&part).ok_or_else(lost)?;
            let after = hand.after(&offsets).ok_or_else(|| {
                Error::invalid(
                    "a transaction consumes what follows on what is settled, without a gap",
                )
            })?;
            let topic = hand.topic_id().ok_or_else(lost)?;
            add(&mut list, &part, after, topic);
        }
        let group = consumer.group_metadata();
        Ok((list, group.ok_or_else(|| Error::invalid("a source has a group"))?))
    }

    /// Has deliveries come again, as their transaction was undone.
    pub(crate) fn again(&self, receipts: &[Receipt]) {
        let now = self.clock.monotonic();
        let again = Settlement::Again(Duration::ZERO);
        let settlements: Vec<_> = receipts.iter().map(|receipt| (*receipt, again)).collect();
        self.shared.hands().settle(&settlements, now);
        self.shared.wake.notify_one();
    }

    /// Notes that deliveries were consumed by a transaction, which has told the broker already.
    pub(crate) fn consumed(&self, receipts: &[Receipt]) {
        let now = self.clock.monotonic();
        let settlements: Vec<_> =
            receipts.iter().map(|receipt| (*receipt, Settlement::Ack)).collect();
        let mut hands = self.shared.hands();
        let places = hands.places(receipts).unwrap_or_default();
        hands.settle(&settlements, now);
        hands.told(places.keys());
        drop(hands);
        self.shared.wake.notify_one();
    }
}

#[async_trait]
impl Source for KafkaSource {
    fn capabilities(&self) -> SourceCapabilities {
        let mut capabilities = SourceCapabilities::new("kafka");
        capabilities.logs = true;
        capabilities.horizon = self.horizon;
        capabilities
    }

    async fn receive(&self, max: usize, wait: Duration) -> Result<Received, SourceError> {
        let max = max.clamp(1, self.capabilities().batch_max);
        let end = self.clock.monotonic().after(wait);
        loop {
            self.drain(max).await?;
            let now = self.clock.monotonic();
            let received = self.shared.hands().take(max, now);
            let is_empty = received.deliveries.is_empty()
                && received.assigned.is_empty()
                && received.revoked.is_empty();
            if !is_empty || now >= end {
                return Ok(received);
            }
            let due = self.shared.hands().due().unwrap_or(end).min(end);
            let pause = due.since(now).min(LOOK_EVERY);
            // Woken or not, the next look tells.
            let _ = timeout(pause, self.shared.wake.notified()).await;
        }
    }

    async fn start(&self, logs: Vec<(LogId, Option<u64>)>) -> Result<(), SourceError> {
        let consumer = self.consumer()?;
        for (id, from) in logs {
            let Some(place) = Place::of(&self.shared, &id) else { continue };
            let beginning = Beginning {
                consumer: consumer.clone(),
                place: place.clone(),
                from,
                first: self.first,
                lost: self.lost,
            };
            let (from, end) = blocking(move || beginning.find()).await?;
            if self.seek(&consumer, &place, from).await? {
                self.shared.hands().start(&place, from, end);
            }
        }
        self.shared.wake.notify_one();
        Ok(())
    }

    async fn settle(
        &self,
        settlements: Vec<(Receipt, Settlement)>,
    ) -> Result<Vec<Acked>, SourceError> {
        let now = self.clock.monotonic();
        let acked = self.shared.hands().settle(&settlements, now);
        self.commit()?;
        self.shared.wake.notify_one();
        Ok(acked)
    }

    async fn close(&self) -> Result<(), SourceError> {
        let taken = self.consumer.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(consumer) = taken else { return Ok(()) };
        let turn = self.checked.clone().lock_owned().await;
        let shared = self.shared.clone();
        let close = move || {
            let list = shared.hands().untold(|_| true);
            let told = list.map_or(Ok(()), |list| consumer.commit(&list, CommitMode::Sync));
            // Leaving the group is part of it.
            drop((consumer, turn));
            told.map_err(|error| Error::asking("what was settled last is not confirmed", error))
        };
        Ok(blocking(close).await?)
    }
}

impl KafkaSource {
    /// Moves a log that is paused; `false` if it is gone meanwhile. It cannot be moved before the client has
    /// begun with it, or once it has let it go: which of both, its callbacks tell.
    async fn seek(
        &self,
        consumer: &Arc<BaseConsumer<Callbacks>>,
        place: &Place,
        to: i64,
    ) -> Result<bool, Error> {
        let end = self.clock.monotonic().after(SEEK_WAIT);
        loop {
            let (moving, part) = (Arc::clone(consumer), place.part.clone());
            let moved = blocking(move || start::seek(&moving, &part, to)).await?;
            let Err(error) = moved else { return Ok(true) };
            let not_yet = matches!(&error, KafkaError::OffsetFetch(RDKafkaErrorCode::State));
            if !not_yet {
                return Err(Error::asking("cannot move a log", error));
            }
            if self.clock.monotonic() > end {
                poll::join_anew(consumer)?;
                return Ok(false);
            }
            let _ = timeout(SEEK_EVERY, self.shared.wake.notified()).await;
            self.drain(1).await?;
            if !place.waits(&self.shared) {
                return Ok(false);
            }
        }
    }
}

impl Drop for KafkaSource {
    /// Leaves the group where the wait for its answer holds up nobody. Nothing is acknowledged by it.
    fn drop(&mut self) {
        let consumer = self.consumer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        aside(move || drop(consumer));
    }
}

impl fmt::Debug for KafkaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hands = self.shared.hands();
        f.debug_struct("KafkaSource")
            .field("horizon", &self.horizon)
            .field("logs", &hands.logs)
            .finish_non_exhaustive()
    }
}
