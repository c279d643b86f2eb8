//! Which store a URL means: the one file that names drivers.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use semel::{
    Outcome, Store, StoreError, StoreErrorKind, Timestamp,
    inbox::{InboxInspect, store::InboxSweep},
    outbox::{OutboxHints, OutboxInspect, OutboxRetain, OutboxStore},
    store::{
        capability::{Bridge, Durability, Inspect, Notify, Sweep, SweepBudget, Swept},
        memory::MemoryStore,
        moving::Move,
    },
};
pub use semel_postgres::{ImportOutbox, ImportSlot, ImportState, Imported};
use semel_postgres::{PostgresBuilder, PostgresStore};
use semel_redis::{RedisBuilder, RedisStore};
use semel_sqlite::SqliteStore;

use crate::{
    config::{PostgresUrl, RedisUrl, StoreUrl},
    settings::{PostgresSettings, RedisSettings, StatedDurability, StoreSettings},
};

/// An open store, with the powers the gateway uses.
#[derive(Clone)]
pub struct Opened {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its sweep.
    pub sweep: Arc<dyn Sweep>,
    /// Its reads for operators.
    pub inspect: Arc<dyn Inspect>,
    /// How records are taken out of it and into it.
    pub mover: Arc<dyn Move>,
    /// How it tells that an application ended a run by itself, if it can.
    pub bridge: Option<Arc<dyn Bridge>>,
    /// How it hints at runs that end in other processes, if it does.
    pub notify: Option<Arc<dyn Notify>>,
    /// Its outbox, if it has one.
    pub outbox: Option<OutboxPowers>,
    /// The reads and words for operators of its inbox, if it has one.
    pub inbox: Option<Arc<dyn InboxInspect>>,
}

/// What the gateway uses of an outbox.
#[derive(Clone)]
pub struct OutboxPowers {
    /// What a relay needs.
    pub store: Arc<dyn OutboxStore>,
    /// How old events are dropped.
    pub retain: Arc<dyn OutboxRetain>,
    /// Its reads and words for operators.
    pub inspect: Arc<dyn OutboxInspect>,
    /// How it tells that something was appended, if it can.
    pub hints: Option<Arc<dyn OutboxHints>>,
    /// What a relay needs that takes the order of commits from replication slots, if it has any.
    pub by_slots: Option<Arc<dyn OutboxStore>>,
}

impl fmt::Debug for OutboxPowers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxPowers").field("store", &self.store).finish_non_exhaustive()
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("store", &self.store).finish_non_exhaustive()
    }
}

impl OutboxPowers {
    fn of<S>(store: &Arc<S>) -> Self
    where
        S: OutboxStore + OutboxRetain + OutboxInspect + OutboxHints,
    {
        Self {
            store: Arc::clone(store) as Arc<dyn OutboxStore>,
            retain: Arc::clone(store) as Arc<dyn OutboxRetain>,
            inspect: Arc::clone(store) as Arc<dyn OutboxInspect>,
            hints: Some(Arc::clone(store) as Arc<dyn OutboxHints>),
            by_slots: None,
        }
    }
}

impl Opened {
    fn of<S: Store + Sweep + Inspect + Move>(store: &Arc<S>) -> Self {
        Self {
            store: Arc::clone(store) as Arc<dyn Store>,
            sweep: Arc::clone(store) as Arc<dyn Sweep>,
            inspect: Arc::clone(store) as Arc<dyn Inspect>,
            mover: Arc::clone(store) as Arc<dyn Move>,
            bridge: None,
            notify: None,
            outbox: None,
            inbox: None,
        }
    }

    fn memory(store: MemoryStore) -> Self {
        let store = Arc::new(store);
        let bridge = Arc::clone(&store) as Arc<dyn Bridge>;
        Self { bridge: Some(bridge), ..Self::of(&store) }
    }

    fn postgres(store: PostgresStore) -> Self {
        let store = Arc::new(store);
        let bridge = Arc::clone(&store) as Arc<dyn Bridge>;
        let by_slots: Arc<dyn OutboxStore> = Arc::new(Arc::clone(&store).outbox_by_slots());
        let outbox = Some(OutboxPowers { by_slots: Some(by_slots), ..OutboxPowers::of(&store) });
        let inbox = Some(Arc::clone(&store) as Arc<dyn InboxInspect>);
        let sweep = Whole::of(&store);
        Self { bridge: Some(bridge), outbox, inbox, sweep, ..Self::of(&store) }
    }

