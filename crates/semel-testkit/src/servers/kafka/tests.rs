//! What a private broker promises, seen by whoever connects.

use std::time::Duration;

use tokio::net::TcpStream;

use super::*;
use crate::servers::{patience::until, scratch};

#[tokio::test]
async fn a_killed_broker_comes_back_where_it_was_and_a_dropped_one_leaves_nothing() {
    let mut broker = Kafka::builder().setting("log.retention.ms", "1234567").start().await;
    let address = broker.address();
    let settings = std::fs::read_to_string(broker.scratch.path().join("server.properties"));
    assert!(settings.unwrap().ends_with("log.retention.ms=1234567\n"));
    TcpStream::connect(address).await.unwrap();
    broker.kill();
    assert!(TcpStream::connect(address).await.is_err());
    broker.restart().await;
    assert_eq!(broker.address(), address);
    let mut open = TcpStream::connect(address).await.unwrap();
    broker.pause();
    // A request for the versions of the broker: correlation 7, no client.
    let request = b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff";
    tokio::io::AsyncWriteExt::write_all(&mut open, request).await.unwrap();
    let mut answer = [0; 8];
    let mut read = Box::pin(tokio::io::AsyncReadExt::read_exact(&mut open, &mut answer));
    let early = tokio::time::timeout(Duration::from_millis(200), &mut read).await;
    assert!(early.is_err(), "a frozen broker answered");
    broker.resume();
    read.await.unwrap();
    assert_eq!(answer[4..], [0, 0, 0, 7]);
    let folder = broker.scratch.path().to_owned();
    drop(broker);
    assert!(until(|| scratch::inside(&folder).is_empty() && !folder.exists()));
}
