//! What events and messages cost in an application's transaction on SQLite: a row and an event besides,
//! against the row and a plain row besides; and rows for messages that came, one or 500 in a transaction,
//! against the same that receive the messages. In turns on one file.
//!
//! `cargo bench -p semel-sqlite --bench transactions -- [--json] [--millis N] [--turns N] [--dir FOLDER]`
//!
//! The folder must lie on the disk in question; a file system in memory shows processor time alone.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a bench measures time and may fail by panicking"
)]

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use rusqlite::{Connection, TransactionBehavior};
use semel::{
    inbox::{By, Consumer, Delivery, InboxPolicy, LogId, MessageId, Position, Receipt, SourceName},
    outbox::{Event, EventId, Lane},
};
use semel_sqlite::{SqliteStore, inbox::Inbox, transact::Transact};

const BATCH: u64 = 500;
const PAYLOAD: &[u8; 200] = &[b'x'; 200];

const TABLES: &str = "
    CREATE TABLE invoice (id INTEGER PRIMARY KEY, note TEXT NOT NULL, cents INTEGER NOT NULL);
    CREATE TABLE plain (id INTEGER PRIMARY KEY, event BLOB NOT NULL, lane TEXT NOT NULL,
        kind TEXT NOT NULL, payload BLOB NOT NULL);";

/// What a transaction does beside its row, or its rows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flow {
    Plain,
    Insert,
    Publish,
    Without(u64),
    ByIds(u64),
    ByPositions(u64),
}

/// Each is compared with the last one before it that is compared with itself.
const FLOWS: [(Flow, &str); 9] = [
    (Flow::Plain, "a row, and a plain row"),
    (Flow::Insert, "a row, and an event by INSERT"),
    (Flow::Publish, "a row, and an event by publish"),
    (Flow::Without(1), "a row for a message"),
    (Flow::ByIds(1), "the same, once by its id"),
    (Flow::ByPositions(1), "the same, once by its position"),
    (Flow::Without(BATCH), "500 rows for messages"),
    (Flow::ByIds(BATCH), "the same, once by ids"),
    (Flow::ByPositions(BATCH), "the same, once by positions"),
];

struct Desk {
    conn: Connection,
    transact: Transact,
    by_ids: Inbox,
    by_positions: Inbox,
    number: u64,
}

fn main() {
    let words: Vec<_> = std::env::args().collect();
    let word = |name: &str| {
        let at = words.iter().position(|word| word == name);
        at.map(|at| words[at + 1].clone())
    };
    let number =
        |name: &str, default: u64| word(name).map_or(default, |word| word.parse().unwrap());
    let span = Duration::from_millis(number("--millis", 1_000));
    let turns = number("--turns", 5);
    let dir = word("--dir").map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(dir).unwrap();
    let path = folder.path().join("semel.db");
    let store = SqliteStore::builder(&path).open().unwrap();
    let inbox = |name: &str, by| {
        let mut policy = InboxPolicy::new(Consumer::new(name).unwrap());
        policy.by = by;
        store.inbox(Arc::new(policy)).unwrap()
    };
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(TABLES).unwrap();
    conn.pragma_update(None, "synchronous", "FULL").unwrap();
    let mut desk = Desk {
        conn,
        transact: store.transact(),
        by_ids: inbox("by-ids", By::Ids),
        by_positions: inbox("by-positions", By::Positions),
        number: 0,
    };
    let mut rates = FLOWS.map(|_| Vec::new());
    for (flow, _) in FLOWS {
        desk.round(flow, span / 4);
    }
    for _ in 0..turns {
        for ((flow, _), rates) in FLOWS.into_iter().zip(&mut rates) {
            rates.push(desk.round(flow, span));
        }
    }
    show(&rates, words.iter().any(|word| word == "--json"));
}

fn show(rates: &[Vec<f64>], json: bool) {
    let mut bare = &rates[0];
    for ((flow, name), rates) in FLOWS.into_iter().zip(rates) {
        if matches!(flow, Flow::Plain | Flow::Without(_)) {
            bare = rates;
        }
        let ratio = median(rates.iter().zip(bare).map(|(ours, bare)| ours / bare).collect());
        let more =
            median(rates.iter().zip(bare).map(|(ours, bare)| 1e6 / ours - 1e6 / bare).collect());
        let rate = median(rates.clone());
        if json {
            println!(
                "{{\"bench\":\"transactions\",\"flow\":\"{flow:?}\",\"per_s\":{rate:.0},\
                 \"ratio\":{ratio:.3},\"more_us\":{more:.1}}}"
            );
        } else {
            println!("{name:<32} {rate:>9.0} /s   {ratio:.3}   {more:>6.1} us more each");
        }
    }
}

