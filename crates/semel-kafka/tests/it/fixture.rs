//! Brokers, topics and what lies in them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer},
    message::{Headers as _, OwnedMessage},
    producer::{BaseProducer, BaseRecord, Producer},
    types::RDKafkaErrorCode,
};
use semel::{
    inbox::{Acked, Delivery, LogId, Received, Settlement, Source},
    outbox::{Destination, Event, EventId, Lane, Message, Publisher, Sent},
};
use semel_kafka::{KafkaConfig, KafkaPublisher, KafkaSource};
use semel_testkit::servers::{Kafka, TcpProxy};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// A broker behind a proxy that all its clients are led to.
pub(crate) struct Cluster {
    pub(crate) broker: Kafka,
    pub(crate) proxy: TcpProxy,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let proxy = TcpProxy::start(([127, 0, 0, 1], 9).into()).await;
        let advertised = format!("BROKER://{}", proxy.address());
        let broker = Kafka::builder().setting("advertised.listeners", &advertised);
        // The broker reaches itself by the way it advertises: that must be open before it serves.
        let broker = broker.setting("controller.socket.timeout.ms", "3000").start().await;
        proxy.lead_to(broker.address());
        Self { broker, proxy }
    }

    pub(crate) fn config(&self) -> KafkaConfig {
        KafkaConfig::new(self.proxy.address().to_string())
    }
}

/// The one broker that tests may kill, one test at a time. Its proxy lives in a runtime of its own.
pub(crate) async fn breakable() -> MutexGuard<'static, Cluster> {
    static CLUSTER: OnceCell<Mutex<Cluster>> = OnceCell::const_new();
    let start = || async {
        let (tell, told) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let _ = tell.send(Cluster::start().await);
                std::future::pending::<()>().await;
            });
        });
        Mutex::new(told.await.unwrap())
    };
    let mut cluster = CLUSTER.get_or_init(start).await.lock().await;
    // What a test that failed has broken breaks no other.
    cluster.broker.resume();
    if !cluster.broker.is_running() {
        cluster.broker.restart().await;
    }
    cluster
}

/// Where the brokers are that all tests share.
pub(crate) async fn brokers() -> String {
    Kafka::shared().await.address().to_string()
}

/// The brokers that all tests share.
pub(crate) async fn shared() -> KafkaConfig {
    KafkaConfig::new(brokers().await)
}

/// Has groups forget the dead, and see what topics there are, within a test's patience.
pub(crate) fn quick(config: KafkaConfig) -> KafkaConfig {
    let config = config.set("session.timeout.ms", "3000").set("heartbeat.interval.ms", "300");
    config.set("topic.metadata.refresh.interval.ms", "500")
}

/// A name that nothing else in this process bears.
pub(crate) fn name(word: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{word}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Runs what blocks elsewhere.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

fn admin(brokers: &str) -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap()
}

/// Makes a topic with settings, and waits until it is served.
pub(crate) async fn topic_with(
    brokers: &str,
    topic: &str,
    partitions: i32,
    settings: &[(&str, &str)],
) {
    let mut wanted = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
    for (name, value) in settings {
        wanted = wanted.set(name, value);
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let made = admin(brokers).create_topics([&wanted], &AdminOptions::new()).await.unwrap();
        match &made[0] {
            Ok(_) => break,
            // The one of this name is still on its way out.
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) if Instant::now() < deadline => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    let (brokers, topic) = (brokers.to_owned(), topic.to_owned());
    let served = blocking(move || {
        let client = consumer(&brokers);
        let is_served = || {
            let metadata = client.fetch_metadata(Some(&topic), PATIENCE).ok()?;
            let known = metadata.topics().first()?;
            let led = known.partitions().iter().filter(|partition| partition.leader() >= 0);
            (led.count() == usize::try_from(partitions).ok()?).then_some(())
        };
        while is_served().is_none() && Instant::now() < deadline {}
        is_served().is_some()
    });
    assert!(served.await, "the topic is not served");
}

/// Makes a topic.
pub(crate) async fn topic(brokers: &str, topic: &str, partitions: i32) {
    topic_with(brokers, topic, partitions, &[]).await;
}

/// Deletes a topic.
pub(crate) async fn delete(brokers: &str, topic: &str) {
    let deleted = admin(brokers).delete_topics(&[topic], &AdminOptions::new()).await.unwrap();
    assert!(deleted[0].is_ok(), "{deleted:?}");
}

/// A record as it lies in its topic.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Row {
    pub(crate) partition: i32,
    pub(crate) key: String,
    pub(crate) payload: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Row {
    pub(crate) fn id(&self) -> &str {
        self.headers.get("id").map_or("", String::as_str)
    }
}

/// Reads everything that lies in a topic and was committed, partition by partition.
pub(crate) async fn rows(brokers: &str, topic: &str) -> Vec<Row> {
    records(brokers, topic).await.iter().map(row).collect()
}

/// The same, as the client has it.
pub(crate) async fn records(brokers: &str, topic: &str) -> Vec<OwnedMessage> {
    let (brokers, topic) = (brokers.to_owned(), topic.to_owned());
    blocking(move || read(&consumer(&brokers), &topic)).await
}

fn consumer(brokers: &str) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("isolation.level", "read_committed");
    config.set("group.id", "rows").set("enable.auto.commit", "false");
    config.set("enable.partition.eof", "true").create().unwrap()
}