    fn redis(store: RedisStore) -> Self {
        let store = Arc::new(store);
        let notify = Arc::clone(&store) as Arc<dyn Notify>;
        Self { notify: Some(notify), ..Self::of(&store) }
    }

    fn sqlite(store: SqliteStore) -> Self {
        let store = Arc::new(store);
        let outbox = Some(OutboxPowers::of(&store));
        let inbox = Some(Arc::clone(&store) as Arc<dyn InboxInspect>);
        Self { outbox, inbox, sweep: Whole::of(&store), ..Self::of(&store) }
    }
}

/// Sweeps records, and what consumers need no longer remember.
struct Whole<S>(Arc<S>);

impl<S: Sweep + InboxSweep> Whole<S> {
    fn of(store: &Arc<S>) -> Arc<dyn Sweep> {
        Arc::new(Self(Arc::clone(store)))
    }
}

#[async_trait]
impl<S: Sweep + InboxSweep> Sweep for Whole<S> {
    async fn sweep(&self, budget: SweepBudget) -> Result<Swept, StoreError> {
        let records = self.0.sweep(budget).await?;
        let messages = self.0.sweep_inbox(budget.records).await?;
        Ok(Swept {
            forgotten: records.forgotten,
            deleted: records.deleted + messages.messages,
            more: records.more || messages.more,
        })
    }
}

/// Opens the store that the settings mean.
///
/// # Errors
///
/// Fails with a [`StoreError`] whose message says what to do.
pub async fn open(settings: &StoreSettings) -> Result<Opened, StoreError> {
    match &settings.url {
        StoreUrl::Memory => Ok(Opened::memory(MemoryStore::new())),
        StoreUrl::Postgres(url) => {
            let builder = postgres(url, &settings.postgres);
            // Only where there is something to do: a role of few rights may not even look for it.
            let due =
                PostgresStore::schema_version(&builder).await? < PostgresStore::schema_current();
            let builder = builder.migrate(due && settings.postgres.migrate);
            Ok(Opened::postgres(builder.open().await?))
        }
        StoreUrl::Redis(url) => Ok(Opened::redis(redis(url, &settings.redis)?.open().await?)),
        StoreUrl::Sqlite(path) => Ok(Opened::sqlite(SqliteStore::builder(path).open()?)),
    }
}

/// Opens a store that is there and has the schema of this version: an operator's slip must not make
/// an empty one, nor migrate one that a gateway uses.
///
/// # Errors
///
/// Fails with a [`StoreError`] whose message says what to do.
pub async fn open_existing(settings: &StoreSettings) -> Result<Opened, StoreError> {
    match &settings.url {
        StoreUrl::Memory => Err(StoreError::new(
            StoreErrorKind::Invalid,
            "the store memory: lives in the gateway's process alone",
        )),
        StoreUrl::Postgres(url) => {
            let builder = postgres(url, &settings.postgres).connections(1).migrate(false);
            Ok(Opened::postgres(builder.open().await?))
        }
        // It has no schema to be made: each record says its own version.
        StoreUrl::Redis(_) => open(settings).await,
        StoreUrl::Sqlite(path) => {
            SqliteStore::schema_version(path)?;
            Ok(Opened::sqlite(SqliteStore::builder(path).migrate(false).open()?))
        }
    }
}

/// The schema of a store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Schema {
    /// The one it has, or had before it was migrated; 0 for none.
    pub found: u32,
    /// The one that this version works with.
    pub current: u32,
    /// Whether this version works with the one that is there.
    pub fits: bool,
}

impl Schema {
    const fn of(found: u32, current: u32) -> Self {
        Self { found, current, fits: found == current }
    }

    /// Says whether a migration is due.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        self.found < self.current
    }
}

/// Reads the schema of a store, and changes nothing.
///
/// # Errors
///
/// Fails with a [`StoreError`] whose message says what to do.
pub async fn schema(settings: &StoreSettings) -> Result<Schema, StoreError> {
    match &settings.url {
        StoreUrl::Memory | StoreUrl::Redis(_) => Ok(without_schema()),
        StoreUrl::Postgres(url) => {
            let builder = postgres(url, &settings.postgres);
            let found = PostgresStore::schema_version(&builder).await?;
            let mut schema = Schema::of(found, PostgresStore::schema_current());
            if found > schema.current {
                // A newer version says itself whom its schema bears.
                schema.fits = match builder.migrate(false).open().await {
                    Ok(_) => true,
                    Err(error) if error.kind() == StoreErrorKind::Version => false,
                    Err(error) => return Err(error),
                };
            }
            Ok(schema)
        }
        StoreUrl::Sqlite(path) => {
            let found = SqliteStore::schema_version(path)?;
            Ok(Schema::of(found, SqliteStore::schema_current()))
        }
    }
}

