//! What a source promises.

use std::{collections::BTreeSet, time::Duration};

use rdkafka::{
    ClientConfig,
    producer::{BaseProducer, BaseRecord, Producer},
};
use semel::inbox::{Acked, LogId, Redelivered, Settlement, Source};
use semel_kafka::{First, KafkaConfig, KafkaPublisher, KafkaSource, LostMessages};

use crate::fixture::{
    self, PATIENCE, Reading, brokers, cut, delete, message, name, publish_all, topic, topic_with,
};

/// A topic with so many events of as many aggregates.
async fn filled(word: &str, partitions: i32, count: u32) -> String {
    let topic_name = name(word);
    topic(&brokers().await, &topic_name, partitions).await;
    fill(&topic_name, 0, count).await;
    topic_name
}

async fn fill(topic_name: &str, from: u32, count: u32) {
    let publisher = KafkaPublisher::builder(fixture::shared().await).topics(topic_name);
    let publisher = publisher.open().await.unwrap();
    let messages = (from..from + count).map(|n| message("o", &format!("o-{n}"), n));
    publish_all(&publisher, messages.collect()).await;
}

async fn open(topic_name: &str, group: &str) -> Reading {
    let source = KafkaSource::builder(quick().await, group).topic(topic_name);
    Reading::new(source.open().await.unwrap())
}

async fn quick() -> KafkaConfig {
    fixture::quick(fixture::shared().await)
}

#[tokio::test]
async fn a_message_has_its_name_its_place_and_all_that_was_sent() {
    let topic_name = filled("whole", 1, 2).await;
    let mut reading = open(&topic_name, "whole").await;
    let got = reading.until(2).await;
    let first = &got[0];
    assert_eq!(first.message.source.as_str(), format!("kafka:{topic_name}"));
    assert_eq!(first.message.id().len(), 36);
    assert_eq!(first.key.as_deref(), Some(b"o-0".as_ref()));
    assert_eq!(first.payload.as_deref(), Some(b"0".as_ref()));
    let kind = first.headers.iter().find(|(name, _)| name.as_ref() == "eventType");
    assert_eq!(kind.map(|(_, value)| value.as_ref()), Some(b"Counted".as_ref()));
    assert!(first.sent_at.is_some());
    let places: Vec<_> = got.iter().map(|one| one.position.clone().unwrap()).collect();
    assert_eq!((places[0].offset, places[1].offset), (0, 1));
    assert_eq!(places[0].log, places[1].log);
    assert!(places[0].log.as_str().starts_with(&format!("{topic_name}@")), "{places:?}");
}

#[tokio::test]
async fn a_message_without_a_name_is_named_by_its_place() {
    let topic_name = name("nameless");
    topic(&brokers().await, &topic_name, 1).await;
    fixture::produce(&brokers().await, &topic_name, "plain").await;
    let got = open(&topic_name, "nameless").await.until(1).await;
    let id = got[0].message.id();
    assert!(id.ends_with("/0/0") && id.len() > 20, "{id}");
}

#[tokio::test]
async fn what_was_settled_does_not_come_again_and_what_was_not_does() {
    let topic_name = filled("settled", 1, 10).await;
    let mut first = open(&topic_name, "settled").await;
    let got = first.until(10).await;
    assert!(got.iter().all(|one| one.redelivered == Redelivered::Unknown));
    // Settled in any order, and the fifth not at all.
    let others: Vec<_> =
        got.iter().rev().filter(|one| one.payload.as_deref() != Some(b"4")).collect();
    let settle = others.iter().map(|one| (one.receipt, Settlement::Ack)).collect();
    let acked = first.source.settle(settle).await.unwrap();
    assert!(acked.iter().all(|acked| *acked == Acked::Confirmed));
    assert_eq!(first.settle(others[0]).await, Acked::Lost, "a receipt is good once");
    first.source.close().await.unwrap();
    let mut second = open(&topic_name, "settled").await;
    let again: Vec<_> = second.until(6).await.into_iter().filter_map(|one| one.payload).collect();
    assert_eq!(again, ["4", "5", "6", "7", "8", "9"]);
}

