//! Semel on Redis and Valkey: fast, shared, and honest about durability.
//!
//! Needs Redis 7 or Valkey; tested on Redis 7, Redis 8 and Valkey 9, alone, with Sentinel, and as a cluster.
//!
//! ```no_run
//! # async fn open() -> Result<(), semel::StoreError> {
//! use semel_redis::RedisStore;
//!
//! let store = RedisStore::builder("rediss://app:secret@redis.internal/0").open().await?;
//! # drop(store);
//! # Ok(())
//! # }
//! ```
//!
//! Every verb is one script, which runs whole or not at all. Where what is stored admits one step only, it takes it:
//! a claim of an intent of which nothing is stored, the end or the renewal of a run by its own permit. Anything else
//! it tells, `semel::decide` decides, and a second script writes that if nothing has changed since: the decision is
//! made in one place for all stores. What the same process saw ended lately is read by plain commands, which cost the
//! server less, and replayed if that is what they say; with anything else the claim begins at the script.
//!
//! It differs from its neighbours in what it cannot do: there is no caller's transaction to join, and what survives
//! a failover is for the server's settings to say. A server that may lose what it acknowledges is refused unless
//! that was [accepted](RedisBuilder::accept_volatile).

mod address;
mod audit;
mod builder;
mod connect;
mod ended;
mod error;
mod hints;
mod inspect;
mod link;
mod moving;
mod page;
mod row;
mod scripts;
mod settings;
mod space;
mod store;
mod sweep;
mod verb;
mod wait;

use std::sync::atomic::{AtomicBool, AtomicUsize};

use semel::store::capability::Durability;

pub use self::builder::RedisBuilder;
use self::{ended::Ended, hints::Hints, link::Link, scripts::Scripts};

/// Keeps records in Redis or Valkey.
///
/// Dropping the store closes its connections.
#[derive(Debug)]
pub struct RedisStore {
    audit_max: u32,
    body_max: usize,
    durability: Durability,
    /// What is likely to be replayed; nothing, where a replay must go by the script.
    ended: Option<Ended>,
    hints: Hints,
    link: Link,
    scripts: Scripts,
    /// Where the sweep goes on, and whether it is in the midst of what was due.
    swept: AtomicUsize,
    is_sweeping: AtomicBool,
}

impl RedisStore {
    /// Begins to open a store by a URL.
    ///
    /// | URL | leads to |
    /// |---|---|
    /// | `redis://user:password@host:6379/0` | one server |
    /// | `redis://a,b` | the first of them that is a primary |
    /// | `redis://s1:26379,s2:26379,s3:26379/0?sentinel=NAME` | the primary that the sentinels name |
    /// | `redis://a,b,c?cluster=true` | a cluster, by some of its nodes |
    /// | `rediss://…` | the same, by TLS |
    pub fn builder(url: &str) -> RedisBuilder {
        RedisBuilder::of_url(url)
    }
}
