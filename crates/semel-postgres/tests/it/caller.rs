//! An application that speaks SQL and knows nothing of Semel but its functions.

use futures_util::SinkExt;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::fixture::Fixture;

/// One connection, and a table of payments that stands for what the application is there for.
pub(crate) struct Caller {
    pub(crate) client: Client,
    fixture: Fixture,
}

/// A row, all columns as text.
pub(crate) type Cells = Vec<Option<String>>;

impl Caller {
    pub(crate) async fn new(fixture: &Fixture) -> Self {
        let caller = Self::of(fixture).await;
        caller.ok("CREATE TABLE IF NOT EXISTS semel.payments (amount int)").await;
        caller
    }

    /// Connects, to a schema that has all it needs.
    pub(crate) async fn of(fixture: &Fixture) -> Self {
        Self { client: fixture.connect().await, fixture: fixture.clone() }
    }

    /// Says statements, as a driver does that sends text, and returns the rows of all of them, or the
    /// SQLSTATE of the first that fails.
    pub(crate) async fn say(&self, statements: &str) -> Result<Vec<Cells>, String> {
        let said = self.client.simple_query(&self.fixture.sql(statements)).await;
        let said = said.map_err(|error| match error.code() {
            Some(code) => code.code().to_owned(),
            None => panic!("{statements}: {error}"),
        })?;
        let rows = said.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
            }
            _ => None,
        });
        Ok(rows.collect())
    }

    /// Says statements that must succeed.
    pub(crate) async fn ok(&self, statements: &str) -> Vec<Cells> {
        match self.say(statements).await {
            Ok(rows) => rows,
            Err(code) => panic!("{statements}: {code}"),
        }
    }

    /// Says statements that must fail, and returns the SQLSTATE.
    pub(crate) async fn err(&self, statements: &str) -> String {
        match self.say(statements).await {
            Ok(rows) => panic!("{statements}: {rows:?}"),
            Err(code) => code,
        }
    }

    /// Returns the first cell of the last row; empty for NULL.
    pub(crate) async fn cell(&self, statements: &str) -> String {
        let rows = self.ok(statements).await;
        rows.last().expect("a row").first().cloned().flatten().unwrap_or_default()
    }

    /// Begins a transaction with a claim that is granted, and returns the permit.
    pub(crate) async fn begin(&self, key: &str) -> String {
        self.ok("BEGIN").await;
        self.claim(key).await
    }

    /// Claims in the transaction that is open, and returns the permit.
    pub(crate) async fn claim(&self, key: &str) -> String {
        let permit = self.cell(&format!("SELECT permit FROM {}", claim(key))).await;
        assert!(permit.starts_with("1."), "{key} is not granted");
        permit
    }

    /// Copies payments in, and returns how many.
    pub(crate) async fn copy_payments(&self, lines: &'static str) -> u64 {
        let copy = self.fixture.sql("COPY semel.payments FROM STDIN");
        let sink = self.client.copy_in(&copy).await.unwrap();
        let mut sink = std::pin::pin!(sink);
        sink.send(bytes::Bytes::from_static(lines.as_bytes())).await.unwrap();
        sink.finish().await.unwrap()
    }

    /// Returns how many payments were made and committed.
    pub(crate) async fn payments(&self) -> String {
        self.cell("SELECT count(*) FROM semel.payments").await
    }
}

/// The claim of a key, to stand behind FROM.
pub(crate) fn claim(key: &str) -> String {
    format!("semel.claim('acme', 'payments.create', '{key}', 'pay 10')")
}

/// The completion of what a permit holds.
pub(crate) fn complete(permit: &str) -> String {
    format!("SELECT semel.complete('{permit}', 'acme', 'payments.create', 201)")
}

/// The mutation that all of this is about.
pub(crate) const PAY: &str = "INSERT INTO semel.payments VALUES (10)";