/// M97: nothing is acknowledged before it was worked on.
#[tokio::test]
async fn a_dropped_consumer_acknowledges_nothing() {
    let topic_name = filled("dropped", 1, 3).await;
    for _ in 0..2 {
        let got = open(&topic_name, "dropped").await.until(3).await;
        assert_eq!(got.len(), 3);
    }
}

#[tokio::test]
async fn what_is_to_come_again_comes_before_anything_behind_it() {
    let topic_name = filled("again", 1, 5).await;
    let mut reading = open(&topic_name, "again").await;
    let got = reading.take(2).await;
    let again = vec![(got[0].receipt, Settlement::Again(Duration::from_millis(300)))];
    let asked = std::time::Instant::now();
    assert_eq!(reading.source.settle(again).await.unwrap(), [Acked::Confirmed]);
    let next = reading.take(5).await;
    assert!(asked.elapsed() >= Duration::from_millis(300));
    assert_eq!(next[0].message, got[0].message);
    assert_eq!(next[0].redelivered, Redelivered::Yes(Some(1)));
    let mut behind = next[1..].to_vec();
    while behind.len() < 4 {
        behind.extend(reading.take(5).await);
    }
    assert_eq!(reading.settle(&got[1]).await, Acked::Lost, "it came again too");
    let behind: Vec<_> = behind.into_iter().filter_map(|one| one.payload).collect();
    assert_eq!(behind, ["1", "2", "3", "4"]);
}

#[tokio::test]
async fn what_a_transaction_took_back_is_never_seen() {
    let (brokers, topic_name) = (brokers().await, name("aborted"));
    topic(&brokers, &topic_name, 1).await;
    let (to, in_topic) = (brokers.clone(), topic_name.clone());
    fixture::blocking(move || {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", &to)
            .set("transactional.id", &in_topic)
            .create()
            .unwrap();
        producer.init_transactions(PATIENCE).unwrap();
        for (word, commit) in [("no", false), ("yes", true), ("never", false), ("last", true)] {
            producer.begin_transaction().unwrap();
            producer.send(BaseRecord::<str, str>::to(&in_topic).payload(word)).unwrap();
            producer.flush(PATIENCE).unwrap();
            match commit {
                true => producer.commit_transaction(PATIENCE).unwrap(),
                false => producer.abort_transaction(PATIENCE).unwrap(),
            }
        }
    })
    .await;
    let mut reading = open(&topic_name, "aborted").await;
    let got = reading.until(2).await;
    let words: Vec<_> = got.iter().filter_map(|one| one.payload.clone()).collect();
    assert_eq!(words, ["yes", "last"]);
    for one in &got {
        assert_eq!(reading.settle(one).await, Acked::Confirmed);
    }
    reading.source.close().await.unwrap();
    fixture::produce(&brokers, &topic_name, "later").await;
    let later = open(&topic_name, "aborted").await.until(1).await;
    assert_eq!(later[0].payload.as_deref(), Some(b"later".as_ref()));
}

#[tokio::test]
async fn a_log_begins_where_its_consumer_says() {
    let topic_name = filled("placed", 1, 10).await;
    let mut reading = open(&topic_name, "placed").await;
    let [log] = <[LogId; 1]>::try_from(reading.assigned().await).unwrap();
    assert!(reading.receive(10).await.deliveries.is_empty(), "nothing comes before its beginning");
    reading.source.start(vec![(log, Some(7))]).await.unwrap();
    let got: Vec<_> = reading.until(3).await.into_iter().filter_map(|one| one.payload).collect();
    assert_eq!(got, ["7", "8", "9"]);
    fill(&topic_name, 10, 1).await;
    let new = reading.until(1).await;
    assert_eq!(new[0].redelivered, Redelivered::No);
}

