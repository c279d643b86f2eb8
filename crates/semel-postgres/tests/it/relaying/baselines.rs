//! Two ways to read the same table that are often chosen and do not hold, to show that the judge of the
//! great run finds what it is there to find.

use std::{sync::Arc, time::Duration};

use semel::outbox::{EventId, Lane};
use semel_testkit::deliveries::Number;
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use tokio_postgres::{Client, Row};

use super::{Shop, connect};

/// What a reader delivered, in its order, and for how long at most it saw that something was committed
/// and delivered nothing.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) copies: Vec<(EventId, Lane, Number)>,
    pub(super) stalled: Duration,
}

const COLUMNS: &str =
    "uuid_send(o.id), o.aggregateid, convert_from(o.payload, 'UTF8'), o.pos, o.xid::text";

fn copy(row: &Row) -> (EventId, Lane, Number) {
    let id: &[u8] = row.get(0);
    let (lane, number): (&str, &str) = (row.get(1), row.get(2));
    let id = EventId::from_bytes(id.try_into().unwrap());
    (id, Lane::new("order", lane).unwrap(), number.parse().unwrap())
}

/// Reads everything behind the last position seen, again and again: `id > last`.
pub(super) fn behind_the_last(shop: &Shop, stop: watch::Receiver<bool>) -> JoinHandle<Read> {
    let sql = format!(
        "SELECT {COLUMNS} FROM semel.outbox AS o WHERE o.pos > $1 ORDER BY o.pos LIMIT 1000"
    );
    let url = shop.server.url();
    tokio::spawn(async move {
        let client = connect(&url).await;
        let (mut read, mut last) = (Read::default(), -1_i64);
        loop {
            let stops = *stop.borrow();
            let rows = client.query(&sql, &[&last]).await.unwrap();
            read.copies.extend(rows.iter().map(copy));
            match rows.last() {
                Some(row) => last = row.get(3),
                None if stops => return read,
                // How often such a reader polls: nothing tells it of a commit.
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    })
}

/// Reads everything of transactions older than the oldest that is open, in the order of transactions.
pub(super) fn below_the_oldest_open(shop: &Shop, stop: watch::Receiver<bool>) -> JoinHandle<Read> {
    let sql = format!(
        "SELECT {COLUMNS} FROM semel.outbox AS o
        WHERE (o.xid, o.pos) > ($1::text::xid8, $2) AND o.xid < pg_snapshot_xmin(pg_current_snapshot())
        ORDER BY o.xid, o.pos LIMIT 1000"
    );
    let url = shop.server.url();
    let stop = Arc::new(stop);
    tokio::spawn(async move {
        let client = connect(&url).await;
        let (mut read, mut last) = (Read::default(), ("0".to_owned(), -1_i64));
        let mut moved = Instant::now();
        loop {
            let stops = *stop.borrow();
            let rows = client.query(&sql, &[&last.0, &last.1]).await.unwrap();
            read.copies.extend(rows.iter().map(copy));
            if let Some(row) = rows.last() {
                last = (row.get(4), row.get(3));
                moved = Instant::now();
            } else if more(&client, &last).await {
                read.stalled = read.stalled.max(moved.elapsed());
            } else if stops {
                return read;
            } else {
                moved = Instant::now();
            }
            if rows.is_empty() {
                // How often such a reader polls: nothing tells it of a commit.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    })
}

/// Whether something was committed behind what was read.
async fn more(client: &Client, last: &(String, i64)) -> bool {
    let sql = "SELECT EXISTS (SELECT 1 FROM semel.outbox WHERE (xid, pos) > ($1::text::xid8, $2))";
    client.query_one(sql, &[&last.0, &last.1]).await.unwrap().get(0)
}
