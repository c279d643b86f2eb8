//! The same work for minutes on two servers, turn by turn: on one of them a snapshot is held all the time.
//! What a table that only grows costs then, and one whose rows are claimed with SKIP LOCKED.

use std::time::{Duration, Instant};

use semel::outbox::{Leader, OutboxRetain, OutboxStore};
use semel_postgres::PostgresStore;
use semel_testkit::servers::{Major, Postgres};
use tokio_postgres::{Client, Statement};

use super::{
    CLAIMED, EVENTS, QUEUE, ROWS as INTO_QUEUE, claims, connect, fill, lead, median, relayed,
};

/// How many rows are added to either table, and how often.
const ROWS: u32 = 50_000;
const EVERY: Duration = Duration::from_secs(5);
/// How long either is worked on at most in that time.
const WORK: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A server of its own, with what works on it.
struct Site {
    server: Postgres,
    store: PostgresStore,
    leader: Leader,
    filler: Client,
    worker: Client,
    claim: Statement,
}

/// How many rows a second were done of either table.
#[derive(Clone, Copy)]
struct Rates {
    read: f64,
    claimed: f64,
}

/// One turn: when it was, and what was done where nobody holds a snapshot and where somebody does.
struct Turn {
    at: Duration,
    free: Rates,
    held: Rates,
}

/// Works for so long and prints the rates of the first minute and of the last.
pub(super) async fn measure(major: Major, span: Duration) {
    let (free, held) = (Site::open(major).await, Site::open(major).await);
    let reader = connect(&held.server.url()).await;
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    let (began, mut turns) = (Instant::now(), Vec::new());
    while began.elapsed() < span {
        let at = began.elapsed();
        // Each goes first every other time, so that a load from outside meets both alike.
        let (of_free, of_held) = if turns.len() % 2 == 0 {
            let of_free = free.work().await;
            (of_free, held.work().await)
        } else {
            let of_held = held.work().await;
            (free.work().await, of_held)
        };
        turns.push(Turn { at, free: of_free, held: of_held });
        // The pace of the load, which nothing waits for.
        tokio::time::sleep((at + EVERY).saturating_sub(began.elapsed())).await;
    }
    print("first minute", &turns, |turn| turn.at < MINUTE);
    if span > MINUTE {
        print("last minute", &turns, |turn| turn.at + MINUTE >= span);
    }
    reader.batch_execute("COMMIT").await.unwrap();
    for site in [free, held] {
        assert!(site.store.renew(site.leader, MINUTE).await.is_ok());
    }
}

impl Site {
    async fn open(major: Major) -> Self {
        let server = Postgres::start(major).await;
        let store = PostgresStore::builder(server.url()).prepared(true).open().await.unwrap();
        server.run_sql(QUEUE).await;
        let leader = lead(&store, "standing").await;
        let (filler, worker) = (connect(&server.url()).await, connect(&server.url()).await);
        let claim = worker.prepare(CLAIMED).await.unwrap();
        Self { server, store, leader, filler, worker, claim }
    }

    async fn work(&self) -> Rates {
        fill(&self.filler, EVENTS, ROWS).await;
        let read = relayed(&self.store, &self.leader, WORK).await;
        fill(&self.filler, INTO_QUEUE, ROWS).await;
        let claimed = claims(&self.worker, &self.claim, WORK).await;
        while self.store.retain(MINUTE).await.unwrap().more {}
        Rates { read, claimed }
    }
}

impl Rates {
    const fn read(self) -> f64 {
        self.read
    }

    const fn claimed(self) -> f64 {
        self.claimed
    }
}

fn print(when: &str, turns: &[Turn], is_then: impl Fn(&Turn) -> bool) {
    let turns: Vec<_> = turns.iter().filter(|turn| is_then(turn)).collect();
    let figures: [fn(f64, f64) -> f64; 3] =
        [|free, _| free, |_, held| held, |free, held| held / free];
    for (what, of) in [("outbox", Rates::read as fn(Rates) -> f64), ("SKIP LOCKED", Rates::claimed)]
    {
        let [free, held, ratio] = figures.map(|figure| {
            median(turns.iter().map(|turn| figure(of(turn.free), of(turn.held))).collect())
        });
        println!(
            "{when:<13} {what:<12} {free:>8.0}/s   a snapshot held {held:>8.0}/s   {ratio:.2}"
        );
    }
}
