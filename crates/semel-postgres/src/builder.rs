//! How a store is opened.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use semel::{StoreError, StoreErrorKind};
use tokio::sync::Semaphore;
use tokio_postgres::Config;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Lanes, PostgresStore,
    address::{Address, TlsFiles},
    connect::{Connection, Connector},
    error::{Fault, damaged, forbidden, invalid},
    link::Links,
    lock::LockSecret,
    migrate,
    outbox::hints,
    queries::Statements,
    roles, row,
    schema::Schema,
    transact,
    value::Cells,
};

/// Opens a [`PostgresStore`].
#[derive(Clone)]
#[must_use]
pub struct PostgresBuilder {
    server: Server,
    schema: Box<str>,
    authority: Option<PathBuf>,
    settings: Settings,
    migrate: bool,
}

/// What a store keeps to while it is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) answer_wait: Duration,
    pub(crate) audit_max: u32,
    pub(crate) batch_max: usize,
    pub(crate) body_max: usize,
    pub(crate) connections: usize,
    pub(crate) outbox_flushed: bool,
    pub(crate) outbox_listen: bool,
    pub(crate) prepared: bool,
    pub(crate) queue_max: usize,
    pub(crate) sweep_rest: u32,
}

#[derive(Clone)]
enum Server {
    Config(Box<Config>),
    Url(Box<str>),
}

impl PostgresBuilder {
    pub(crate) fn of_url(url: &str) -> Self {
        Self::of(Server::Url(url.into()))
    }

    pub(crate) fn of_config(config: Config) -> Self {
        Self::of(Server::Config(Box::new(config)))
    }

    fn of(server: Server) -> Self {
        Self {
            server,
            schema: "semel".into(),
            authority: None,
            settings: Settings {
                answer_wait: Duration::from_secs(10),
                audit_max: 100_000,
                batch_max: 128,
                body_max: 16 * 1024 * 1024,
                connections: 6,
                outbox_flushed: false,
                outbox_listen: false,
                prepared: false,
                queue_max: 4_096,
                sweep_rest: 4,
            },
            migrate: true,
        }
    }

    /// Sets how long the server may take to answer a statement. A connection that takes longer is
    /// dropped and its callers are told that nobody knows; they ask again by the same token. 10 s by
    /// default.
    pub const fn answer_wait(mut self, wait: Duration) -> Self {
        self.settings.answer_wait = wait;
        self
    }

    /// Sets how many audit rows are kept; the oldest go first. 100,000 by default.
    pub const fn audit_max(mut self, rows: u32) -> Self {
        self.settings.audit_max = rows;
        self
    }

    /// Sets the file of certificate authorities, in PEM, that the server's certificate is checked
    /// against; as `sslrootcert` in the URL.
    pub fn authority(mut self, file: impl Into<PathBuf>) -> Self {
        self.authority = Some(file.into());
        self
    }

    /// Sets how many verbs share one statement at most: each takes a lock of the server's shared
    /// table. 128 by default.
    pub const fn batch_max(mut self, verbs: usize) -> Self {
        self.settings.batch_max = verbs;
        self
    }

    /// Sets the largest outcome body that is kept, in bytes. 16 MiB by default.
    pub const fn body_max(mut self, bytes: usize) -> Self {
        self.settings.body_max = bytes;
        self
    }

    /// Sets how many connections the store opens at most: 1 suffices for few callers. 6 by default.
    pub const fn connections(mut self, connections: usize) -> Self {
        self.settings.connections = connections;
        self
    }

    /// Sets whether opening makes the schema or migrates an older one. Yes by default; the role needs
    /// the right to for that.
    pub const fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// Sets whether events leave only once some standby has flushed their transactions, so that none was
    /// ever told of what a promotion then loses. Without a standby that is connected nothing leaves. The
    /// owner of the schema must be a member of `pg_read_all_stats`. No by default.
    pub const fn outbox_flushed(mut self, flushed: bool) -> Self {
        self.settings.outbox_flushed = flushed;
        self
    }

    /// Sets whether commits of events are told between processes by `LISTEN` and `NOTIFY`, so that a
    /// relay in another process need not wait until it polls: on a connection of its own, and never inside
    /// the transactions of an application. Not behind a pooler in transaction mode. No by default: a relay
    /// in the same process hears of [runs](crate::transact::Transact::run) anyway, and polling finds
    /// everything.
    pub const fn outbox_listen(mut self, listen: bool) -> Self {
        self.settings.outbox_listen = listen;
        self
    }

    /// Sets whether statements are prepared under names, which saves the server the work of planning.
    /// No by default: behind a pooler in transaction mode, another client's statement of the same
    /// name could run.
    pub const fn prepared(mut self, prepared: bool) -> Self {
        self.settings.prepared = prepared;
        self
    }

    /// Sets how many verbs may wait for each connection; past it callers are told that the store is
    /// busy. 4,096 by default.
    pub const fn queue_max(mut self, verbs: usize) -> Self {
        self.settings.queue_max = verbs;
        self
    }

    /// Sets the name of the schema: lower-case letters, digits and `_`. `semel` by default.
    pub fn schema(mut self, name: impl Into<Box<str>>) -> Self {
        self.schema = name.into();
        self
    }

    /// Checks what can be checked without a server: the URL, the schema's name, the files of TLS.
    ///
    /// # Errors
    ///
    /// Fails with an error whose sentence says what is wrong, and shows no secret.
    pub fn check(&self) -> Result<(), StoreError> {
        Schema::new(&self.schema)?;
        self.connector().map(drop)
    }

    /// Sets how many times as long as a statement of the sweep took it rests before the next. More is
    /// easier on everybody else; 0 drops the most. By default 4: about two thousand records a second.
    pub const fn sweep_rest(mut self, times: u32) -> Self {
        self.settings.sweep_rest = times;
        self
    }