/// Names what a store's schema lacks that its promises rest on, such as a key that somebody dropped. It is
/// asked of a store that has the schema of this version.
///
/// # Errors
///
/// Fails with a [`StoreError`] whose message says what to do.
pub async fn schema_lacks(settings: &StoreSettings) -> Result<Vec<Box<str>>, StoreError> {
    match &settings.url {
        StoreUrl::Postgres(url) => {
            PostgresStore::schema_lacks(&postgres(url, &settings.postgres)).await
        }
        StoreUrl::Memory | StoreUrl::Redis(_) | StoreUrl::Sqlite(_) => Ok(Vec::new()),
    }
}

/// Brings a store to the schema of this version, making it if it is missing.
///
/// # Errors
///
/// Fails with a [`StoreError`] whose message says what to do.
pub async fn migrate(settings: &StoreSettings) -> Result<Schema, StoreError> {
    match &settings.url {
        StoreUrl::Memory | StoreUrl::Redis(_) => Ok(without_schema()),
        StoreUrl::Postgres(url) => {
            let found = PostgresStore::migrate(&postgres(url, &settings.postgres)).await?;
            Ok(migrated(found, PostgresStore::schema_current()))
        }
        StoreUrl::Sqlite(path) => {
            let found = SqliteStore::migrate(path)?;
            Ok(migrated(found, SqliteStore::schema_current()))
        }
    }
}

/// A transaction that was prepared and neither committed nor rolled back: what it holds is in progress.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Prepared {
    /// Its name: what `COMMIT PREPARED` and `ROLLBACK PREPARED` take.
    pub name: Box<str>,
    /// The role that prepared it.
    pub owner: Box<str>,
    /// When it was prepared.
    pub at: Timestamp,
    /// The store's time.
    pub now: Timestamp,
}

/// Lists prepared transactions that can hold keys, oldest first; none where a store knows no such thing.
///
/// # Errors
///
/// Fails with a [`StoreError`] whose message says what to do.
pub async fn prepared(settings: &StoreSettings) -> Result<Vec<Prepared>, StoreError> {
    let StoreUrl::Postgres(url) = &settings.url else { return Ok(Vec::new()) };
    let store = postgres(url, &settings.postgres).connections(1).migrate(false).open().await?;
    let now = Store::read(&store, Vec::new()).await?.now;
    let listed = store.prepared_transactions().await?;
    let told = listed.into_iter().map(|one| Prepared {
        name: one.name,
        owner: one.owner,
        at: one.prepared_at,
        now,
    });
    Ok(told.collect())
}

/// Makes the roles of a store, and grants each the least that it needs.
///
/// # Errors
///
/// Fails with a [`StoreError`] whose message says what to do; a store without a server has no roles.
pub async fn grant_roles(settings: &StoreSettings) -> Result<(), StoreError> {
    match &settings.url {
        StoreUrl::Postgres(url) => {
            PostgresStore::grant_roles(&postgres(url, &settings.postgres)).await
        }
        StoreUrl::Memory | StoreUrl::Redis(_) | StoreUrl::Sqlite(_) => Err(no_roles()),
    }
}

/// Returns the statements that do so, for somebody else to look at or run.
///
/// # Errors
///
/// Fails with a [`StoreError`] whose message says what to do; a store without a server has no roles.
pub fn roles_sql(settings: &StoreSettings) -> Result<Box<str>, StoreError> {
    match &settings.url {
        StoreUrl::Postgres(_) => PostgresStore::roles_sql(&settings.postgres.schema),
        StoreUrl::Memory | StoreUrl::Redis(_) | StoreUrl::Sqlite(_) => Err(no_roles()),
    }
}

/// Takes over a table of another outbox.
///
/// # Errors
///
/// Fails with a [`StoreError`] whose message says what to do; only PostgreSQL can.
pub async fn import_outbox(
    settings: &StoreSettings,
    import: &ImportOutbox,
) -> Result<Imported, StoreError> {
    PostgresStore::import_outbox(&importing(settings)?, import).await
}