impl Desk {
    /// Returns how many rows, or pairs of rows, were committed per second.
    fn round(&mut self, flow: Flow, span: Duration) -> f64 {
        let (began, mut rows) = (Instant::now(), 0_u32);
        while began.elapsed() < span {
            rows += match flow {
                Flow::Plain | Flow::Insert | Flow::Publish => self.tell(flow),
                Flow::Without(count) | Flow::ByIds(count) | Flow::ByPositions(count) => {
                    self.handle(flow, count);
                    u32::try_from(count).unwrap()
                }
            };
        }
        f64::from(rows) / began.elapsed().as_secs_f64()
    }

    fn tell(&mut self, flow: Flow) -> u32 {
        self.number += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        id[8..].copy_from_slice(&self.number.to_be_bytes());
        let lane = format!("order-{}", self.number % 200);
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        act(&tx).unwrap();
        match flow {
            Flow::Publish => {
                let lane = Lane::new("order", lane).unwrap();
                let payload = Some(Bytes::from_static(PAYLOAD));
                let id = EventId::from_bytes(id);
                let event = Event::new(id, lane, "OrderPlaced", payload).unwrap();
                self.transact.publish(&tx, &[event]).unwrap();
            }
            Flow::Insert => {
                let insert = "INSERT INTO semel_outbox (aggregatetype, aggregateid, type, payload)
                    VALUES ('order', ?1, 'OrderPlaced', ?2)";
                let mut insert = tx.prepare_cached(insert).unwrap();
                insert.execute((&lane, PAYLOAD)).unwrap();
            }
            _ => {
                let insert = "INSERT INTO plain (event, lane, kind, payload)
                    VALUES (?1, ?2, 'OrderPlaced', ?3)";
                let mut insert = tx.prepare_cached(insert).unwrap();
                insert.execute((&id, &lane, PAYLOAD)).unwrap();
            }
        }
        tx.commit().unwrap();
        1
    }

    fn handle(&mut self, flow: Flow, count: u64) {
        let deliveries = self.come(count);
        let inbox = match flow {
            Flow::ByIds(_) => &self.by_ids,
            Flow::ByPositions(_) => &self.by_positions,
            _ => {
                let behavior = TransactionBehavior::Immediate;
                let tx = self.conn.transaction_with_behavior(behavior).unwrap();
                deliveries.iter().for_each(|_| act(&tx).unwrap());
                return tx.commit().unwrap();
            }
        };
        if let [delivery] = &*deliveries {
            let ran = inbox.run(&mut self.conn, delivery, |handling| {
                act(handling)?;
                Ok::<_, rusqlite::Error>((None, ()))
            });
            return drop(ran.unwrap());
        }
        let handled = inbox.run_all(&mut self.conn, &deliveries, |batch| {
            batch.new_ones().try_for_each(|_| act(batch))
        });
        assert_eq!(handled.unwrap().len(), deliveries.len());
    }

    /// The next messages of a log.
    fn come(&mut self, count: u64) -> Vec<Delivery> {
        let first = self.number + 1;
        self.number += count;
        let source = SourceName::new("kafka:orders").unwrap();
        let log = LogId::new("orders/0").unwrap();
        let come = |number: u64| {
            // Spread as the ids of real messages are.
            let id = format!("{:016x}-{number}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let message = MessageId::new(source.clone(), id).unwrap();
            let mut delivery =
                Delivery::new(message, Receipt(number), Some(Bytes::from_static(PAYLOAD)));
            delivery.position = Some(Position { log: log.clone(), offset: number });
            delivery
        };
        (first..first + count).map(come).collect()
    }
}

/// One row.
fn act(conn: &Connection) -> rusqlite::Result<()> {
    let insert = "INSERT INTO invoice (note, cents) VALUES ('an invoice of some length', 10)";
    conn.prepare_cached(insert)?.execute([]).map(drop)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
