//! An application with payments in the same database, and short ways to use it.

use std::sync::Arc;

use semel::{
    Call, Fingerprint, IntentId, Key, Operation, Outcome, Policy, Refusal, Scope, Tenant,
    decide::OnLost,
};
use semel_postgres::transact::{Atomic, Guard, Transact, Tx};
use semel_testkit::servers::Major;
use tokio_postgres::{Client, GenericClient};

use crate::fixture::Fixture;

/// A table of payments, and what claims beside it.
pub(crate) struct Shop {
    pub(crate) fixture: Fixture,
    pub(crate) transact: Transact,
    pub(crate) client: Client,
}

impl Shop {
    pub(crate) async fn new(major: Major) -> Self {
        let fixture = Fixture::new(major).await;
        let client = fixture.connect().await;
        let table = "CREATE TABLE semel.payment (key text NOT NULL, amount bigint NOT NULL);
            CREATE TABLE semel.account (id bigint PRIMARY KEY, balance bigint NOT NULL);
            INSERT INTO semel.account SELECT g, 0 FROM generate_series(1, 10) AS g";
        client.batch_execute(&fixture.sql(table)).await.unwrap();
        let transact =
            Transact::loader().schema(fixture.schema.as_str()).load(&client).await.unwrap();
        Self { fixture, transact, client }
    }

    /// Pays inside a transaction.
    pub(crate) async fn pay(
        &self,
        client: &impl GenericClient,
        key: &str,
    ) -> Result<(), tokio_postgres::Error> {
        pay(&self.fixture, client, key).await
    }

    /// How many payments are committed.
    pub(crate) async fn payments(&self) -> i64 {
        self.number("SELECT count(*) FROM semel.payment").await
    }

    /// How many records are committed.
    pub(crate) async fn records(&self) -> i64 {
        self.number("SELECT count(*) FROM semel.record").await
    }

    /// The one number that a query returns, on a connection of its own.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        let client = self.fixture.connect().await;
        client.query_one(&*self.fixture.sql(query), &[]).await.unwrap().get(0)
    }

    /// The state of a record, as committed.
    pub(crate) async fn state(&self, key: &str) -> Option<String> {
        let client = self.fixture.connect().await;
        let query = self.fixture.sql("SELECT state FROM semel.record WHERE key = $1");
        client.query_opt(&*query, &[&key]).await.unwrap().map(|row| row.get(0))
    }

    /// Writes a leased record that somebody claimed `age_s` seconds ago, for 30 s.
    pub(crate) async fn leased(&self, key: &str, content: &[u8], age_s: i64) {
        let fingerprint = Fingerprint::of_bytes(content);
        let (plan, digest) =
            (fingerprint.plan().as_bytes().to_vec(), fingerprint.digest().to_vec());
        let insert = "INSERT INTO semel.record (tenant, operation, key, state, token, fence, plan,
                digest, renewed_at_us, lease_us, created_at_us, claimed_at_us, replay_until_us,
                remember_until_us)
            SELECT 'acme', 'payments.create', $1, 'running', '\\x01010101010101010101010101010101',
                1, $2, $3, t.at, 30000000, t.at, t.at, 9223372036854775807, 9223372036854775807
            FROM (SELECT semel.now_us() - $4::bigint * 1000000 AS at) AS t";
        let values: &[&(dyn tokio_postgres::types::ToSql + Sync)] = &[&key, &plan, &digest, &age_s];
        let client = self.fixture.connect().await;
        client.execute(&*self.fixture.sql(insert), values).await.unwrap();
    }
}

/// Pays inside a transaction.
pub(crate) async fn pay(
    fixture: &Fixture,
    client: &impl GenericClient,
    key: &str,
) -> Result<(), tokio_postgres::Error> {
    let insert = fixture.sql("INSERT INTO semel.payment VALUES ($1, 10)");
    client.execute(&*insert, &[&key]).await.map(drop)
}

pub(crate) fn id(key: &str) -> IntentId {
    let scope =
        Scope::new(Tenant::new("acme").unwrap(), Operation::new("payments.create").unwrap());
    scope.intent(Key::new(key).unwrap())
}

pub(crate) fn call(key: &str) -> Call {
    Call::new(id(key), Fingerprint::of_bytes(b"pay 10"), Arc::new(Policy::default()))
}

pub(crate) fn call_on_lost(key: &str, on_lost: OnLost) -> Call {
    let policy = Policy { on_lost, ..Policy::default() };
    Call::new(id(key), Fingerprint::of_bytes(b"pay 10"), Arc::new(policy))
}

pub(crate) fn paid() -> Outcome {
    Outcome::new(201, "paid").pointer("payment", "7")
}

#[track_caller]
pub(crate) fn granted<T: Tx>(atomic: Atomic<T>) -> Guard<T> {
    match atomic {
        Atomic::Run(guard) => guard,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn refused<T: Tx>(atomic: Atomic<T>) -> (T, Refusal) {
    match atomic {
        Atomic::Refused(tx, refusal) => (tx, refusal),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn replayed<T: Tx>(atomic: Atomic<T>) -> (T, Outcome) {
    match atomic {
        Atomic::Replay(tx, record) => (tx, record.outcome.unwrap()),
        other => panic!("{other:?}"),
    }
}

/// Stamps tests that take a fresh shop, once per major.
macro_rules! on_every_major {
    ($($test:ident)*) => {
        mod v15 { $(#[tokio::test] async fn $test() {
            super::$test($crate::transact::shop::Shop::new(semel_testkit::servers::Major::V15).await).await;
        })* }
        mod v17 { $(#[tokio::test] async fn $test() {
            super::$test($crate::transact::shop::Shop::new(semel_testkit::servers::Major::V17).await).await;
        })* }
        mod v18 { $(#[tokio::test] async fn $test() {
            super::$test($crate::transact::shop::Shop::new(semel_testkit::servers::Major::V18).await).await;
        })* }
    };
}
pub(crate) use on_every_major;
