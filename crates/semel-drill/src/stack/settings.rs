//! What a drill of the whole stack is made of.

use std::{path::PathBuf, time::Duration};

use clap::ValueEnum;
use semel_testkit::servers::{Disk, Major};
use serde::Serialize;

use super::{redis::RedisSetup, trouble::Trouble};
use crate::plan::written;

/// Where the gateways keep their records.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Store {
    /// One PostgreSQL server of its own.
    Postgres,
    /// One Redis or Valkey server of its own.
    Redis,
    /// Six of them as a cluster.
    RedisCluster,
    /// Three of them, watched by Sentinels.
    RedisSentinel,
    /// One SQLite file.
    Sqlite,
}

impl Store {
    /// Says whether it is Redis or Valkey.
    #[must_use]
    pub const fn is_redis(self) -> bool {
        matches!(self, Self::Redis | Self::RedisCluster | Self::RedisSentinel)
    }

    /// Says whether it replaces a primary that is away by itself.
    pub(super) const fn has_replicas(self) -> bool {
        matches!(self, Self::RedisCluster | Self::RedisSentinel)
    }
}

/// What the next caller meets when a holder was lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum OnLost {
    /// Nobody runs it again by guess.
    Hold,
    /// It is sent again, with the same key.
    Rerun,
}

impl OnLost {
    /// Returns the word of the configuration.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Rerun => "rerun",
        }
    }
}

/// What the upstream makes of a key that it has seen.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Upstream {
    /// It honours the key: one effect, and the first answer again.
    Keyed,
    /// It acts whenever it is asked.
    Naive,
}

/// How long new intents are begun.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Until {
    /// Until there are so many.
    Intents(u64),
    /// For so long.
    Time(Duration),
}

/// Everything that a drill is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program whose hidden command `gateway` is the gateway under drill.
    pub program: PathBuf,
    /// Where the records are kept.
    pub store: Store,
    /// The major of PostgreSQL.
    pub major: Major,
    /// How Redis is set up.
    pub redis: RedisSetup,
    /// How many gateways share the store.
    pub gateways: usize,
    /// What happens when a holder was lost.
    pub on_lost: OnLost,
    /// What the upstream makes of a key.
    pub upstream: Upstream,
    /// Whether the upstream always answers at once.
    pub calm_upstream: bool,
    /// How long new intents are begun.
    pub until: Until,
    /// How many clients keep asking.
    pub clients: usize,
    /// Where everything that is drawn comes from.
    pub seed: u64,
    /// What is made to go wrong.
    pub trouble: Vec<Trouble>,
    /// Whether each effect is written with an event, which the gateways relay to a receiver.
    pub events: bool,
    /// Whether the receiver says of some events that it has them, and has not: they are lost, so that the
    /// verdict can be seen to fail.
    pub forgetful_receiver: bool,
    /// Whether a standby lags behind: on PostgreSQL no commit waits for it, and a failover loses what was
    /// acknowledged, so that the verdict can be seen to fail; on Redis, replicas are cut off shortly before
    /// their primary dies.
    pub lagging_standby: bool,
    /// How long each hand pauses between two troubles, on average.
    pub every: Duration,
    /// The lease of the operations.
    pub lease: Duration,
    /// Where everything lies, and stays; otherwise a temporary folder.
    pub folder: Option<PathBuf>,
}

impl Settings {
    /// How long the upstream may take; also for how long a lost holder may still be sending.
    #[must_use]
    pub fn answer_wait(&self) -> Duration {
        self.lease * 2
    }

    /// How long one event may take on its way.
    #[must_use]
    pub fn event_wait(&self) -> Duration {
        self.lease / 4
    }

    /// Says whether a trouble was asked for.
    #[must_use]
    pub fn has(&self, trouble: Trouble) -> bool {
        self.trouble.contains(&trouble)
    }

    /// Says what cannot be had here.
    ///
    /// # Errors
    ///
    /// Fails with the one sentence that says why not.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=MOST_GATEWAYS).contains(&self.gateways) {
            return Err(format!("there can be 1 to {MOST_GATEWAYS} gateways"));
        }
        if self.clients == 0 {
            return Err("nobody asks without clients".to_owned());
        }
        if self.until == Until::Intents(0) {
            return Err("without intents nothing is tried: ask for at least one".to_owned());
        }
        self.check_lease()?;
        if self.has(Trouble::Failover) && matches!(self.store, Store::Redis | Store::Sqlite) {
            return Err("one file or one Redis has nobody to fail over to".to_owned());
        }
        if self.has(Trouble::Failover) && self.has(Trouble::Power) {
            return Err(
                "a standby has no disk of its own: drill failover and power apart".to_owned()
            );
        }
        if self.store.has_replicas() && (self.has(Trouble::Power) || self.has(Trouble::Skew)) {
            return Err("only a single Redis has a disk and a clock of its own".to_owned());
        }
        if self.store.is_redis() && self.events {
            return Err(
                "events are written in the transaction of their effect, and Redis has none"
                    .to_owned(),
            );
        }
        self.redis.check(self.store)?;
        if self.forgetful_receiver && !self.events {
            return Err("a receiver is there only with events".to_owned());
        }
        if self.lagging_standby && !self.has(Trouble::Failover) {
            return Err("a standby is there only with the trouble failover".to_owned());
        }
        if self.has(Trouble::Skew) {
            super::skew::library()?;
        }
        if self.has(Trouble::Power) {
            Disk::usable()?;
        }
        if self.store == Store::Postgres {
            self.major.folder()?;
        }
        Ok(())
    }

    /// What was lost must be decided within the run: its end waits for leases.
    fn check_lease(&self) -> Result<(), String> {
        if self.lease > LEASE_MAX {
            return Err(format!(
                "a lease of {} cannot be waited out: it is at most {}",
                written(self.lease),
                written(LEASE_MAX)
            ));
        }
        match self.until {
            Until::Time(time) if time < self.lease => Err(format!(
                "a run of {} ends before a lease of {} does, and nothing that is lost would be decided \
                 in it: a longer run or a shorter lease",
                written(time),
                written(self.lease)
            )),
            _ => Ok(()),
        }
    }
}

/// The end of a run waits for a few of them, and not for ever.
const LEASE_MAX: Duration = Duration::from_secs(8);

/// Who was asked is kept as bits of one word.
const MOST_GATEWAYS: usize = 16;
