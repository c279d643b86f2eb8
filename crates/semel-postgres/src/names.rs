//! The names of a batch, as the arrays that its statement takes.

use semel::IntentId;
use tokio_postgres::types::{ToSql, Type};

use crate::{lock::LockSecret, row};

/// A name and its lock.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) id: IntentId,
    pub(crate) lock: i64,
}

impl Named {
    pub(crate) fn new(id: IntentId, secret: &LockSecret) -> Self {
        let lock = secret.lock_of(&id);
        Self { id, lock }
    }
}

/// A parameter and its type.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// The names of a batch, column by column.
#[derive(Debug, Default)]
pub(crate) struct Names<'a> {
    tenants: Vec<&'a str>,
    operations: Vec<&'a str>,
    keys: Vec<&'a str>,
    facets: Vec<&'a [u8]>,
    locks: Vec<i64>,
}

impl<'a> Names<'a> {
    pub(crate) fn of(names: impl IntoIterator<Item = &'a Named>) -> Self {
        let mut all = Self::default();
        for named in names {
            all.push(&named.id);
            all.locks.push(named.lock);
        }
        all
    }

    pub(crate) fn of_ids(ids: impl IntoIterator<Item = &'a IntentId>) -> Self {
        let mut all = Self::default();
        ids.into_iter().for_each(|id| all.push(id));
        all
    }

    fn push(&mut self, id: &'a IntentId) {
        self.tenants.push(id.scope.tenant.as_str());
        self.operations.push(id.scope.operation.as_str());
        self.keys.push(id.key.as_str());
        self.facets.push(row::facet(id));
    }

    /// The four columns of the name.
    pub(crate) fn params(&self) -> [Param<'_>; 4] {
        [texts(&self.tenants), texts(&self.operations), texts(&self.keys), bytes(&self.facets)]
    }

    pub(crate) fn locks(&self) -> Param<'_> {
        numbers(&self.locks)
    }
}

pub(crate) fn texts<T: ToSql + Sync>(column: &Vec<T>) -> Param<'_> {
    (column, Type::TEXT_ARRAY)
}

pub(crate) fn bytes<T: ToSql + Sync>(column: &Vec<T>) -> Param<'_> {
    (column, Type::BYTEA_ARRAY)
}

pub(crate) fn numbers(column: &Vec<i64>) -> Param<'_> {
    (column, Type::INT8_ARRAY)
}

/// What PostgreSQL keeps of a text that tells and does not name: it has no zero character.
pub(crate) fn told(text: &str) -> Box<str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}
