//! The same without Semel: one row, prepared statements, each in a commit of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use semel_testkit::servers::Postgres;
use tokio_postgres::{Client, NoTls, Statement};

use super::load::{self, Round};

/// Connections that callers share.
pub(crate) struct Bare {
    clients: Vec<Arc<One>>,
    serial: Arc<AtomicU64>,
}

struct One {
    client: Client,
    insert: Statement,
    update: Statement,
}

/// A table like that of the records, without what Semel adds.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS bare (
    key text PRIMARY KEY, state text NOT NULL, body bytea, at timestamptz NOT NULL DEFAULT now())";

impl Bare {
    pub(crate) async fn new(server: &Postgres, connections: usize) -> Self {
        server.run_sql(TABLE).await;
        let mut clients = Vec::new();
        for _ in 0..connections {
            let client = connect(server).await;
            let insert = "INSERT INTO bare (key, state) VALUES ($1, 'running')";
            let update = "UPDATE bare SET state = 'done', body = $2 WHERE key = $1";
            let insert = client.prepare(insert).await.unwrap();
            let update = client.prepare(update).await.unwrap();
            clients.push(Arc::new(One { client, insert, update }));
        }
        let first = server.run_sql("SELECT count(*) FROM bare").await.parse().unwrap();
        Self { clients, serial: Arc::new(AtomicU64::new(first)) }
    }

    /// Inserts a row and updates it.
    pub(crate) async fn commits(&self, span: Duration, callers: usize) -> Round {
        let (clients, serial) = (self.clients.clone(), Arc::clone(&self.serial));
        let once = move |caller: usize| {
            let one = Arc::clone(&clients[caller % clients.len()]);
            let key = key(serial.fetch_add(1, Ordering::Relaxed));
            async move {
                let body: &[u8] = &[b'x'; 260];
                one.client.execute(&one.insert, &[&key]).await.unwrap();
                assert_eq!(one.client.execute(&one.update, &[&key, &body]).await.unwrap(), 1);
            }
        };
        load::callers(callers, span, once).await
    }

    /// Reads the outcomes of the first records of a schema by their primary keys.
    pub(crate) async fn reads(
        &self,
        schema: &str,
        span: Duration,
        callers: usize,
        kept: u32,
    ) -> Round {
        let select = format!(
            "SELECT state, outcome FROM {schema}.record WHERE tenant = 'acme'
             AND operation = 'payments.create' AND key = $1 AND facet = ''"
        );
        let mut readers = Vec::new();
        for one in &self.clients {
            readers.push((Arc::clone(one), one.client.prepare(&select).await.unwrap()));
        }
        let next = Arc::new(AtomicU64::new(0));
        let once = move |caller: usize| {
            let (one, select) = readers[caller % readers.len()].clone();
            let serial = next.fetch_add(1, Ordering::Relaxed) % u64::from(kept) + 1;
            async move {
                let key = load::id(serial).key;
                let row = one.client.query_one(&select, &[&key.as_str()]).await.unwrap();
                assert!(row.get::<_, Vec<u8>>(1).len() > 200);
            }
        };
        load::callers(callers, span, once).await
    }
}

fn key(serial: u64) -> String {
    format!("{:016x}-{serial}", serial.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

async fn connect(server: &Postgres) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
