//! The same work for minutes, without and with a snapshot that is held: what a table that only grows
//! costs then, and one whose rows are claimed with SKIP LOCKED.

use std::time::{Duration, Instant};

use semel::outbox::{OutboxRetain, OutboxStore};
use semel_postgres::PostgresStore;
use semel_testkit::servers::Postgres;

use super::{CLAIMED, claims, connect, fill, lead, median, relayed};

/// How many rows are added to either table, and how often.
const ROWS: u32 = 50_000;
const EVERY: Duration = Duration::from_secs(5);
/// How long either is worked on at most in that time.
const WORK: Duration = Duration::from_secs(2);
const MINUTE: Duration = Duration::from_secs(60);

/// One turn: when it was, and how many rows a second were done of either table.
struct Turn {
    at: Duration,
    read: f64,
    claimed: f64,
}

/// Works for a minute while nobody holds a snapshot, then for so long while somebody does, and prints
/// the rates of the first minute and of the last.
pub(super) async fn measure(server: &Postgres, store: &PostgresStore, held_for: Duration) {
    let leader = lead(store, "standing").await;
    let [filler, worker, reader] =
        [connect(&server.url()).await, connect(&server.url()).await, connect(&server.url()).await];
    let claim = worker.prepare(CLAIMED).await.unwrap();
    for (held, span) in [(false, held_for.min(MINUTE)), (true, held_for)] {
        worker.batch_execute("TRUNCATE queue").await.unwrap();
        if held {
            reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
        }
        let (began, mut turns) = (Instant::now(), Vec::new());
        while began.elapsed() < span {
            let at = began.elapsed();
            fill(&filler, super::EVENTS, ROWS).await;
            let read = relayed(store, &leader, WORK).await;
            fill(&filler, super::ROWS, ROWS).await;
            let claimed = claims(&worker, &claim, WORK).await;
            turns.push(Turn { at, read, claimed });
            while store.retain(MINUTE).await.unwrap().more {}
            // The pace of the load, which nothing waits for.
            tokio::time::sleep((at + EVERY).saturating_sub(began.elapsed())).await;
        }
        let way = if held { "a snapshot held" } else { "nobody else" };
        print(way, "first minute", turns.iter().filter(|turn| turn.at < MINUTE));
        if span > MINUTE {
            let last = turns.iter().filter(|turn| turn.at + MINUTE >= span);
            print(way, "last minute", last);
        }
    }
    reader.batch_execute("COMMIT").await.unwrap();
    assert!(store.renew(leader, MINUTE).await.is_ok());
}

fn print<'a>(way: &str, when: &str, turns: impl Iterator<Item = &'a Turn>) {
    let (read, claimed): (Vec<_>, Vec<_>) = turns.map(|turn| (turn.read, turn.claimed)).unzip();
    let (read, claimed) = (median(read), median(claimed));
    println!(
        "{way:<16} {when:<13} outbox {read:>8.0} events/s   SKIP LOCKED {claimed:>8.0} rows/s"
    );
}
