//! The gateway on PostgreSQL: real servers, processes that share one database, applications that
//! complete in transactions of their own.

mod bridge;
mod example;
mod inbox;
mod migrating;
mod roles;
mod serving;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use semel_gateway::{
    config::StoreUrl,
    settings::{PostgresSettings, StoreSettings},
    stores,
};
use semel_testkit::servers::{Major, Postgres};
use tokio_postgres::{Client, NoTls};

use crate::{child::Process, upstream::Upstream};

/// The operation that most tests protect.
const PAY: &str = "[[operation]]\nname = \"pay\"\npath = \"/pay\"\n";

/// A schema of a test's own, and a folder for the configuration of its gateways.
#[derive(Clone, Debug)]
struct Place {
    server: &'static Postgres,
    url: String,
    schema: String,
    folder: Arc<tempfile::TempDir>,
}

impl Place {
    /// Names a schema that is not made yet.
    async fn bare() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let server = Postgres::shared(Major::V18).await;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            server,
            url: server.url(),
            schema: format!("gateway_{}_{number}", std::process::id()),
            folder: Arc::new(tempfile::tempdir().unwrap()),
        }
    }

    /// Makes the schema, and beside it the table of an application.
    async fn new() -> Self {
        Self::bare().await.made().await
    }

    async fn made(self) -> Self {
        stores::migrate(&self.settings()).await.unwrap();
        let table = "CREATE TABLE semel.payment (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, \
                     key text NOT NULL)";
        self.connect().await.batch_execute(&self.sql(table)).await.unwrap();
        self
    }

    /// The same place, as another role sees it.
    fn as_role(&self, role: &str) -> Self {
        self.at(&self.url.replace("postgres@", &format!("{role}@")))
    }

    /// The same place, by another way.
    fn at(&self, url: &str) -> Self {
        Self { url: url.to_owned(), ..self.clone() }
    }

    fn settings(&self) -> StoreSettings {
        let postgres =
            PostgresSettings { schema: self.schema.clone(), ..PostgresSettings::default() };
        let url = StoreUrl::parse(&self.url, Path::new("")).unwrap();
        StoreSettings { postgres, ..url.into() }
    }

    /// Writes the configuration of gateways before an upstream.
    fn configure(&self, upstream: &Upstream, bridged: bool, operations: &str) {
        let text = format!(
            "store = \"{}\"\nreplay_auth = \"none\"\n[postgres]\nschema = \"{}\"\n\
             [tenant]\nsource = \"single_tenant\"\n\
             [[upstream]]\nname = \"app\"\nurl = \"{}\"\nbridged = {bridged}\n{operations}",
            self.url,
            self.schema,
            upstream.url()
        );
        std::fs::write(self.path().join("semel.toml"), text).unwrap();
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    async fn serve(&self) -> Process {
        Process::start(self.path()).await
    }

    /// Puts the schema's name in.
    fn sql(&self, text: &str) -> String {
        text.replace("semel.", &format!("\"{}\".", self.schema))
    }

    /// Connects as an application does.
    async fn connect(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Counts the payments, and the keys that they were made for.
    async fn payments(&self) -> (i64, i64) {
        let text = self.sql("SELECT count(*), count(DISTINCT key) FROM semel.payment");
        let row = self.connect().await.query_one(&text, &[]).await.unwrap();
        (row.get(0), row.get(1))
    }

    /// Makes the store's time move by hand from now on.
    async fn move_time_by_hand(&self) {
        let made = "CREATE SEQUENCE semel.moved MINVALUE 0 START 0;
            CREATE OR REPLACE FUNCTION semel.now_us() RETURNS bigint
            LANGUAGE sql VOLATILE PARALLEL SAFE
            AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
                + last_value FROM semel.moved $$;";
        self.connect().await.batch_execute(&self.sql(made)).await.unwrap();
    }

    /// Moves the store's time on.
    async fn advance(&self, client: &Client, seconds: i64) {
        let text =
            self.sql("SELECT setval('semel.moved', (SELECT last_value + $1 FROM semel.moved))");
        client.execute(&text, &[&(seconds * 1_000_000)]).await.unwrap();
    }
}
