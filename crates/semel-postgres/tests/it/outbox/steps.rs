//! Short words for what a relay and an application do.

use std::time::Duration;

use semel::{
    SystemClock,
    entropy::SystemEntropy,
    outbox::{
        Destination, Event, EventId, Lane, Lead, Leader, Led, OutboxStore, Placed, Settle, Settled,
        Start, Window,
    },
};
use semel_postgres::PostgresStore;
use tokio_postgres::Client;

use crate::fixture::Fixture;

pub(super) const LEASE: Duration = Duration::from_secs(30);

pub(super) fn destination(name: &str) -> Destination {
    Destination::new(name).unwrap()
}

pub(super) fn event(of: &str, told: &str) -> Event {
    let id = EventId::new(&SystemClock::new(), &SystemEntropy);
    Event::new(id, Lane::new("order", of).unwrap(), "Placed", Some(told.to_owned().into())).unwrap()
}

pub(super) fn ask(to: &str, start: Start) -> Lead {
    Lead { destination: destination(to), owner: "a test".into(), lease: LEASE, start }
}

pub(super) async fn lead(store: &PostgresStore, to: &str) -> Leader {
    match store.lead(ask(to, Start::Earliest)).await.unwrap() {
        Led::Leader(leader) => leader,
        Led::Follower { owner, .. } => panic!("{owner} leads"),
    }
}

pub(super) fn settlement(leader: &Leader) -> Settle {
    Settle {
        destination: leader.destination.clone(),
        epoch: leader.epoch,
        upto: None,
        ends: false,
        park: Vec::new(),
        unpark: Vec::new(),
    }
}

/// Reads a window behind what is settled, and settles it.
pub(super) async fn step(store: &PostgresStore, leader: &Leader, limit: usize) -> Window {
    let window = store.read(leader.clone(), None, limit, 1 << 20).await.unwrap();
    if let Some(pass) = window.pass {
        let settle =
            Settle { upto: Some((pass, window.upto)), ends: window.ends, ..settlement(leader) };
        assert_eq!(store.settle(settle).await.unwrap(), Settled::Stored);
    }
    window
}

/// Reads and settles until nothing is left.
pub(super) async fn drain(store: &PostgresStore, leader: &Leader, limit: usize) -> Vec<Placed> {
    let mut all = Vec::new();
    loop {
        let window = step(store, leader, limit).await;
        all.extend(window.events);
        if window.pass.is_none() {
            return all;
        }
    }
}

/// What the payloads tell.
pub(super) fn told(placed: &[Placed]) -> Vec<String> {
    let payload = |placed: &Placed| placed.event.payload.as_deref().unwrap_or_default().to_vec();
    placed.iter().map(|placed| String::from_utf8(payload(placed)).unwrap()).collect()
}

/// The statement that publishes what `told` says, in the words of an application.
pub(super) fn publish(of: &str, told: &str) -> String {
    format!("SELECT semel.publish('order', '{of}', 'Placed', convert_to('{told}', 'UTF8'));")
}

/// Runs statements of an application.
pub(super) async fn run(client: &Client, fixture: &Fixture, statements: &str) {
    client.batch_execute(&fixture.sql(statements)).await.unwrap();
}

/// The one number that a query returns.
pub(super) async fn number(fixture: &Fixture, query: &str) -> i64 {
    let client = fixture.connect().await;
    client.query_one(&*fixture.sql(query), &[]).await.unwrap().get(0)
}

/// How many pages a query looks at.
pub(super) async fn pages(fixture: &Fixture, query: &str) -> u64 {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}");
    let said = fixture.connect().await.simple_query(&fixture.sql(&explain)).await.unwrap();
    let row = said.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let said: serde_json::Value = serde_json::from_str(row.unwrap()).unwrap();
    let pages = |kind| said[0]["Plan"][kind].as_u64().unwrap();
    pages("Shared Hit Blocks") + pages("Shared Read Blocks")
}
