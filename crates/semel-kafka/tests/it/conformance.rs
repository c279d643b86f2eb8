//! What every publisher and every source promises, kept by these.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use rdkafka::{
    ClientConfig, Message as _,
    message::{Header, Headers as _, OwnedHeaders, OwnedMessage},
    producer::{BaseProducer, BaseRecord, Producer as _},
};
use semel::inbox::Source;
use semel_kafka::{KafkaPublisher, KafkaSource};
use semel_testkit::{
    conformance::{
        publisher::{FarEnd, FreshPublisher, PublisherUnderTest, Seen, Trouble},
        source::{FreshSource, Place, SourceUnderTest},
    },
    publisher_conformance,
    servers::Towards,
    source_conformance,
};
use tokio::sync::MutexGuard;

use crate::fixture::{
    Cluster, PATIENCE, blocking, breakable, brokers, name, quick, records, shared, topic,
};

struct Publishing;

/// A topic of the broker that can be reached by one way, which breaks; no other test has it meanwhile.
struct Topic {
    name: String,
    cluster: MutexGuard<'static, Cluster>,
}

#[async_trait]
impl PublisherUnderTest for Publishing {
    async fn fresh() -> FreshPublisher {
        let (cluster, name) = (breakable().await, name("conforming"));
        topic(&cluster.proxy.address().to_string(), &name, 2).await;
        let publisher = KafkaPublisher::builder(cluster.config()).topics(name.as_str());
        let publisher = publisher.publish_wait(Duration::from_secs(4)).open().await.unwrap();
        let far = Arc::new(Topic { name, cluster });
        FreshPublisher::new(Arc::new(publisher), far).with_tombstones()
    }
}

#[async_trait]
impl FarEnd for Topic {
    async fn arrived(&self) -> Vec<Seen> {
        let brokers = self.cluster.proxy.address().to_string();
        records(&brokers, &self.name).await.iter().map(seen).collect()
    }

    async fn trouble(&self, trouble: Trouble) -> bool {
        let proxy = &self.cluster.proxy;
        match trouble {
            Trouble::Away => {
                proxy.refuse().await;
                proxy.cut().await;
            }
            Trouble::LostAnswers => drop(proxy.swallow_replies_after("message 0")),
            Trouble::Mute => proxy.hold(Towards::Client),
            _ => return false,
        }
        true
    }

    async fn mend(&self) {
        self.cluster.proxy.disarm();
        self.cluster.proxy.let_go(Towards::Client);
        self.cluster.proxy.accept().await;
    }
}

impl Drop for Topic {
    /// A test that failed leaves no trouble to the next.
    fn drop(&mut self) {
        self.cluster.proxy.disarm();
        self.cluster.proxy.let_go(Towards::Client);
    }
}

fn seen(record: &OwnedMessage) -> Seen {
    let headers = record.headers().into_iter().flat_map(|headers| headers.iter());
    let headers: Vec<(Box<str>, Bytes)> = headers
        .map(|header| (header.key.into(), Bytes::copy_from_slice(header.value.unwrap_or_default())))
        .collect();
    let id = headers.iter().find(|(name, _)| name.as_ref() == "id").unwrap();
    Seen {
        id: std::str::from_utf8(&id.1).unwrap().parse().unwrap(),
        lane_id: std::str::from_utf8(record.key().unwrap()).unwrap().into(),
        payload: record.payload().map(Bytes::copy_from_slice),
        headers,
    }
}

struct Reading;

struct Group {
    topic: String,
    producer: Arc<BaseProducer>,
}

#[async_trait]
impl SourceUnderTest for Reading {
    async fn fresh() -> FreshSource {
        let (brokers, name) = (brokers().await, name("conforming"));
        topic(&brokers, &name, 2).await;
        let producer = ClientConfig::new().set("bootstrap.servers", &brokers).create().unwrap();
        let place = Group { topic: name, producer: Arc::new(producer) };
        FreshSource::new(Arc::new(place)).with_tombstones()
    }
}

#[async_trait]
impl Place for Group {
    async fn open(&self) -> Arc<dyn Source> {
        let source = KafkaSource::builder(quick(shared().await), self.topic.as_str());
        Arc::new(source.topic(self.topic.as_str()).open().await.unwrap())
    }

    async fn send(
        &self,
        key: &str,
        payload: Option<Bytes>,
        headers: Vec<(Box<str>, Bytes)>,
    ) -> Box<str> {
        let id = name("message");
        let (topic, key) = (self.topic.clone(), key.to_owned());
        let (producer, returned) = (self.producer.clone(), id.clone());
        blocking(move || {
            let with = |all: OwnedHeaders, key: &str, value: &[u8]| {
                all.insert(Header { key, value: Some(value) })
            };
            let mut all = with(OwnedHeaders::new(), "id", id.as_bytes());
            for (name, value) in &headers {
                all = with(all, name, value);
            }
            let record = BaseRecord::<str, [u8]>::to(&topic).key(&key).headers(all);
            let record = match &payload {
                Some(payload) => record.payload(payload.as_ref()),
                None => record,
            };
            producer.send(record).unwrap();
            producer.flush(PATIENCE).unwrap();
        })
        .await;
        returned.into()
    }

    /// The broker that tests share is left alone: `breaking` cuts the way to another.
    async fn cut(&self) -> bool {
        false
    }
}

mod publisher {
    use super::Publishing;

    super::publisher_conformance!(Publishing);
}

mod source {
    use super::Reading;

    super::source_conformance!(Reading);
}
