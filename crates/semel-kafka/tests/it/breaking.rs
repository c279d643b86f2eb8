//! What a publisher promises while the broker and the way to it break.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use semel::{
    inbox::{Settlement, Source},
    outbox::{Fault, Publisher, Sent},
};
use semel_kafka::{KafkaPublisher, KafkaSource};

use crate::fixture::{PATIENCE, Row, breakable, message, name, publish_all, rows, topic};

#[tokio::test]
async fn a_lost_answer_is_one_record_and_a_confirmation() {
    let cluster = breakable().await;
    let (brokers, topic_name) = (cluster.proxy.address().to_string(), name("lost-answer"));
    topic(&brokers, &topic_name, 1).await;
    let publisher = KafkaPublisher::builder(cluster.config()).topics(topic_name.as_str());
    let publisher = publisher.open().await.unwrap();
    assert_eq!(publisher.publish(vec![message("o", "1", 1)]).await, [Sent::Confirmed]);
    let mut trap = cluster.proxy.swallow_replies_after("the-lost-one");
    let mut lost = semel::outbox::Event::clone(&message("o", "1", 2).event);
    lost.payload = Some("the-lost-one".into());
    let lost = crate::fixture::of_event(lost);
    let sent = publisher.publish(vec![lost, message("o", "1", 3)]).await;
    trap.sprung().await;
    assert_eq!(sent, [Sent::Confirmed, Sent::Confirmed]);
    let payloads: Vec<_> =
        rows(&brokers, &topic_name).await.into_iter().filter_map(|row| row.payload).collect();
    assert_eq!(payloads, ["1", "the-lost-one", "3"]);
}

/// M43: an outage is nobody's attempt.
#[tokio::test]
async fn a_broker_that_is_away_refuses_for_its_own_fault_and_takes_all_when_it_is_back() {
    let mut cluster = breakable().await;
    let (brokers, topic_name) = (cluster.proxy.address().to_string(), name("away"));
    topic(&brokers, &topic_name, 2).await;
    let publisher = KafkaPublisher::builder(cluster.config()).topics(topic_name.as_str());
    let publisher = publisher.publish_wait(Duration::from_secs(4)).open().await.unwrap();
    assert_eq!(publisher.publish(vec![message("o", "1", 0)]).await, [Sent::Confirmed]);
    cluster.broker.kill();
    let at_fault =
        |sent: &Sent| matches!(sent, Sent::Refused { fault: Fault::Destination { .. }, .. });
    // Nobody can say of what went out before its client knew that the way was gone.
    let deadline = Instant::now() + PATIENCE;
    while !publisher.publish(vec![message("o", "early", 0)]).await.iter().all(at_fault) {
        assert!(Instant::now() < deadline, "the client does not notice");
    }
    let batch: Vec<_> = (1..=50).map(|n| message("o", &(n % 7).to_string(), n)).collect();
    let sent = publisher.publish(batch.clone()).await;
    for sent in &sent {
        assert!(at_fault(sent), "{sent:?}");
    }
    cluster.broker.restart().await;
    publish_all(&publisher, batch).await;
    let rows = rows(&brokers, &topic_name).await;
    // Refused is refused: none of the first sends came after all.
    assert_eq!(rows.len(), 51);
    in_order(&rows);
}

/// M55: what nobody confirmed is not done with.
#[tokio::test]
async fn what_a_frozen_broker_was_sent_is_unknown_until_a_copy_is_confirmed() {
    let cluster = breakable().await;
    let (brokers, topic_name) = (cluster.proxy.address().to_string(), name("frozen"));
    topic(&brokers, &topic_name, 1).await;
    let publisher = KafkaPublisher::builder(cluster.config()).topics(topic_name.as_str());
    let publisher = publisher.publish_wait(Duration::from_secs(4)).open().await.unwrap();
    assert_eq!(publisher.publish(vec![message("o", "1", 0)]).await, [Sent::Confirmed]);
    cluster.broker.pause();
    let batch: Vec<_> = (1..=20).map(|n| message("o", "1", n)).collect();
    let sent = publisher.publish(batch.clone()).await;
    cluster.broker.resume();
    assert!(matches!(sent[0], Sent::Unknown { .. }), "{sent:?}");
    assert!(!sent.contains(&Sent::Confirmed), "{sent:?}");
    publish_all(&publisher, batch.clone()).await;
    let rows = rows(&brokers, &topic_name).await;
    let ids: BTreeSet<_> = rows.iter().map(Row::id).collect();
    assert_eq!(ids.len(), 21, "nothing is lost, and copies bear the same name");
    in_order(&first_copies(&rows));
}

