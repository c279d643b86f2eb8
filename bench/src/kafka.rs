//! The publisher to Kafka against a bare loop of the same client that waits for the same answers.

use std::{sync::Arc, time::Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    producer::{FutureProducer, FutureRecord},
};
use semel::outbox::{Destination, Event, EventId, Lane, Message, Publisher, Sent};
use semel_kafka::{KafkaConfig, KafkaPublisher};
use semel_testkit::servers::{Kafka, Medium};

use crate::ratio::Report;

/// How many events are waited for together.
const BATCH: usize = 1_000;
const LANES: usize = 200;
const PARTITIONS: i32 = 4;
const PAYLOAD: usize = 200;
const TOPIC: &str = "outbox.event.order";

/// Measures confirmed events per second through [`KafkaPublisher`], and through the client alone with the same
/// settings, key, payload and name.
pub(crate) async fn measure(report: &mut Report, rounds: u32, requests: u32) -> Result<()> {
    let broker = Kafka::builder().java(&["-Xms512m", "-Xmx512m"]).medium(Medium::Disk);
    let broker = broker.start().await;
    let brokers = broker.address().to_string();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &brokers);
    let admin: AdminClient<DefaultClientContext> = config.create()?;
    let topic = NewTopic::new(TOPIC, PARTITIONS, TopicReplication::Fixed(1));
    let made = admin.create_topics([&topic], &AdminOptions::new()).await?;
    ensure!(made.iter().all(Result::is_ok), "the topic cannot be made: {made:?}");
    // What the publisher is set to as well.
    let ours = [
        ("acks", "all"),
        ("enable.idempotence", "true"),
        ("enable.gapless.guarantee", "true"),
        ("linger.ms", "1"),
        ("message.timeout.ms", "28500"),
    ];
    for (name, value) in ours {
        config.set(name, value);
    }
    let bare: FutureProducer = config.set("partitioner", "murmur2_random").create()?;
    let publisher = KafkaPublisher::builder(KafkaConfig::new(brokers)).open().await?;
    let messages = messages(usize::try_from(requests)?)?;
    let name = "Kafka, confirmed events, publisher / bare client";
    report
        .pair(name, 0.8, rounds, |_| publish(&publisher, &messages), |_| send(&bare, &messages))
        .await
}

fn messages(count: usize) -> Result<Vec<Message>> {
    let destination = Destination::new("kafka")?;
    let message = |at: usize| {
        let mut id = [0; 16];
        id[8..].copy_from_slice(&at.to_be_bytes());
        let lane = Lane::new("order", format!("order-{}", at % LANES))?;
        let payload = Some(Bytes::from(vec![b'x'; PAYLOAD]));
        let event = Event::new(EventId::from_bytes(id), lane, "OrderPlaced", payload)?;
        Ok(Message { destination: destination.clone(), event: Arc::new(event), copies: 0 })
    };
    (0..count).map(message).collect()
}

async fn publish(publisher: &KafkaPublisher, messages: &[Message]) -> Result<f64> {
    let start = Instant::now();
    for batch in messages.chunks(BATCH) {
        let sent = publisher.publish(batch.to_vec()).await;
        ensure!(sent.iter().all(|sent| *sent == Sent::Confirmed), "an event is not confirmed");
    }
    Ok(per_second(messages.len(), start))
}

async fn send(producer: &FutureProducer, messages: &[Message]) -> Result<f64> {
    let start = Instant::now();
    for batch in messages.chunks(BATCH) {
        let mut answers = Vec::with_capacity(batch.len());
        for message in batch {
            let event = &message.event;
            let id = event.id.to_string();
            let headers = rdkafka::message::OwnedHeaders::new_with_capacity(2)
                .insert(rdkafka::message::Header { key: "id", value: Some(&id) })
                .insert(rdkafka::message::Header { key: "eventType", value: Some(&*event.kind) });
            let payload = event.payload.as_deref().context("an event of the bench has one")?;
            let record = FutureRecord::to(TOPIC).key(event.lane.id()).payload(payload);
            let sent = producer.send_result(record.headers(headers));
            answers.push(sent.map_err(|(error, _)| error)?);
        }
        for answer in answers {
            answer.await?.map_err(|(error, _)| error)?;
        }
    }
    Ok(per_second(messages.len(), start))
}

fn per_second(count: usize, start: Instant) -> f64 {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    f64::from(count) / start.elapsed().as_secs_f64()
}
