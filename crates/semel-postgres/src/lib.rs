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
mod address;
mod bridge;
mod builder;
mod connect;
mod error;
pub mod inbox;
mod inspect;
mod lane;
mod link;
mod lock;
mod locked;
mod migrate;
mod moving;
mod names;
mod outbox;
mod prepared;
mod queries;
mod roles;
mod row;
mod schema;
mod store;
mod sweep;
mod tls;
pub mod transact;
mod value;
mod verb;

use std::sync::Arc;

use semel::{StoreError, engine::waiter::Waiters};
use tokio::sync::Semaphore;
use tokio_util::{sync::DropGuard, task::TaskTracker};

pub use self::{
    builder::PostgresBuilder,
    outbox::{ImportOutbox, ImportSlot, ImportState, Imported, SlotOutbox},
    prepared::PreparedTransaction,
};
use self::{
    error::ended,
    lane::Lane,
    link::{Links, Work},
    outbox::{Hints, Passes},
    verb::{Claim, Complete, Look, Note, Read, Release, Renewal, Resolve},
};

/// Keeps records in a schema of a PostgreSQL database.
///
/// Dropping the store finishes what it was asked for, and closes its connections.
#[derive(Debug)]
pub struct PostgresStore {
    hints: Arc<Hints>,
    lanes: Lanes,
    /// Ends those who listen for hints.
    _listening: DropGuard,
    links: Arc<Links>,
    /// Passes of the outbox that are being read.
    passes: Arc<Passes>,
    /// One at a time of what may take long.
    rest: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Those who wait for transactions, in this process.
    waiters: Waiters,
}

/// Where verbs wait: each kind for itself, so that no claim waits behind a sweep.
#[derive(Debug)]
struct Lanes {
    claims: Lane<Claim>,
    ends: Lane<Complete>,
    looks: Lane<Look>,
    notes: Lane<Note>,
    reads: Arc<Lane<Read>>,
    releases: Lane<Release>,
    renewals: Lane<Renewal>,
    resolutions: Lane<Resolve>,
}

impl Lanes {
    /// Starts them: a third of the connections can be busy with claims, and a third with ends.
    fn start(links: &Arc<Links>, tasks: &TaskTracker) -> Self {
        let third = (links.settings.connections / 3).max(1);
        Self {
            claims: Lane::start(third, links, tasks),
            ends: Lane::start(third, links, tasks),
            looks: Lane::start(1, links, tasks),
            notes: Lane::start(1, links, tasks),
            reads: Arc::new(Lane::start(1, links, tasks)),
            releases: Lane::start(1, links, tasks),
            renewals: Lane::start(1, links, tasks),
            resolutions: Lane::start(1, links, tasks),
        }
    }
}

impl PostgresStore {
    /// Begins to open a store at a URL as libpq knows it, such as `postgres://user@host/database`.
    ///
    /// Several hosts may be named, such as a primary and its standbys; the first that can be written
    /// to is used, and kept to as long as it can be. Where its commits wait for standbys, one must
    /// answer before a host is used: a primary that was cut off from them is passed over. Of the options, `sslmode` may be `disable`, `prefer`, `require` or `verify-full`;
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

    /// Names what the database's schema lacks of what its migrations have made and its promises rest on,
    /// such as a primary key that somebody dropped; nothing if all is there.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached, or has no such schema.
    pub async fn schema_lacks(builder: &PostgresBuilder) -> Result<Vec<Box<str>>, StoreError> {
        builder.lacks().await
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

    /// Makes the roles `semel_app`, `semel_reader` and `semel_store` if they are missing, and grants
    /// them the least that applications, people and stores need of this schema.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached, the schema is missing, or the role that connects may
    /// not make roles or does not own the schema.
    pub async fn grant_roles(builder: &PostgresBuilder) -> Result<(), StoreError> {
        builder.granted().await
    }

    /// Returns the statements of [`PostgresStore::grant_roles`], for somebody else to look at or run.
    ///
    /// # Errors
    ///
    /// Refuses a name that is none of a schema.
    pub fn roles_sql(schema: &str) -> Result<Box<str>, StoreError> {
        Ok(roles::text(&schema::Schema::new(schema)?))
    }

    /// Does something that neither is a verb nor takes long, in a task of the store, so that dropping the
    /// future leaves no connection in the middle of it.
    async fn soon<W: Work + 'static>(&self, work: W) -> Result<W::Done, StoreError> {
        let links = Arc::clone(&self.links);
        let done = self.tasks.spawn(async move { links.run(&work).await });
        done.await.unwrap_or_else(|_| Err(ended()))
    }

    /// As [`soon`](Self::soon), for what may take long: one at a time.
    async fn rest<W: Work + 'static>(&self, work: W) -> Result<W::Done, StoreError> {
        let links = Arc::clone(&self.links);
        // Before the task: then what is asked after a future was dropped comes after what it began.
        let turn = Arc::clone(&self.rest).acquire_owned().await;
        let done = self.tasks.spawn(async move {
            let _turn = turn;
            links.run(&work).await
        });
        done.await.unwrap_or_else(|_| Err(ended()))
    }
}
