//! Which store a URL means: the one file that names drivers.

use std::{fmt, path::Path, sync::Arc};

use semel::{
    Store, StoreError,
    store::{
        capability::{Inspect, Sweep},
        memory::MemoryStore,
    },
};

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
        StoreUrl::Sqlite(path) => sqlite(path),
    }
}

fn sqlite(_path: &Path) -> Result<Opened, StoreError> {
    Err(StoreError::new(semel::StoreErrorKind::Unavailable, "this build has no SQLite store"))
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}
