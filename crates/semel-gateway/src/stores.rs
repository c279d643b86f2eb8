//! Which store a URL means: the one file that names drivers.

use std::{fmt, sync::Arc};

use semel::{
    Store, StoreError, StoreErrorKind,
    store::{
        capability::{Inspect, Sweep},
        memory::MemoryStore,
    },
};
use semel_sqlite::SqliteStore;

use crate::config::StoreUrl;

/// An open store, with the powers the gateway uses.
#[derive(Clone)]
pub struct Opened {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its sweep.
    pub sweep: Arc<dyn Sweep>,
    /// Its reads for operators.
    pub inspect: Arc<dyn Inspect>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Opened {
    fn of<S: Store + Sweep + Inspect>(store: S) -> Self {
        let store = Arc::new(store);
        Self {
            store: Arc::clone(&store) as Arc<dyn Store>,
            sweep: Arc::clone(&store) as Arc<dyn Sweep>,
            inspect: store,
        }
    }
}

/// Opens the store a URL means.
///
/// # Errors
///
/// Fails with a [`StoreError`] whose message says what to do.
pub fn open(url: &StoreUrl) -> Result<Opened, StoreError> {
    match url {
        StoreUrl::Memory => Ok(Opened::of(MemoryStore::new())),
        StoreUrl::Sqlite(path) => Ok(Opened::of(SqliteStore::builder(path).open()?)),
    }
}

/// Opens a store that is there and has the schema of this version: an operator's slip must not make
/// an empty one, nor migrate one that a gateway uses.
///
/// # Errors
///
/// Fails with a [`StoreError`] whose message says what to do.
pub fn open_existing(url: &StoreUrl) -> Result<Opened, StoreError> {
    match url {
        StoreUrl::Memory => Err(StoreError::new(
            StoreErrorKind::Invalid,
            "the store memory: lives in the gateway's process alone",
        )),
        StoreUrl::Sqlite(path) => {
            SqliteStore::schema_version(path)?;
            Ok(Opened::of(SqliteStore::builder(path).migrate(false).open()?))
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
}

/// Reads the schema of a store, and changes nothing.
///
/// # Errors
///
/// Fails with a [`StoreError`] whose message says what to do.
pub fn schema(url: &StoreUrl) -> Result<Schema, StoreError> {
    let current = SqliteStore::schema_current();
    match url {
        StoreUrl::Memory => Ok(Schema { found: current, current }),
        StoreUrl::Sqlite(path) => Ok(Schema { found: SqliteStore::schema_version(path)?, current }),
    }
}

/// Brings a store to the schema of this version, making it if it is missing.
///
/// # Errors
///
/// Fails with a [`StoreError`] whose message says what to do.
pub fn migrate(url: &StoreUrl) -> Result<Schema, StoreError> {
    let current = SqliteStore::schema_current();
    match url {
        StoreUrl::Memory => Ok(Schema { found: current, current }),
        StoreUrl::Sqlite(path) => Ok(Schema { found: SqliteStore::migrate(path)?, current }),
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}