fn read(consumer: &BaseConsumer, topic: &str) -> Vec<OwnedMessage> {
    let deadline = Instant::now() + PATIENCE;
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).unwrap();
    let partitions = metadata.topics()[0].partitions().len();
    let mut assignment = TopicPartitionList::new();
    for partition in 0..i32::try_from(partitions).unwrap() {
        assignment.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&assignment).unwrap();
    let (mut rows, mut ended) = (Vec::new(), 0);
    while ended < partitions {
        assert!(Instant::now() < deadline, "the end of {topic} is not reached");
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => rows.push(message.detach()),
            Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) => ended += 1,
            Some(Err(error)) => panic!("{error}"),
            None => {}
        }
    }
    rows.sort_by_key(OwnedMessage::partition);
    rows
}

fn row(message: &OwnedMessage) -> Row {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    Row {
        partition: message.partition(),
        key: message.key().map(text).unwrap_or_default(),
        payload: message.payload().map(text),
        headers: headers
            .map(|header| (header.key.to_owned(), header.value.map(text).unwrap_or_default()))
            .collect(),
    }
}

/// An event of an aggregate, on its way to Kafka.
pub(crate) fn message(kind: &str, id: &str, number: u32) -> Message {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    let lane = Lane::new(kind, id).unwrap();
    let payload = Some(Bytes::from(number.to_string()));
    let event = Event::new(EventId::from_bytes(bytes), lane, "Counted", payload).unwrap();
    of_event(event)
}

/// The same for an event that is there.
pub(crate) fn of_event(event: Event) -> Message {
    let destination = Destination::new("kafka").unwrap();
    Message { destination, event: Arc::new(event), copies: 0 }
}

/// Publishes until everything is confirmed, as a relay does: what is not is sent again, in order.
pub(crate) async fn publish_all(publisher: &KafkaPublisher, mut messages: Vec<Message>) {
    let deadline = Instant::now() + PATIENCE * 2;
    while !messages.is_empty() {
        assert!(Instant::now() < deadline, "{} are not confirmed", messages.len());
        let sent = publisher.publish(messages.clone()).await;
        assert_eq!(sent.len(), messages.len());
        let mut sent = sent.into_iter();
        messages.retain(|_| sent.next() != Some(Sent::Confirmed));
    }
}

/// Writes a record without key and headers.
pub(crate) async fn produce(brokers: &str, topic: &str, payload: &str) {
    let (brokers, topic, payload) = (brokers.to_owned(), topic.to_owned(), payload.to_owned());
    blocking(move || {
        let producer: BaseProducer =
            ClientConfig::new().set("bootstrap.servers", &brokers).create().unwrap();
        producer.send(BaseRecord::<str, str>::to(&topic).payload(&payload)).unwrap();
        producer.flush(PATIENCE).unwrap();
    })
    .await;
}

/// Deletes the messages of a topic's first partition before an offset, as its retention does.
pub(crate) async fn cut(brokers: &str, topic: &str, before: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Offset(before)).unwrap();
    admin(brokers).delete_records(&list, &AdminOptions::new()).await.unwrap();
}

/// A source that is read.
pub(crate) struct Reading {
    pub(crate) source: KafkaSource,
    pub(crate) revoked: Vec<LogId>,
}

impl Reading {
    pub(crate) fn new(source: KafkaSource) -> Self {
        Self { source, revoked: Vec::new() }
    }

    /// Receives once, and starts nothing.
    pub(crate) async fn receive(&mut self, max: usize) -> Received {
        let received = self.source.receive(max, Duration::from_millis(500)).await.unwrap();
        self.revoked.extend(received.revoked.iter().cloned());
        received
    }

    /// Waits until logs are assigned.
    pub(crate) async fn assigned(&mut self) -> Vec<LogId> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let received = self.receive(500).await;
            if !received.assigned.is_empty() {
                return received.assigned;
            }
            assert!(Instant::now() < deadline, "no log is assigned");
        }
    }

    /// Lets the logs that are assigned begin where the broker remembers.
    pub(crate) async fn begin(&mut self) {
        let logs = self.assigned().await;
        let start = logs.into_iter().map(|log| (log, None)).collect();
        self.source.start(start).await.unwrap();
    }

    /// Receives what comes next, and lets logs begin where the broker remembers.
    pub(crate) async fn take(&mut self, max: usize) -> Vec<Delivery> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let received = self.receive(max).await;
            let start = received.assigned.into_iter().map(|log| (log, None)).collect();
            self.source.start(start).await.unwrap();
            if !received.deliveries.is_empty() {
                return received.deliveries;
            }
            assert!(Instant::now() < deadline, "nothing comes");
        }
    }

    /// Receives exactly so many.
    pub(crate) async fn until(&mut self, count: usize) -> Vec<Delivery> {
        let mut all = Vec::new();
        while all.len() < count {
            all.extend(self.take(count - all.len()).await);
        }
        all
    }

    /// Goes on until logs have moved to another of the group, and returns them.
    pub(crate) async fn until_moved_to(&mut self, other: &mut Self) -> Vec<LogId> {
        let deadline = Instant::now() + PATIENCE;
        let mut moved = Vec::new();
        while self.revoked.is_empty() || moved.is_empty() {
            let (_, received) = tokio::join!(self.receive(1), other.receive(1));
            moved.extend(received.assigned);
            assert!(Instant::now() < deadline, "no log moves");
        }
        moved
    }

    pub(crate) async fn settle(&self, one: &Delivery) -> Acked {
        self.source.settle(vec![(one.receipt, Settlement::Ack)]).await.unwrap()[0]
    }
}
