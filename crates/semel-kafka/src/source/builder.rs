//! Setting up a source.

use std::{
    sync::{Arc, RwLock},
    time::Duration,
};

use rdkafka::{
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, Consumer},
};
use semel::clock::{Clock, SystemClock};
use tokio::sync::Mutex;

use super::{
    First, KafkaSource, LostMessages,
    state::{Callbacks, Shared},
};
use crate::{admin::Admin, config::KafkaConfig, error::Error};

/// What a consumer is set to unless the user says otherwise. A topic that appears is found within ten
/// seconds, and what is fetched ahead is bounded to 16 MiB.
const DEFAULTS: &[(&str, &str)] = &[
    ("partition.assignment.strategy", "cooperative-sticky"),
    ("topic.metadata.refresh.interval.ms", "10000"),
    ("queued.max.messages.kbytes", "16384"),
];
/// What is kept.
const KEPT: &[(&str, &str)] = &[
    ("auto.offset.reset", "error"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("isolation.level", "read_committed"),
];

/// Sets up a source.
#[derive(Clone, Debug)]
#[must_use]
pub struct KafkaSourceBuilder {
    config: KafkaConfig,
    group: Box<str>,
    topics: Vec<Box<str>>,
    first: First,
    lost: LostMessages,
    id_header: Box<str>,
    in_hand_max: usize,
}

impl KafkaSourceBuilder {
    pub(super) fn new(config: KafkaConfig, group: Box<str>) -> Self {
        Self {
            config,
            group,
            topics: Vec::new(),
            first: First::default(),
            lost: LostMessages::default(),
            id_header: "id".into(),
            in_hand_max: 10_000,
        }
    }

    /// Adds a topic.
    pub fn topic(mut self, topic: impl Into<Box<str>>) -> Self {
        self.topics.push(topic.into());
        self
    }

    /// Says where a log begins that this group never read; with the oldest message unless set.
    pub fn first(mut self, first: First) -> Self {
        self.first = first;
        self
    }

    /// Says what to do where messages were deleted before they were read; to stop unless set.
    pub fn lost_messages(mut self, lost: LostMessages) -> Self {
        self.lost = lost;
        self
    }

    /// Names the header that names a message; `id` unless set.
    pub fn id_header(mut self, name: impl Into<Box<str>>) -> Self {
        self.id_header = name.into();
        self
    }

    /// Says how many messages may be in memory, received and not settled; 10,000 unless set.
    pub fn in_hand_max(mut self, max: usize) -> Self {
        self.in_hand_max = max.max(1);
        self
    }

    /// Joins the group, and reads from the brokers how long a message may come again.
    ///
    /// # Errors
    ///
    /// Fails with kind `Invalid` if a setting is wrong or no topic was named, and with kind `Away` if the
    /// brokers do not answer or lack a topic.
    pub async fn open(self) -> Result<KafkaSource, Error> {
        if self.topics.is_empty() {
            return Err(Error::invalid("a source names at least one topic"));
        }
        let group = [("group.id", self.group.as_ref())];
        let config = self.config.client(DEFAULTS, &[KEPT, &group].concat())?;
        let horizon: Option<Duration> =
            Admin::new(&self.config.client(&[], &[])?)?.horizon(&self.topics).await?;
        let shared = Arc::new(Shared::default());
        let consumer = BaseConsumer::from_config_and_context(&config, Callbacks(shared.clone()));
        let mut consumer =
            consumer.map_err(|error| Error::asking("cannot make a consumer", error))?;
        let waker = shared.clone();
        consumer.set_nonempty_callback(move || waker.wake.notify_one());
        let topics: Vec<_> = self.topics.iter().map(AsRef::as_ref).collect();
        let joined = consumer.subscribe(&topics);
        joined.map_err(|error| Error::asking("cannot subscribe", error))?;
        let clock = SystemClock::new();
        Ok(KafkaSource {
            consumer: RwLock::new(Some(Arc::new(consumer))),
            shared,
            checked: Arc::new(Mutex::new(clock.monotonic())),
            clock,
            first: self.first,
            lost: self.lost,
            horizon,
            id_header: self.id_header.into(),
            in_hand_max: self.in_hand_max,
        })
    }
}
