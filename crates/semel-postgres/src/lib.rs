//! Semel on PostgreSQL: key, mutation and outcome in one transaction.
//!
//! Needs PostgreSQL 13 or later; tested on 15, 17 and 18. Everything lies in one schema of the
//! application's database, `semel` by default. The store has connections of its own, a handful; it
//! keeps nothing in a session, so that it works behind a pooler in transaction mode.
//!
//! ```no_run
//! # async fn open() -> Result<(), semel::StoreError> {
//! use semel_postgres::PostgresStore;
//!
//! let url = "postgres://app@db-1,db-2/shop?sslmode=verify-full";
//! let store = PostgresStore::builder(url).open().await?;
//! # drop(store);
//! # Ok(())
//! # }
//! ```

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")
)]
#![allow(dead_code, reason = "the verbs come next")]

mod address;
mod builder;
mod connect;
mod error;
mod lock;
mod migrate;
mod queries;
mod row;
mod schema;
mod tls;
pub mod transact;
mod value;

use std::sync::Arc;

use semel::StoreError;

pub use self::builder::PostgresBuilder;
use self::{connect::Connector, lock::LockSecret, queries::Statements};

/// Keeps records in a schema of a PostgreSQL database.
///
/// Dropping the store finishes what it was asked for, and closes its connections.
#[derive(Debug)]
pub struct PostgresStore {
    connector: Arc<Connector>,
    statements: Arc<Statements>,
    secret: LockSecret,
    body_max: usize,
}

impl PostgresStore {
    /// Begins to open a store at a URL as libpq knows it, such as `postgres://user@host/database`.
    ///
    /// Several hosts may be named, such as a primary and its standbys; the first that can be written
    /// to is used. Of the options, `sslmode` may be `disable`, `prefer`, `require` or `verify-full`;
    /// the last two check the certificate against `sslrootcert`, or the well-known authorities.
    pub fn builder(url: impl AsRef<str>) -> PostgresBuilder {
        PostgresBuilder::of_url(url.as_ref())
    }

    /// Begins to open a store with a configuration of the driver.
    pub fn builder_with(config: tokio_postgres::Config) -> PostgresBuilder {
        PostgresBuilder::of_config(config)
    }

    /// The schema that this version of the crate works with.
    #[must_use]
    pub fn schema_current() -> u32 {
        migrate::current()
    }

    /// Says which schema the database has, without making or changing it; 0 if it has none.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached, or has a schema that a known migration does not account
    /// for.
    pub async fn schema_version(builder: &PostgresBuilder) -> Result<u32, StoreError> {
        builder.version().await
    }

    /// Migrates the database to the schema of this version, making it if it is missing, and returns
    /// the schema it had before. Any number of processes may do so at once, and others may work
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached, or the role may not make or change the schema.
    pub async fn migrate(builder: &PostgresBuilder) -> Result<u32, StoreError> {
        builder.migrated().await
    }
}