/// Says how far the take-over of a table is.
///
/// # Errors
///
/// Fails with a [`StoreError`] whose message says what to do; only PostgreSQL can.
pub async fn outbox_import(
    settings: &StoreSettings,
    table: &str,
    slot: Option<&str>,
) -> Result<ImportState, StoreError> {
    PostgresStore::outbox_import(&importing(settings)?, table, slot).await
}

/// Ends the take-over of a table, and says whether there was one.
///
/// # Errors
///
/// Fails with a [`StoreError`] whose message says what to do; only PostgreSQL can.
pub async fn end_outbox_import(settings: &StoreSettings, table: &str) -> Result<bool, StoreError> {
    PostgresStore::end_outbox_import(&importing(settings)?, table).await
}

fn importing(settings: &StoreSettings) -> Result<PostgresBuilder, StoreError> {
    match &settings.url {
        StoreUrl::Postgres(url) => Ok(postgres(url, &settings.postgres)),
        StoreUrl::Memory | StoreUrl::Redis(_) | StoreUrl::Sqlite(_) => Err(StoreError::new(
            StoreErrorKind::Invalid,
            "only a store in PostgreSQL takes over a table that Debezium reads",
        )),
    }
}

fn no_roles() -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, "only a store in PostgreSQL has roles")
}

/// Checks what can be checked of a store without asking it.
///
/// # Errors
///
/// Fails with a [`StoreError`] whose message says what is wrong, and shows no secret.
pub fn check(settings: &StoreSettings) -> Result<(), StoreError> {
    match &settings.url {
        StoreUrl::Postgres(url) => postgres(url, &settings.postgres).check(),
        StoreUrl::Redis(url) => redis(url, &settings.redis)?.check(),
        StoreUrl::Memory | StoreUrl::Sqlite(_) => Ok(()),
    }
}

const fn without_schema() -> Schema {
    Schema { found: 1, current: 1, fits: true }
}

const fn migrated(found: u32, current: u32) -> Schema {
    Schema { found, current, fits: true }
}

fn postgres(url: &PostgresUrl, settings: &PostgresSettings) -> PostgresBuilder {
    let url = match &settings.password {
        Some(password) => with_password(url.expose(), password.expose()),
        None => url.expose().to_owned(),
    };
    let builder = PostgresStore::builder(url)
        .schema(settings.schema.as_str())
        .connections(settings.connections)
        .prepared(settings.prepared)
        .outbox_flushed(settings.flushed)
        .outbox_listen(settings.listen);
    match &settings.ca {
        Some(file) => builder.authority(file),
        None => builder,
    }
}

fn redis(url: &RedisUrl, settings: &RedisSettings) -> Result<RedisBuilder, StoreError> {
    let mut builder = RedisStore::builder(url.expose())
        .prefix(settings.prefix.as_str())
        .accept_volatile(settings.accept_volatile)
        // What an operation may keep is for its own setting to say.
        .body_max(Outcome::BODY_MAX)
        .wait_replicas(settings.wait_replicas)
        .wait_flushed(settings.wait_flushed)
        .wait_replicas_flushed(settings.wait_replicas_flushed)
        .wait_for(settings.wait_for);
    if let Some(stated) = settings.stated {
        builder = builder.stated(match stated {
            StatedDurability::Durable => Durability::Durable,
            StatedDurability::Volatile => Durability::Volatile,
        });
    }
    if let Some(password) = &settings.password {
        let password = std::str::from_utf8(password.expose()).map_err(|_| {
            StoreError::new(StoreErrorKind::Invalid, "the password of Redis is not UTF-8")
        })?;
        builder = builder.password(password);
    }
    if let Some(file) = &settings.ca {
        builder = builder.authority(file);
    }
    if let Some((certificate, key)) = &settings.client {
        builder = builder.identity(certificate, key);
    }
    Ok(builder)
}

/// Adds a password to a URL that holds none, every byte of it encoded.
fn with_password(url: &str, password: &[u8]) -> String {
    use fmt::Write;
    let mut whole = format!("{url}{}password=", if url.contains('?') { '&' } else { '?' });
    for byte in password {
        write!(whole, "%{byte:02X}").expect("a string can be written to");
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_added_as_an_option() {
        assert_eq!(
            with_password("postgres://u@h/d", b"a&b"),
            "postgres://u@h/d?password=%61%26%62"
        );
        assert_eq!(with_password("postgres://h/d?x=1", b"p"), "postgres://h/d?x=1&password=%70");
    }
}
