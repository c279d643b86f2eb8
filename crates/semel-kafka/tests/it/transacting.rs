//! What transactions of Kafka promise.

use semel::inbox::{Acked, Delivery, Receipt, Source};
use semel_kafka::{ErrorKind, KafkaPublisher, KafkaSource, Record, Transactions};

use crate::fixture::{self, Reading, brokers, message, name, publish_all, rows, topic};

/// A topic with so many events, another to write to, and a source of the first.
async fn pipe(word: &str, count: u32) -> (String, String, Reading) {
    let (from, to) = (name(word), name(&format!("{word}-to")));
    topic(&brokers().await, &from, 1).await;
    topic(&brokers().await, &to, 1).await;
    let publisher = KafkaPublisher::builder(fixture::shared().await).topics(from.as_str());
    let messages = (0..count).map(|n| message("o", &format!("o-{n}"), n)).collect();
    publish_all(&publisher.open().await.unwrap(), messages).await;
    let reading = open(&from).await;
    (from, to, reading)
}

async fn open(from: &str) -> Reading {
    let source = KafkaSource::builder(fixture::shared().await, from).topic(from);
    Reading::new(source.open().await.unwrap())
}

fn answer(to: &str, one: &Delivery) -> Record {
    let payload = one.payload.clone().unwrap();
    Record::new(to).key(payload.clone()).payload(payload).header("id", one.message.id().to_owned())
}

fn receipts(deliveries: &[Delivery]) -> Vec<Receipt> {
    deliveries.iter().map(|one| one.receipt).collect()
}

#[tokio::test]
async fn what_was_read_and_what_was_written_are_committed_together() {
    let (from, to, mut reading) = pipe("together", 6).await;
    let transactions = Transactions::open(&fixture::shared().await, &from).await.unwrap();
    let got = reading.until(6).await;
    let mut transaction = transactions.begin().await.unwrap();
    for one in &got[..4] {
        transaction.send(answer(&to, one)).await.unwrap();
    }
    transaction.consume(&reading.source, receipts(&got[..4])).unwrap();
    assert!(rows(&brokers().await, &to).await.is_empty(), "seen before the commit");
    transaction.commit().await.unwrap();
    let written: Vec<_> = rows(&brokers().await, &to).await;
    assert_eq!(written.len(), 4);
    assert_eq!(written[0].id(), got[0].message.id());
    assert_eq!(reading.settle(&got[0]).await, Acked::Lost, "settled by the commit");
    drop(reading);
    let rest = open(&from).await.until(2).await;
    assert_eq!(rest[0].message, got[4].message);
}

#[tokio::test]
async fn what_was_not_committed_is_not_seen_and_comes_again() {
    let (from, to, mut reading) = pipe("undone", 2).await;
    let transactions = Transactions::open(&fixture::shared().await, &from).await.unwrap();
    for undo in 0..3 {
        let got = reading.until(2).await;
        let mut transaction = transactions.begin().await.unwrap();
        transaction.send(answer(&to, &got[0])).await.unwrap();
        transaction.consume(&reading.source, receipts(&got)).unwrap();
        match undo {
            0 => transaction.abort().await.unwrap(),
            1 => drop(transaction),
            _ => transaction.commit().await.unwrap(),
        }
    }
    assert_eq!(rows(&brokers().await, &to).await.len(), 1);
}

#[tokio::test]
async fn a_transaction_consumes_what_follows_without_a_gap_and_is_its_own() {
    let (from, _, mut reading) = pipe("gap", 3).await;
    let transactions = Transactions::open(&fixture::shared().await, &from).await.unwrap();
    let got = reading.until(3).await;
    let mut transaction = transactions.begin().await.unwrap();
    let error = transaction.consume(&reading.source, [got[1].receipt]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    reading.settle(&got[0]).await;
    let error = transaction.consume(&reading.source, [got[0].receipt]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    transaction.consume(&reading.source, [got[1].receipt]).unwrap();
    transaction.commit().await.unwrap();
    reading.source.close().await.unwrap();
    assert_eq!(open(&from).await.until(1).await[0].message, got[2].message);
}

/// M16, M19: whoever was overtaken changes nothing.
#[tokio::test]
async fn a_zombie_can_commit_nothing_once_its_name_is_taken_over() {
    let (from, to, mut reading) = pipe("zombie", 2).await;
    let config = fixture::shared().await;
    let zombie = Transactions::open(&config, &from).await.unwrap();
    let got = reading.until(2).await;
    let mut late = zombie.begin().await.unwrap();
    late.send(answer(&to, &got[0])).await.unwrap();
    late.consume(&reading.source, receipts(&got)).unwrap();
    let heir = Transactions::open(&config, &from).await.unwrap();
    assert_eq!(late.commit().await.unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(zombie.begin().await.unwrap_err().kind(), ErrorKind::Fenced);
    drop(reading);
    let mut reading = open(&from).await;
    let got = reading.until(2).await;
    let mut transaction = heir.begin().await.unwrap();
    for one in &got {
        transaction.send(answer(&to, one)).await.unwrap();
    }
    transaction.consume(&reading.source, receipts(&got)).unwrap();
    transaction.commit().await.unwrap();
    let written = rows(&brokers().await, &to).await;
    assert_eq!(written.len(), 2, "effects of the heir alone");
}
