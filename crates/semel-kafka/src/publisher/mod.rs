//! Events out: confirmed by the broker's word, in the order of their aggregate.

mod batch;
mod live;
mod route;
mod verdict;

use std::{
    collections::HashSet,
    fmt,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use rdkafka::ClientConfig;
use semel::outbox::{Event, Message, Publisher, PublisherCapabilities, Sent};
use tokio::time::{Sleep, sleep};
use tokio_util::task::TaskTracker;

use self::{
    batch::Batch,
    live::{Live, Round},
    route::Route,
};
use crate::{
    admin::{Admin, Durability},
    config::KafkaConfig,
    error::Error,
};

/// What a publisher is set to unless the user says otherwise. The partitioner is that of Java's clients,
/// so that events that Debezium sent before, or another service sends, stay on their partition.
const DEFAULTS: &[(&str, &str)] = &[("linger.ms", "1"), ("partitioner", "murmur2_random")];
/// What is kept: an answer of every replica in sync, each send once, no gap inside a partition.
const KEPT: &[(&str, &str)] =
    &[("acks", "all"), ("enable.idempotence", "true"), ("enable.gapless.guarantee", "true")];
/// How long before its end a publish stops sending what is still queued.
const STOP_BEFORE: Duration = Duration::from_millis(2_500);
/// How long before its end librdkafka gives up what it was not answered about. It looks once a second.
const GIVE_UP_BEFORE: Duration = Duration::from_millis(1_500);
/// The shortest wait that leaves time to send.
const WAIT_MIN: Duration = Duration::from_secs(4);
/// Which part of its wait a publish gives a topic to appear.
const UNKNOWN_TOPIC_PART: u32 = 6;
/// How many topics the publisher remembers to have shown the durability of.
const SHOWN_MAX: usize = 1_000;

/// Sets up a publisher.
#[derive(Clone, Debug)]
#[must_use]
pub struct KafkaPublisherBuilder {
    config: KafkaConfig,
    topics: Box<str>,
    wait: Duration,
    batch_max: usize,
}

impl KafkaPublisherBuilder {
    /// Names the topic of an event: `${aggregatetype}` stands for the type of its aggregate. It is
    /// `outbox.event.${aggregatetype}` unless set, as Debezium's event router has it.
    pub fn topics(mut self, template: impl Into<Box<str>>) -> Self {
        self.topics = template.into();
        self
    }

    /// Says how long a batch may take, at least 4 s; 30 s unless set. What is not confirmed by then is
    /// refused if it was never sent, and unknown if it may have arrived.
    pub fn publish_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Says how many events a batch may have; 1,000 unless set.
    pub fn batch_max(mut self, batch_max: usize) -> Self {
        self.batch_max = batch_max.max(1);
        self
    }

    /// Makes the publisher. The brokers need not be there yet.
    ///
    /// # Errors
    ///
    /// Fails with kind `Invalid` if a setting is wrong.
    pub async fn open(self) -> Result<KafkaPublisher, Error> {
        let route = Route::new(&self.topics)?;
        if self.wait < WAIT_MIN {
            return Err(Error::invalid("a publisher waits for at least 4 s"));
        }
        let patience = self.wait.saturating_sub(GIVE_UP_BEFORE).as_millis().to_string();
        let own = [("message.timeout.ms", patience.as_str())];
        // Within the wait a topic that is not there must be told from brokers that are not.
        let unknown_topic = (self.wait / UNKNOWN_TOPIC_PART).as_millis().to_string();
        let defaults = [("topic.metadata.propagation.max.ms", unknown_topic.as_str())];
        let config = self.config.client(&[DEFAULTS, &defaults].concat(), &[KEPT, &own].concat())?;
        let admin = self.config.client(&[], &[])?;
        let live = Arc::new(Live::new(&config)?);
        let publisher = KafkaPublisher {
            route,
            config,
            admin,
            live: Mutex::new(Some(live)),
            shown: Mutex::default(),
            tasks: TaskTracker::new(),
            wait: self.wait,
            batch_max: self.batch_max,
        };
        if let Some(topic) = publisher.route.only() {
            publisher.show(topic);
        }
        Ok(publisher)
    }
}

/// Sends events to Kafka.
///
/// An event becomes a record of the topic that is named by the type of its aggregate, under the id of
/// its aggregate as the key, with its own headers and these: `id` (the name of the event, the same in
/// every copy), `eventType`, `traceparent` if it has a trace, and `semel-cause` if it has a cause.
///
/// It is confirmed when every replica in sync has it; [`KafkaPublisher::durability`] says what that is
/// worth, and so does a line in the log for each topic that something was first confirmed of. The
/// producer is idempotent: what librdkafka sends again by itself, as after a lost answer, is one record.
/// What a call could not confirm is for the relay to send again, as a copy under the same `id`.
///
/// Refused with the destination at fault: the brokers were away, or their word was no. With the message
/// at fault: it is too large, or its topic is not there while others may be.
pub struct KafkaPublisher {
    route: Route,
    config: ClientConfig,
    admin: ClientConfig,
    /// The producer; none after one that failed, until the next batch.
    live: Mutex<Option<Arc<Live>>>,
    shown: Mutex<HashSet<Box<str>>>,
    tasks: TaskTracker,
    wait: Duration,
    batch_max: usize,
}

impl KafkaPublisher {
    /// Sets up a publisher to these brokers.
    pub fn builder(config: KafkaConfig) -> KafkaPublisherBuilder {
        KafkaPublisherBuilder {
            config,
            topics: "outbox.event.${aggregatetype}".into(),
            wait: Duration::from_secs(30),
            batch_max: 1_000,
        }
    }

    /// Asks the brokers what a confirmation of a topic is worth.
    ///
    /// # Errors
    ///
    /// Fails with kind `Away` if they do not answer or there is no such topic.
    pub async fn durability(&self, topic: &str) -> Result<Durability, Error> {
        Admin::new(&self.admin)?.durability(topic).await
    }

    /// Sends what is open of a batch until everything has an outcome or the time is over.
    async fn send(&self, batch: &mut Batch) {
        let mut times = Times {
            stop: pin!(sleep(self.wait.saturating_sub(STOP_BEFORE))),
            end: pin!(sleep(self.wait)),
            stopped: false,
        };
        while let Some(run) = batch.next_run() {
            let live = match self.live() {
                Ok(live) => live,
                Err(error) => return batch.give_up(&error.to_string()),
            };
            let round = Arc::new(Round::new(run.len()));
            batch.enqueue(&live, &round, &run, &self.route);
            times.wait_for(&live, &round).await;
            batch.judge(&round, &run, self.route.is_many());
            if live.has_failed() {
                self.replace(&live);
            }
            if times.stopped {
                return batch.give_up("the brokers did not take it in time");
            }
        }
    }

    /// Returns the producer, a new one if the last has failed.
    fn live(&self) -> Result<Arc<Live>, Error> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        match &*live {
            Some(live) if !live.has_failed() => Ok(live.clone()),
            _ => Ok(live.insert(Arc::new(Live::new(&self.config)?)).clone()),
        }
    }

    /// Puts a producer away: nothing more is given to it, and it ends with the last batch that waits for it.
    fn replace(&self, old: &Arc<Live>) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.as_ref().is_some_and(|live| Arc::ptr_eq(live, old)) {
            *live = None;
        }
    }

    /// Logs once for each topic what a confirmation is worth.
    fn show(&self, topic: &str) {
        {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            if shown.len() >= SHOWN_MAX || !shown.insert(topic.into()) {
                return;
            }
        }
        let (config, topic) = (self.admin.clone(), Box::<str>::from(topic));
        drop(self.tasks.spawn(async move {
            let asked = async { Admin::new(&config)?.durability(&topic).await };
            match asked.await {
                Ok(durability) if durability.survives_one_loss() => {
                    tracing::info!(%topic, "{durability}");
                }
                Ok(durability) => tracing::warn!(
                    %topic,
                    "{durability}: losing one broker may lose confirmed events"
                ),
                Err(error) => {
                    tracing::warn!(%topic, %error, "what is confirmed is not known to last")
                }
            }
        }));
    }
}