#[tokio::test]
async fn a_group_that_is_new_may_begin_with_what_is_new() {
    let topic_name = filled("latest", 1, 3).await;
    let source = KafkaSource::builder(quick().await, "latest").topic(topic_name.as_str());
    let mut reading = Reading::new(source.first(First::Latest).open().await.unwrap());
    reading.begin().await;
    fill(&topic_name, 3, 1).await;
    let got = reading.until(1).await;
    assert_eq!(got[0].payload.as_deref(), Some(b"3".as_ref()));
}

#[tokio::test]
async fn messages_that_were_deleted_unread_stop_the_log_unless_it_may_skip_them() {
    let topic_name = filled("deleted", 1, 10).await;
    let mut reading = open(&topic_name, "deleted").await;
    let logs = reading.assigned().await;
    cut(&brokers().await, &topic_name, 6).await;
    let from = |at| logs.iter().map(|log| (log.clone(), Some(at))).collect();
    let error = reading.source.start(from(2)).await.unwrap_err();
    assert!(error.to_string().contains("from 2 to 5") && !error.retryable, "{error}");
    drop(reading);
    let source = KafkaSource::builder(quick().await, "deleted").topic(topic_name.as_str());
    let source = source.lost_messages(LostMessages::Skip).open().await.unwrap();
    let mut reading = Reading::new(source);
    reading.assigned().await;
    reading.source.start(from(2)).await.unwrap();
    assert_eq!(reading.until(4).await[0].payload.as_deref(), Some(b"6".as_ref()));
    let error = reading.source.start(from(2)).await;
    assert!(error.is_ok(), "a log that runs is left alone");
}

#[tokio::test]
async fn what_is_in_memory_is_bounded_and_goes_on_when_it_is_settled() {
    let topic_name = filled("bounded", 2, 200).await;
    let source = KafkaSource::builder(quick().await, "bounded").topic(topic_name.as_str());
    let mut reading = Reading::new(source.in_hand_max(20).open().await.unwrap());
    reading.begin().await;
    let mut seen = BTreeSet::new();
    let mut open = Vec::new();
    while seen.len() < 200 {
        let received = reading.receive(10).await;
        assert!(open.len() + received.deliveries.len() <= 40, "{} are out", open.len());
        open.extend(received.deliveries);
        if open.len() >= 20 {
            for one in open.drain(..) {
                assert_eq!(reading.settle(&one).await, Acked::Confirmed);
                assert!(seen.insert(one.message));
            }
        } else if seen.len() + open.len() == 200 {
            seen.extend(open.drain(..).map(|one| one.message));
        }
    }
}

#[tokio::test]
async fn a_receive_that_is_given_up_loses_nothing() {
    let topic_name = filled("given-up", 3, 300).await;
    let mut reading = open(&topic_name, "given-up").await;
    reading.begin().await;
    let mut seen = BTreeSet::new();
    let mut given_up = 0;
    while seen.len() < 300 {
        given_up += 1;
        let moment = Duration::from_micros(given_up * 37 % 3_000);
        let short = tokio::time::timeout(moment, reading.receive(7)).await;
        let Ok(received) = short else { continue };
        for one in received.deliveries {
            assert!(seen.insert(one.message), "handed out twice");
        }
    }
    assert!(given_up > 40);
}

