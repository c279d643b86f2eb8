//! The ledger of the payments API: a table in an SQLite file of its own, one row a charge.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rusqlite::{Connection, params};

const CREATE: &str = include_str!("../../sql/ledger/create.sql");
const CHARGE: &str = include_str!("../../sql/ledger/charge.sql");
const CHARGE_ONCE: &str = include_str!("../../sql/ledger/charge_once.sql");
const FIND_KEY: &str = include_str!("../../sql/ledger/find_key.sql");
const COUNT: &str = include_str!("../../sql/ledger/count.sql");

/// The charges. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Ledger(Arc<Mutex<Connection>>);

/// What the ledger says of one intent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Charges {
    /// How often it was charged.
    pub(crate) count: u64,
    /// The number of its first charge.
    pub(crate) first: i64,
}

impl Ledger {
    pub(crate) fn open(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.execute(CREATE, [])?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    /// Charges, whatever was charged before, and returns the number of the charge.
    pub(super) fn charge(&self, intent: &str, amount: &str) -> rusqlite::Result<i64> {
        self.lock().query_row(CHARGE, params![intent, amount], |row| row.get(0))
    }

    /// Charges unless the key was charged before, and returns the number of its one charge.
    pub(super) fn charge_once(
        &self,
        intent: &str,
        amount: &str,
        key: &str,
    ) -> rusqlite::Result<i64> {
        let connection = self.lock();
        connection.execute(CHARGE_ONCE, params![intent, amount, key])?;
        connection.query_row(FIND_KEY, params![key], |row| row.get(0))
    }

    /// Counts the charges of every intent.
    pub(crate) fn counts(&self) -> rusqlite::Result<BTreeMap<String, Charges>> {
        let connection = self.lock();
        let mut statement = connection.prepare(COUNT)?;
        let rows = statement.query_map([], |row| {
            let count: i64 = row.get(1)?;
            let count = u64::try_from(count).unwrap_or_default();
            Ok((row.get(0)?, Charges { count, first: row.get(2)? }))
        })?;
        rows.collect()
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