/// When a batch stops sending, and when it ends.
struct Times<'a> {
    stop: Pin<&'a mut Sleep>,
    end: Pin<&'a mut Sleep>,
    stopped: bool,
}

impl Times<'_> {
    /// Waits until everything of a round is told, or the time is over. However late this is looked at, the
    /// producer is stopped before the end.
    async fn wait_for(&mut self, live: &Live, round: &Round) {
        loop {
            tokio::select! {
                biased;
                () = round.finished() => return,
                () = &mut self.stop, if !self.stopped => {
                    self.stopped = true;
                    live.stop_sending();
                }
                () = &mut self.end => return,
            }
        }
    }
}

#[async_trait]
impl Publisher for KafkaPublisher {
    fn capabilities(&self) -> PublisherCapabilities {
        let mut capabilities = PublisherCapabilities::new("kafka");
        capabilities.pipelined = true;
        capabilities.batch_max = self.batch_max;
        capabilities.batches_max = 4;
        capabilities.publish_wait = self.wait;
        // A record carries key and headers too, and the broker's bound is on the record.
        let record_max = self.config.get("message.max.bytes").and_then(|max| max.parse().ok());
        let record_max: usize = record_max.unwrap_or(1_000_000);
        capabilities.payload_max = Event::PAYLOAD_MAX.min(record_max.saturating_sub(8_192));
        capabilities
    }

    async fn publish(&self, messages: Vec<Message>) -> Vec<Sent> {
        let mut batch = Batch::new(messages, self.capabilities().payload_max);
        self.send(&mut batch).await;
        for topic in batch.kinds().filter_map(|kind| self.route.topic(kind).ok()) {
            self.show(&topic);
        }
        batch.into_sent()
    }
}

impl fmt::Debug for KafkaPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaPublisher").field("route", &self.route).finish_non_exhaustive()
    }
}