#[tokio::test]
async fn a_topic_made_anew_is_another_log_from_its_first_message_on() {
    let (brokers, topic_name) = (brokers().await, filled("anew", 1, 5).await);
    let mut reading = open(&topic_name, "anew").await;
    let old = reading.until(5).await;
    for one in &old[..4] {
        assert_eq!(reading.settle(one).await, Acked::Confirmed);
    }
    delete(&brokers, &topic_name).await;
    topic(&brokers, &topic_name, 1).await;
    // As many as there were before: nothing but the topic's id tells that these are others.
    fill(&topic_name, 100, 8).await;
    let new = reading.until(8).await;
    let payloads: Vec<_> = new.iter().filter_map(|one| one.payload.clone()).collect();
    assert_eq!(payloads, ["100", "101", "102", "103", "104", "105", "106", "107"]);
    let log = |one: &semel::inbox::Delivery| one.position.clone().unwrap().log;
    assert_ne!(log(&old[0]), log(&new[0]));
    assert!(reading.revoked.contains(&log(&old[0])));
    assert_eq!(reading.settle(&old[4]).await, Acked::Lost);
    assert_eq!(reading.settle(&new[0]).await, Acked::Confirmed);
    reading.source.close().await.unwrap();
    assert_eq!(open(&topic_name, "anew").await.until(7).await.len(), 7);
}

#[tokio::test]
async fn what_a_group_did_in_an_older_topic_of_the_name_is_not_where_it_begins() {
    let (brokers, topic_name) = (brokers().await, filled("older", 1, 5).await);
    let mut reading = open(&topic_name, "older").await;
    let old = reading.until(5).await;
    delete(&brokers, &topic_name).await;
    topic(&brokers, &topic_name, 1).await;
    fill(&topic_name, 100, 5).await;
    // A late acknowledgement of the old topic lands in the new one, which has so many messages too.
    for one in &old[..3] {
        reading.settle(one).await;
    }
    drop(reading);
    let again = open(&topic_name, "older").await.until(5).await;
    assert_eq!(again[0].payload.as_deref(), Some(b"100".as_ref()));
}

#[tokio::test]
async fn the_horizon_is_as_long_as_a_message_may_lie_in_any_of_its_topics() {
    let brokers = brokers().await;
    let hour = 3_600_000_u64;
    let cases = [
        (vec![("retention.ms", "3600000"), ("segment.ms", "7200000")], Some(4 * hour)),
        (vec![("retention.ms", "-1")], None),
        (vec![("cleanup.policy", "compact")], None),
    ];
    for (settings, expected) in cases {
        let topic_name = name("horizon");
        topic_with(&brokers, &topic_name, 1, &settings).await;
        let source = KafkaSource::builder(quick().await, "horizon").topic(topic_name.as_str());
        let horizon = source.open().await.unwrap().capabilities().horizon;
        // A producer's clock may be an hour ahead, and Kafka looks every five minutes.
        let expected = expected.map(|millis| Duration::from_millis(millis + 300_000));
        assert_eq!(horizon, expected, "{settings:?}");
    }
}

#[tokio::test]
async fn a_rebalance_takes_what_is_out_of_its_partitions_and_leaves_the_rest() {
    for strategy in ["cooperative-sticky", "range"] {
        let topic_name = filled("rebalanced", 2, 40).await;
        let config = quick().await.set("partition.assignment.strategy", strategy);
        let open = async || {
            let source = KafkaSource::builder(config.clone(), topic_name.as_str());
            Reading::new(source.topic(topic_name.as_str()).open().await.unwrap())
        };
        let mut first = open().await;
        let all = first.until(40).await;
        let mut second = open().await;
        // Both take part in the rebalance; with `range` all partitions go before some come back.
        let moved = first.until_moved_to(&mut second).await;
        second.source.start(moved.iter().map(|log| (log.clone(), None)).collect()).await.unwrap();
        let count = all.iter().filter(|one| moved.contains(&one.position.as_ref().unwrap().log));
        let got = second.until(count.count()).await;
        let is_moved =
            |one: &semel::inbox::Delivery| moved.contains(&one.position.as_ref().unwrap().log);
        assert!(got.iter().all(is_moved) && !got.is_empty(), "{strategy}");
        for one in &all {
            let stays = strategy == "cooperative-sticky" && !is_moved(one);
            let acked = first.settle(one).await;
            assert_eq!(acked == Acked::Confirmed, stays, "{strategy}: {one:?}");
        }
        for one in &got {
            assert_eq!(second.settle(one).await, Acked::Confirmed);
        }
    }
}
