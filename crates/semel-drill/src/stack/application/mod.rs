//! The application behind the shop: each effect and the event that tells of it are rows that one
//! transaction writes, in the database that the gateways keep their records in.
//!
//! Its rows are its own books. What it could not learn of a commit, because the answer was lost, stands
//! there in the end.

mod postgres;
mod sqlite;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use semel::{
    SystemClock,
    entropy::SystemEntropy,
    outbox::{EventId, Lane},
};
use semel_testkit::{Deliveries, SeededEntropy};
use tokio::time::{sleep, timeout};

use self::{postgres::PostgresBooks, sqlite::SqliteBooks};
use super::{
    StackError,
    place::Place,
    settings::{Settings, Upstream},
};

/// The type of all aggregates.
const KIND: &str = "drill";
/// How many aggregates there are: each gets many events, and many are written at once.
const AGGREGATES: u64 = 40;
/// One transaction of so many is rolled back after it has appended its event.
const ROLLED_BACK_OF: u64 = 16;
/// How often it is looked whether somebody still acts.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// One transaction: an effect of an intent, and the event of it.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) intent: u64,
    pub(super) event: EventId,
    pub(super) lane: Lane,
    pub(super) ends: Ends,
}

/// How a transaction is meant to end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ends {
    Committed,
    RolledBack,
}

/// What became of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wrote {
    /// It is committed.
    Committed,
    /// The effect was there before, where there may be one only.
    Known,
    /// It is rolled back, or never came so far.
    Nothing,
    /// It was to be committed, and nobody said whether it is.
    Unknown,
}

/// The application.
#[derive(Debug)]
pub(super) struct Application {
    books: Books,
    seed: u64,
    /// Whether an intent may have one effect only.
    keyed: bool,
    patience: Duration,
    /// How many act now.
    acting: Arc<AtomicUsize>,
    pub(super) deliveries: Arc<Deliveries>,
}

#[derive(Debug)]
enum Books {
    Postgres(PostgresBooks),
    Sqlite(SqliteBooks),
}

impl Application {
    /// Makes one behind a store that has transactions.
    pub(super) fn new(settings: &Settings, place: &Place) -> Option<Self> {
        let books = match place {
            Place::File(file) => Books::Sqlite(SqliteBooks::new(file.path())),
            Place::Redis(_) => return None,
            Place::Server(server) => Books::Postgres(PostgresBooks::new(server.own_url())),
        };
        Some(Self {
            books,
            seed: settings.seed,
            keyed: settings.upstream == Upstream::Keyed,
            // It gives up before the gateway does, so that it can still say so.
            patience: settings.answer_wait() * 3 / 4,
            acting: Arc::default(),
            deliveries: Arc::default(),
        })
    }

    /// Makes its tables.
    pub(super) async fn prepare(&self) -> Result<(), StackError> {
        match &self.books {
            Books::Postgres(books) => books.prepare(self.keyed).await,
            Books::Sqlite(books) => books.prepare(self.keyed).await,
        }
    }

    /// Acts for the nth request of an intent; sometimes a transaction that does the same and is rolled
    /// back comes first.
    pub(super) async fn act(&self, intent: u64, nth: u64) -> Wrote {
        let chance = SeededEntropy::new(self.seed.rotate_left(33) ^ intent.rotate_left(8) ^ nth);
        let aggregate = chance.below(AGGREGATES);
        let _acting = Acting::begins(&self.acting);
        if chance.below(ROLLED_BACK_OF) == 0 {
            self.write(intent, aggregate, Ends::RolledBack).await;
        }
        self.write(intent, aggregate, Ends::Committed).await
    }

    async fn write(&self, intent: u64, aggregate: u64, ends: Ends) -> Wrote {
        let lane = Lane::new(KIND, aggregate.to_string()).expect("it is a lane");
        let event = EventId::new(&SystemClock::new(), &SystemEntropy);
        let write = Write { intent, event, lane, ends };
        let wrote = match &self.books {
            Books::Postgres(books) => books.write(&write, &self.deliveries, self.patience).await,
            Books::Sqlite(books) => books.write(&write, &self.deliveries).await,
        };
        match wrote {
            Wrote::Committed => self.deliveries.committed(event),
            Wrote::Nothing | Wrote::Known => self.deliveries.rolled_back_if_appended(event),
            Wrote::Unknown => {}
        }
        wrote
    }

    /// Reads from the books what nobody said: how many effects each intent has, and which events of
    /// uncertain transactions are committed. Whoever acts is waited for, and so is every transaction that
    /// is not over: a commit whose answer was lost may still wait for its standby.
    pub(super) async fn effects(&self) -> Result<BTreeMap<u64, u64>, StackError> {
        while self.acting.load(Ordering::SeqCst) > 0 {
            sleep(LOOK_EVERY).await;
        }
        let rows = match &self.books {
            Books::Postgres(books) => books.rows().await?,
            Books::Sqlite(books) => books.rows().await?,
        };
        let mut effects = BTreeMap::new();
        for (intent, event) in rows {
            *effects.entry(intent).or_default() += 1;
            self.deliveries.committed(event);
        }
        // What is not there now never will be: all who wrote have ended.
        self.deliveries.open_are_rolled_back();
        Ok(effects)
    }

    /// Lets go of the file, as long as what is returned lives: its disk is about to lose its power.
    pub(super) async fn rests(&self) -> Option<impl Drop + use<>> {
        match &self.books {
            Books::Postgres(_) => None,
            Books::Sqlite(books) => timeout(self.patience, books.rest()).await.ok(),
        }
    }
}

/// Somebody who acts, until it is dropped.
struct Acting(Arc<AtomicUsize>);

impl Acting {
    fn begins(acting: &Arc<AtomicUsize>) -> Self {
        acting.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(acting))
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What an event says: whose effect it tells of, and which of its aggregate's events it is.
pub(super) fn payload(intent: u64, number: u64) -> String {
    format!("{{\"intent\":{intent},\"number\":{number}}}")
}
