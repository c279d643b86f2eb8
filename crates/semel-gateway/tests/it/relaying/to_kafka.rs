//! The relay with a destination in Kafka.

use std::time::Duration;

use semel::inbox::Source;
use semel_kafka::{KafkaConfig, KafkaSource};
use semel_testkit::servers::Kafka;

use super::place::{Place, QUICK, Relay, id, taking, until};
use crate::config::{check, parse};

/// What a working destination in Kafka says.
const KAFKA: &str =
    "[[destination]]\nname = \"k\"\nkind = \"kafka\"\nbrokers = [\"kafka-1:9092\"]\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_reach_a_topic_by_the_type_of_their_aggregate_and_an_endpoint_besides() {
    // Topics are made by whoever first writes to them.
    let broker = Kafka::builder().setting("auto.create.topics.enable", "true").start().await;
    let brokers = broker.address().to_string();
    let receiver = taking().await;
    let more = format!(
        "[[destination]]\nname = \"log\"\nkind = \"kafka\"\nbrokers = [\"{brokers}\"]\n\
         topic = \"gateway.${{aggregatetype}}\"\n\
         librdkafka = {{ \"compression.type\" = \"gzip\" }}\n"
    );
    let place = Place::with(QUICK, &[("hooks", &receiver)], &more);
    let checked = place.semel(&["check"]);
    assert!(checked.out.contains("gateway.${aggregatetype}"), "{checked:?}");
    let _relay = Relay::start(&place).await;
    place.append("a", 0..50);
    until("all is settled", async || {
        let told = place.outbox(&["--json", "destinations"]).json();
        let states = told["destinations"].as_array().unwrap();
        states.len() == 2 && states.iter().all(|state| state["waiting"] == 0)
    })
    .await;
    assert_eq!(receiver.seen.effects().len(), 50);
    let source = KafkaSource::builder(KafkaConfig::new(brokers), "gateway-relaying");
    let source = source.topic("gateway.order").open().await.unwrap();
    let mut ids = Vec::new();
    while ids.len() < 50 {
        let received = source.receive(100, Duration::from_secs(20)).await.unwrap();
        source
            .start(received.assigned.into_iter().map(|log| (log, Some(0))).collect())
            .await
            .unwrap();
        ids.extend(received.deliveries.into_iter().map(|one| one.message.id().to_owned()));
    }
    assert_eq!(ids, (0..50).map(|number| id("a", number)).collect::<Vec<_>>());
}

#[test]
fn what_is_wrong_with_a_destination_in_kafka_is_told_before_anything_runs() {
    assert!(parse(KAFKA).is_ok());
    check(
        "[[destination]]\nname = \"k\"\nkind = \"kafka\"\n",
        &[
            "semel.toml:1:1: `destination.brokers` is not set: the destination \"k\" of kind \"kafka\" \
           needs it",
        ],
    );
    check(
        &format!("{KAFKA}wait = \"1s\"\n"),
        &["semel.toml:5:8: `destination.wait` is 1s; with kind = \"kafka\" it is at least 4s"],
    );
    check(
        &format!("{KAFKA}url = \"http://h/\"\n"),
        &["semel.toml:5:7: `destination.url` has no meaning with kind = \"kafka\""],
    );
    check(
        &format!("{KAFKA}librdkafka = {{ acks = \"0\" }}\n"),
        &[
            "semel.toml:5:1: `destination.librdkafka` cannot be used: the setting acks is kept by Semel, \
           whose promises rest on it",
        ],
    );
}
