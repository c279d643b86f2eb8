//! The application's tables on PostgreSQL.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use semel::outbox::EventId;
use semel_testkit::Deliveries;
use tokio::time::timeout;
use tokio_postgres::{Client, Error, NoTls};

use super::{Ends, Write, Wrote, payload};
use crate::stack::StackError;

const TABLES: &str = "CREATE TABLE drill_aggregate (id text PRIMARY KEY, version bigint NOT NULL);
    CREATE TABLE drill_effect (event uuid PRIMARY KEY, intent bigint NOT NULL);";
const ONE_EACH: &str = "CREATE UNIQUE INDEX drill_effect_intent ON drill_effect (intent);";
/// The aggregate is written first, and so locked: the next one's number is drawn after this one's commit.
const NEXT: &str = "INSERT INTO drill_aggregate VALUES ($1, 1)
    ON CONFLICT (id) DO UPDATE SET version = drill_aggregate.version + 1 RETURNING version";
const EFFECT: &str = "INSERT INTO drill_effect VALUES ($1::text::uuid, $2) ON CONFLICT DO NOTHING";
const PUBLISH: &str = "SELECT semel.publish($1, $2, 'Done', $3, id => $4::text::uuid,
    aggregate_version => $5)";
/// Waits for the end of every transaction that has written an effect, also of one whose commit waits for
/// a standby, and so is not to be seen yet.
const ALL_ENDED: &str = "LOCK TABLE drill_effect IN SHARE MODE";
const ROWS: &str = "SELECT intent, event::text FROM drill_effect";
/// How long the last transaction may take until it has ended.
const READ_WAIT: Duration = Duration::from_secs(60);
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// The books on a server.
#[derive(Debug)]
pub(super) struct PostgresBooks {
    url: String,
    idle: Mutex<Vec<Client>>,
}

impl PostgresBooks {
    pub(super) const fn new(url: String) -> Self {
        Self { url, idle: Mutex::new(Vec::new()) }
    }

    pub(super) async fn prepare(&self, one_each: bool) -> Result<(), StackError> {
        let client = self.connected().await.map_err(|error| stuck(&error))?;
        let index = if one_each { ONE_EACH } else { "" };
        client.batch_execute(&format!("{TABLES}{index}")).await.map_err(|error| stuck(&error))
    }

    pub(super) async fn write(
        &self,
        write: &Write,
        deliveries: &Deliveries,
        patience: Duration,
    ) -> Wrote {
        let commits = AtomicBool::new(false);
        let written = async {
            let mut client = self.connected().await?;
            let wrote = once(&mut client, write, deliveries, &commits).await?;
            // Only one whose transaction came to its end is used again.
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(client);
            Ok::<_, Error>(wrote)
        };
        match timeout(patience, written).await {
            Ok(Ok(wrote)) => wrote,
            Ok(Err(_)) | Err(_) if commits.load(Ordering::SeqCst) => Wrote::Unknown,
            Ok(Err(_)) | Err(_) => Wrote::Nothing,
        }
    }

    /// Reads every effect with its event.
    pub(super) async fn rows(&self) -> Result<Vec<(u64, EventId)>, StackError> {
        let rows = async {
            let mut client = self.connected().await?;
            let transaction = client.transaction().await?;
            transaction.batch_execute(ALL_ENDED).await?;
            let rows = transaction.query(ROWS, &[]).await?;
            transaction.commit().await?;
            Ok::<_, Error>(rows)
        };
        let read = timeout(READ_WAIT, rows).await;
        let late = |_| StackError::Stuck("the application's transactions never end".to_owned());
        let rows = read.map_err(late)?.map_err(|error| stuck(&error))?;
        let read = rows.iter().filter_map(|row| {
            let intent = u64::try_from(row.get::<_, i64>(0)).ok()?;
            Some((intent, row.get::<_, &str>(1).parse().ok()?))
        });
        Ok(read.collect())
    }

    /// Takes a connection that nobody uses.
    fn kept(&self) -> Option<Client> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|client| !client.is_closed());
        idle.pop()
    }

    async fn connected(&self) -> Result<Client, Error> {
        if let Some(client) = self.kept() {
            return Ok(client);
        }
        let mut config: tokio_postgres::Config = self.url.parse()?;
        let (client, connection) = config.connect_timeout(CONNECT_WAIT).connect(NoTls).await?;
        // It ends with its client, and what is not committed is undone.
        tokio::spawn(connection);
        Ok(client)
    }
}

async fn once(
    client: &mut Client,
    write: &Write,
    deliveries: &Deliveries,
    commits: &AtomicBool,
) -> Result<Wrote, Error> {
    let (lane, event) = (&write.lane, write.event.to_string());
    let transaction = client.transaction().await?;
    let version: i64 = transaction.query_one(NEXT, &[&lane.id()]).await?.get(0);
    let number = u64::try_from(version).unwrap_or_default();
    let intent = i64::try_from(write.intent).unwrap_or(i64::MAX);
    if transaction.execute(EFFECT, &[&event, &intent]).await? == 0 {
        transaction.rollback().await?;
        return Ok(Wrote::Known);
    }
    deliveries.appended(write.event, lane, number);
    let payload = payload(write.intent, number).into_bytes();
    transaction.execute(PUBLISH, &[&lane.kind(), &lane.id(), &payload, &event, &version]).await?;
    if write.ends == Ends::RolledBack {
        transaction.rollback().await?;
        return Ok(Wrote::Nothing);
    }
    commits.store(true, Ordering::SeqCst);
    transaction.commit().await?;
    Ok(Wrote::Committed)
}

fn stuck(error: &Error) -> StackError {
    StackError::Stuck(format!("the application's database: {error}"))
}
