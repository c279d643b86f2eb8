//! What a publisher promises while nothing breaks.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use semel::outbox::{Cause, Event, EventId, Fault, Lane, Publisher, Sent};
use semel_kafka::KafkaPublisher;

use crate::fixture::{self, brokers, message, name, of_event, rows, topic, topic_with};

#[tokio::test]
async fn an_event_is_one_record_with_its_key_its_name_and_its_headers() {
    let (brokers, kind) = (brokers().await, name("order"));
    let routed = format!("outbox.event.{kind}");
    topic(&brokers, &routed, 3).await;
    let publisher = KafkaPublisher::builder(fixture::shared().await).open().await.unwrap();
    let lane = Lane::new(&kind, "order-7").unwrap();
    let payload = Some(Bytes::from_static(b"{\"total\":7}"));
    let mut event = Event::new(EventId::from_bytes([7; 16]), lane, "Placed", payload).unwrap();
    event.headers = vec![("tenant".into(), "acme".into()), ("id".into(), "another".into())];
    event.trace = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    event.cause = Some(Cause::new("request:1").unwrap());
    let mut tombstone = event.clone();
    tombstone.payload = None;
    let sent = publisher.publish(vec![of_event(event), of_event(tombstone)]).await;
    assert_eq!(sent, [Sent::Confirmed, Sent::Confirmed]);
    let rows = rows(&brokers, &routed).await;
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].key, "order-7");
    assert_eq!(rows[0].payload.as_deref(), Some("{\"total\":7}"));
    assert_eq!(rows[1].payload, None);
    let headers: Vec<_> = rows[0].headers.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(
        headers,
        [
            ("eventType", "Placed"),
            ("id", "07070707-0707-0707-0707-070707070707"),
            ("semel-cause", "request:1"),
            ("tenant", "acme"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ]
    );
}

/// M52, M53: what goes in parallel keeps its order.
#[tokio::test]
async fn the_order_of_every_aggregate_holds_over_partitions_and_batches() {
    let (brokers, topic_name) = (brokers().await, name("ordered"));
    topic(&brokers, &topic_name, 3).await;
    let publisher = KafkaPublisher::builder(fixture::shared().await).topics(topic_name.as_str());
    let publisher = publisher.open().await.unwrap();
    for batch in 0..4 {
        let messages =
            (0..1_000).map(|n| message("o", &format!("o-{}", n % 40), batch * 1_000 + n));
        let sent = publisher.publish(messages.collect()).await;
        assert!(sent.iter().all(|sent| *sent == Sent::Confirmed), "{sent:?}");
    }
    let rows = rows(&brokers, &topic_name).await;
    assert_eq!(rows.len(), 4_000);
    let ids: BTreeSet<_> = rows.iter().map(fixture::Row::id).collect();
    assert_eq!(ids.len(), 4_000);
    let mut last = BTreeMap::new();
    for row in &rows {
        let number: u32 = row.payload.as_deref().unwrap().parse().unwrap();
        let before = last.insert(&row.key, (row.partition, number));
        assert!(before.is_none_or(|(partition, n)| partition == row.partition && n < number));
    }
    assert!(last.values().map(|(partition, _)| partition).collect::<BTreeSet<_>>().len() == 3);
}

/// M58: an event that nobody can be sent is not confirmed.
#[tokio::test]
async fn a_missing_topic_parks_its_own_events_where_others_have_topics_of_their_own() {
    let (brokers, kind) = (brokers().await, name("there"));
    topic(&brokers, &format!("outbox.event.{kind}"), 1).await;
    let many = KafkaPublisher::builder(fixture::shared().await);
    let many = many.publish_wait(std::time::Duration::from_secs(12)).open().await.unwrap();
    let missing = name("missing");
    let batch = vec![message(&missing, "1", 1), message(&kind, "1", 1), message("a b", "1", 1)];
    let sent = many.publish(batch).await;
    assert!(
        matches!(&sent[0], Sent::Refused { fault: Fault::Message, why } if why.contains("topic"))
    );
    assert_eq!(sent[1], Sent::Confirmed);
    assert!(matches!(sent[2], Sent::Refused { fault: Fault::Message, .. }), "{sent:?}");
    let one = KafkaPublisher::builder(fixture::shared().await).topics(missing);
    let one = one.publish_wait(std::time::Duration::from_secs(12)).open().await.unwrap();
    let sent = one.publish(vec![message(&kind, "1", 1)]).await;
    assert!(matches!(sent[0], Sent::Refused { fault: Fault::Destination { .. }, .. }), "{sent:?}");
}

/// M47, M50, M56: one that is refused fails neither the batch nor the order.
#[tokio::test]
async fn what_is_too_large_is_refused_alone_and_its_aggregate_waits() {
    let (brokers, topic_name) = (brokers().await, name("narrow"));
    topic_with(&brokers, &topic_name, 1, &[("max.message.bytes", "3000")]).await;
    let publisher = KafkaPublisher::builder(fixture::shared().await).topics(topic_name.as_str());
    let publisher = publisher.open().await.unwrap();
    let large = |id: &str, len: usize| {
        let mut event = Event::clone(&message("o", id, 0).event);
        event.payload = Some(Bytes::from("x".repeat(len)));
        of_event(event)
    };
    // Together they are more than the topic takes at once; each alone is not.
    let mut batch: Vec<_> = (0..10).map(|n| large(&format!("small-{n}"), 1_000)).collect();
    batch.insert(5, large("large", 5_000));
    batch.push(message("o", "large", 2));
    batch.push(message("o", "other", 3));
    let sent = publisher.publish(batch).await;
    for (at, sent) in sent.iter().enumerate() {
        match at {
            5 | 11 => assert!(
                matches!(sent, Sent::Refused { fault: Fault::Message, .. }),
                "{at}: {sent:?}"
            ),
            _ => assert_eq!(*sent, Sent::Confirmed, "{at}"),
        }
    }
    let rows = rows(&brokers, &topic_name).await;
    let ids: BTreeSet<_> = rows.iter().map(fixture::Row::id).collect();
    assert_eq!((rows.len(), ids.len()), (11, 11));
    assert!(rows.iter().all(|row| row.key != "large"));
    // Larger than any topic takes: the client itself refuses.
    let sent = publisher.publish(vec![large("huge", 1_040_000)]).await;
    assert!(matches!(sent[0], Sent::Refused { fault: Fault::Message, .. }), "{sent:?}");
}

/// M59: how durable a confirmation is can be read.
#[tokio::test]
async fn what_a_confirmation_is_worth_is_told() {
    let (brokers, topic_name) = (brokers().await, name("worth"));
    let settings = [("min.insync.replicas", "1"), ("flush.messages", "1")];
    topic_with(&brokers, &topic_name, 2, &settings).await;
    let publisher = KafkaPublisher::builder(fixture::shared().await).open().await.unwrap();
    let worth = publisher.durability(&topic_name).await.unwrap();
    assert_eq!((worth.replicas, worth.in_sync_min), (1, 1));
    assert!(worth.flushed && !worth.survives_one_loss());
    assert_eq!(worth.to_string(), "confirmed is what 1 of 1 replicas have on disk");
    assert!(publisher.durability(&name("nowhere")).await.is_err());
}