    /// Connects, and makes or migrates the schema if it is told to. Must be called inside a Tokio
    /// runtime, whose tasks then do the store's work.
    ///
    /// # Errors
    ///
    /// Fails with an error whose kind and sentence say what to do about a server that is away or can
    /// only be read, and a schema that is missing or of another version.
    pub async fn open(self) -> Result<PostgresStore, StoreError> {
        let settings = self.settings;
        let counts = [settings.batch_max, settings.connections, settings.queue_max];
        if counts.contains(&0) || settings.answer_wait.is_zero() {
            return Err(invalid(
                "answer_wait, batch_max, connections and queue_max must be at least 1",
            ));
        }
        let mut opened = self.connected().await?;
        if self.migrate {
            opened.migrate().await?;
        }
        let secret = opened.admitted().await?;
        if !opened.connection.durable {
            tracing::warn!(
                "the server does not flush: what it acknowledges is lost in a power cut"
            );
        }
        let Opened { connector, connection, statements, .. } = opened;
        let links = Arc::new(Links::new(connector, statements, secret, settings, connection));
        let tasks = TaskTracker::new();
        let lanes = Lanes::start(&links, &tasks);
        let waiters = transact::waiters(&tasks);
        let (hints, ended) = (Arc::default(), CancellationToken::new());
        if settings.outbox_listen {
            hints::start(&links, &hints, &tasks, &ended);
        }
        Ok(PostgresStore {
            hints,
            lanes,
            _listening: ended.drop_guard(),
            links,
            passes: Arc::default(),
            rest: Arc::new(Semaphore::new(1)),
            tasks,
            waiters,
        })
    }

    pub(crate) async fn version(&self) -> Result<u32, StoreError> {
        let opened = self.connected().await?;
        Ok(migrate::version(&opened.connection.client, &opened.statements).await?)
    }

    pub(crate) async fn lacks(&self) -> Result<Vec<Box<str>>, StoreError> {
        let opened = self.connected().await?;
        Ok(migrate::lacks(&opened.connection.client, &opened.statements).await?)
    }

    pub(crate) async fn migrated(&self) -> Result<u32, StoreError> {
        self.connected().await?.migrate().await
    }

    pub(crate) async fn granted(&self) -> Result<(), StoreError> {
        let opened = self.connected().await?;
        roles::grant(&opened.connection.client, &opened.schema).await
    }

    /// Connects once, to a schema of this version.
    pub(crate) async fn alone(&self) -> Result<(Connection, Arc<Statements>), StoreError> {
        let opened = self.connected().await?;
        opened.admitted().await?;
        Ok((opened.connection, opened.statements))
    }

    async fn connected(&self) -> Result<Opened, StoreError> {
        let schema = Schema::new(&self.schema)?;
        let statements = Arc::new(Statements::new(&schema));
        let connector = Arc::new(self.connector()?);
        let connection = connector.connect(&statements).await?;
        Ok(Opened { connector, connection, schema, statements })
    }

    fn connector(&self) -> Result<Connector, StoreError> {
        let files = TlsFiles { authority: self.authority.clone(), ..TlsFiles::default() };
        let address = match &self.server {
            Server::Config(config) => Address::of((**config).clone(), files)?,
            Server::Url(url) => {
                let mut address = Address::read(url)?;
                address.files.authority = self.authority.clone().or(address.files.authority);
                address
            }
        };
        Connector::new(address, TaskTracker::new())
    }
}

/// The connection that opens the store.
struct Opened {
    connector: Arc<Connector>,
    connection: Connection,
    schema: Schema,
    statements: Arc<Statements>,
}

impl Opened {
    async fn migrate(&mut self) -> Result<u32, StoreError> {
        let client = &mut self.connection.client;
        let migrated = migrate::migrate(client, &self.schema, &self.statements).await;
        let before = migrated.map_err(|fault| {
            let message = "the role may not make or change the schema; run semel migrate as its owner, \
                           or as a role that may create schemas in this database";
            forbidden(fault, message)
        })?;
        if before > migrate::current() {
            let (oldest, _) = meta(&self.connection.client, &self.statements).await?;
            migrate::admit(before, oldest)?;
        }
        Ok(before)
    }

    /// Refuses a schema that this version cannot work with; else returns the secret of its locks.
    async fn admitted(&self) -> Result<LockSecret, StoreError> {
        let client = &self.connection.client;
        let version = migrate::version(client, &self.statements).await?;
        if version == 0 {
            let message = "the database has no schema of Semel; run semel migrate";
            return Err(StoreError::new(StoreErrorKind::Version, message));
        }
        let (oldest, secret) = meta(client, &self.statements).await?;
        migrate::admit(version, oldest)?;
        Ok(secret)
    }
}

/// Reads the oldest version that the schema bears, and the secret of its locks.
pub(crate) async fn meta(
    client: &tokio_postgres::Client,
    statements: &Statements,
) -> Result<(u32, LockSecret), Fault> {
    let rows = client.query_typed(&statements.meta_read, &[]).await?;
    let missing = || damaged("the row of semel.meta is missing; restore a backup");
    let row = rows.first().ok_or_else(missing)?;
    let oldest = row::count(row, 0)?.and_then(|oldest| u32::try_from(oldest).ok());
    let secret = row.bytes(1)?.and_then(|secret| secret.try_into().ok());
    Ok((oldest.ok_or_else(missing)?, LockSecret::new(secret.ok_or_else(missing)?)))
}

impl fmt::Debug for PostgresBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresBuilder")
            .field("schema", &self.schema)
            .field("migrate", &self.migrate)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