/// M50, M53: what fails is not overtaken.
#[tokio::test]
async fn a_broker_killed_during_sends_loses_nothing_and_reorders_no_first_copy() {
    let mut cluster = breakable().await;
    let (brokers, topic_name) = (cluster.proxy.address().to_string(), name("killed"));
    topic(&brokers, &topic_name, 2).await;
    let publisher = KafkaPublisher::builder(cluster.config()).topics(topic_name.as_str());
    let publisher = publisher.publish_wait(Duration::from_secs(8)).open().await.unwrap();
    let batches: Vec<Vec<_>> = (0..60)
        .map(|batch| {
            (0..100).map(|n| message("o", &(n % 9).to_string(), batch * 100 + n)).collect()
        })
        .collect();
    let expected: BTreeSet<_> =
        batches.iter().flatten().map(|message| message.event.id.to_string()).collect();
    let (at, mut reached) = tokio::sync::watch::channel(0);
    let sending = tokio::spawn(async move {
        for (number, batch) in batches.into_iter().enumerate() {
            let _ = at.send(number);
            publish_all(&publisher, batch).await;
        }
    });
    for kill_at in [10, 30] {
        reached.wait_for(|number| *number >= kill_at).await.unwrap();
        cluster.broker.kill();
        cluster.broker.restart().await;
    }
    sending.await.unwrap();
    let rows = rows(&brokers, &topic_name).await;
    let ids: BTreeSet<_> = rows.iter().map(|row| row.id().to_owned()).collect();
    assert_eq!(ids, expected);
    in_order(&first_copies(&rows));
}

#[tokio::test]
async fn a_source_goes_on_after_its_way_was_cut_and_its_broker_killed() {
    let mut cluster = breakable().await;
    let (brokers, topic_name) = (cluster.proxy.address().to_string(), name("cut"));
    topic(&brokers, &topic_name, 2).await;
    let publisher = KafkaPublisher::builder(cluster.config()).topics(topic_name.as_str());
    let publisher = publisher.publish_wait(Duration::from_secs(8)).open().await.unwrap();
    let source = KafkaSource::builder(cluster.config(), "cut").topic(topic_name.as_str());
    let source = source.open().await.unwrap();
    let mut seen = BTreeSet::new();
    for round in 0..3_u32 {
        let numbers = (round * 20)..(round * 20 + 20);
        publish_all(&publisher, numbers.map(|n| message("o", &n.to_string(), n)).collect()).await;
        match round {
            0 => {}
            1 => cluster.proxy.cut().await,
            _ => {
                cluster.broker.kill();
                cluster.broker.restart().await;
            }
        }
        let deadline = std::time::Instant::now() + PATIENCE;
        while seen.len() < (round as usize + 1) * 20 {
            assert!(std::time::Instant::now() < deadline, "only {} came", seen.len());
            let received = match source.receive(100, Duration::from_millis(300)).await {
                Ok(received) => received,
                Err(error) if error.retryable => continue,
                Err(error) => panic!("{error}"),
            };
            let start = received.assigned.into_iter().map(|log| (log, None)).collect();
            if let Err(error) = source.start(start).await {
                assert!(error.retryable, "{error}");
            }
            let acks = received.deliveries.iter().map(|one| (one.receipt, Settlement::Ack));
            source.settle(acks.collect()).await.unwrap();
            seen.extend(received.deliveries.into_iter().map(|one| one.message));
        }
    }
}

/// The first copy of each event, in the order of the log.
fn first_copies(rows: &[Row]) -> Vec<Row> {
    let mut seen = BTreeSet::new();
    rows.iter().filter(|row| seen.insert(row.id().to_owned())).cloned().collect()
}

fn in_order(rows: &[Row]) {
    let mut last = BTreeMap::new();
    for row in rows {
        let number: u32 = row.payload.as_deref().unwrap().parse().unwrap();
        let before = last.insert(&row.key, number);
        assert!(before.is_none_or(|before| before < number), "{}: {number}", row.key);
    }
}
