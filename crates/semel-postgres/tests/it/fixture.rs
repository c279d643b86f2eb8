//! A schema of a test's own in a server that all tests share, and time that moves by hand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use semel_postgres::{PostgresBuilder, PostgresStore};
use semel_testkit::{
    conformance::MoveTime,
    servers::{Major, PgBouncer, Postgres},
};
use tokio::sync::OnceCell;

/// Says on which major a whole suite is tried in one way: each way has one of its own, so that the oldest, the
/// newest and one between have every promise. `SEMEL_TEST_MAJOR` names one for all ways instead.
pub(crate) fn major_of_way(usual: Major) -> Major {
    let Ok(asked) = std::env::var("SEMEL_TEST_MAJOR") else { return usual };
    let is_asked = |major: &Major| major.number().to_string() == asked;
    Major::ALL.into_iter().find(is_asked).expect("SEMEL_TEST_MAJOR is 15, 17 or 18")
}

/// A fresh schema.
#[derive(Clone)]
pub(crate) struct Fixture {
    pub(crate) server: &'static Postgres,
    /// Where the server is; the store may go another way.
    pub(crate) url: String,
    pub(crate) store_url: String,
    pub(crate) schema: String,
}

impl Fixture {
    /// Makes a schema nobody has used, with its tables and without records, in the shared server of
    /// a major.
    pub(crate) async fn new(major: Major) -> Self {
        let fixture = Self::bare(major).await;
        PostgresStore::migrate(&fixture.builder()).await.unwrap();
        fixture
    }

    /// Names a schema that is not made yet.
    pub(crate) async fn bare(major: Major) -> Self {
        Self::of_server(Postgres::shared(major).await)
    }

    /// Names a schema that is not made yet in another server.
    pub(crate) fn of_server(server: &'static Postgres) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let schema = format!("test_{}_{number}", std::process::id());
        Self { server, url: server.url(), store_url: server.url(), schema }
    }

    /// Makes a schema whose store works through a pooler in transaction mode, the plain one that knows
    /// no prepared statements: one before each major's shared server.
    pub(crate) async fn pooled(major: Major) -> Self {
        static POOLERS: [OnceCell<PgBouncer>; 3] = [const { OnceCell::const_new() }; 3];
        let mut fixture = Self::new(major).await;
        let place = Major::ALL.iter().position(|other| *other == major).unwrap();
        let pooler = POOLERS[place].get_or_init(|| PgBouncer::start(fixture.server, 20)).await;
        fixture.store_url = pooler.url_of("postgres");
        fixture
    }

    /// Makes a schema on a server whose roles are serializable unless they say otherwise.
    pub(crate) async fn serializable(major: Major) -> Self {
        let fixture = Self::new(major).await;
        let options = "options=-c%20default_transaction_isolation%3Dserializable";
        let url = format!("{}?{options}", fixture.url);
        fixture.by_way_of(url)
    }

    /// Says by which way the store reaches the server, such as through a proxy.
    pub(crate) fn by_way_of(mut self, url: impl Into<String>) -> Self {
        self.store_url = url.into();
        self
    }

    /// Begins to open the store.
    pub(crate) fn builder(&self) -> PostgresBuilder {
        PostgresStore::builder(&self.store_url).schema(self.schema.as_str())
    }

    /// Opens the store.
    pub(crate) async fn open(&self) -> PostgresStore {
        self.builder().open().await.unwrap()
    }

    /// Makes a connection that is not the store's, as an application's.
    pub(crate) async fn connect(&self) -> tokio_postgres::Client {
        let (client, connection) =
            tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Puts the schema's name in for `semel.`, as the statements of an application would name it.
    pub(crate) fn sql(&self, statement: &str) -> String {
        statement.replace("semel.", &format!("\"{}\".", self.schema))
    }

    /// Makes the schema's time stand still but for what a test moves, for every form and language: its
    /// function tells what a sequence holds, which no transaction holds back.
    pub(crate) async fn moved_time(&self) -> Arc<MovedTime> {
        let made = "CREATE SEQUENCE semel.moved;
            SELECT setval('semel.moved', semel.now_us());
            CREATE OR REPLACE FUNCTION semel.now_us() RETURNS bigint
            LANGUAGE sql VOLATILE PARALLEL SAFE
            AS $$ SELECT last_value FROM semel.moved $$;";
        let client = self.connect().await;
        client.batch_execute(&self.sql(made)).await.unwrap();
        Arc::new(MovedTime { fixture: self.clone() })
    }
}

/// Moves the time of one schema.
pub(crate) struct MovedTime {
    fixture: Fixture,
}

impl MovedTime {
    async fn moved(&self, by: i64) {
        let sql = "SELECT setval('semel.moved', (SELECT last_value + $1 FROM semel.moved))";
        let client = self.fixture.connect().await;
        client.execute(&self.fixture.sql(sql), &[&by]).await.unwrap();
    }
}

#[async_trait]
impl MoveTime for MovedTime {
    async fn advance(&self, by: Duration) {
        self.moved(i64::try_from(by.as_micros()).unwrap()).await;
    }

    async fn turn_back(&self, by: Duration) {
        self.moved(-i64::try_from(by.as_micros()).unwrap()).await;
    }
}
