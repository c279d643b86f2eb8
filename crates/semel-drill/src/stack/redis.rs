//! A store in Redis or Valkey: how its servers are set up and used, and what they may lose.

use std::{fmt::Write as _, time::Duration};

use clap::ValueEnum;
use semel_gateway::settings::RedisSettings;
use semel_testkit::servers::RedisKind;
use serde::Serialize;

use super::{settings::Store, trouble::Trouble};

/// What a server that flushes every second may lose in a power cut: while a flush takes longer than a second,
/// it waits another one.
const UNFLUSHED: Duration = Duration::from_secs(2);

/// When a server flushes what it was told.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Flush {
    /// Before it answers.
    Always,
    /// Every second.
    Everysec,
}

impl Flush {
    /// Returns the word of the server's settings.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Everysec => "everysec",
        }
    }
}

/// How the servers are set up, and what is waited for.
#[derive(Clone, Copy, Debug)]
pub struct RedisSetup {
    /// Which program serves.
    pub kind: RedisKind,
    /// When a server flushes what it was told.
    pub flush: Flush,
    /// How many replicas must have a write before it is answered; by default one, where a server can be
    /// replaced.
    pub wait_replicas: Option<u32>,
    /// Whether nothing is answered before the server's own disk has it.
    pub wait_flushed: bool,
}

impl Default for RedisSetup {
    fn default() -> Self {
        Self {
            kind: RedisKind::Valkey9,
            flush: Flush::Always,
            wait_replicas: None,
            wait_flushed: false,
        }
    }
}

impl RedisSetup {
    /// Says what cannot be had.
    pub(super) fn check(&self, store: Store) -> Result<(), String> {
        let most = match store {
            Store::RedisSentinel => 2,
            Store::RedisCluster => 1,
            Store::Redis => 0,
            Store::Postgres | Store::Sqlite => return Ok(()),
        };
        if self.waited(store) > most {
            return Err(match most {
                0 => "a single server has no replicas that could be waited for".to_owned(),
                most => format!("a primary has no more than {most} here that could be waited for"),
            });
        }
        if self.wait_flushed && self.kind == RedisKind::Redis7 {
            return Err(
                "Redis 7.0 cannot wait for its disk: ask for redis-8 or valkey-9".to_owned()
            );
        }
        self.kind.program().map(drop)
    }

    /// How many replicas are waited for.
    fn waited(&self, store: Store) -> u32 {
        self.wait_replicas.unwrap_or_else(|| u32::from(store.has_replicas()))
    }

    /// When the servers may lose what they acknowledged, and how long before what happens then: nothing, unless
    /// their settings say so.
    pub(super) fn losses(&self, store: Store) -> Losses {
        let mut losses = Vec::new();
        if !store.is_redis() {
            return Losses(losses);
        }
        // The word of Valkey about its disk is not taken.
        let is_waited = self.wait_flushed && self.kind != RedisKind::Valkey9;
        if self.flush == Flush::Everysec && !is_waited {
            losses.push((Trouble::Power, UNFLUSHED));
        }
        if store.has_replicas() && self.waited(store) == 0 {
            // Whoever was away for long enough was replaced, and may have answered somebody since.
            let replaced = [Trouble::Failover, Trouble::Restart, Trouble::Stop];
            losses.extend(replaced.map(|trouble| (trouble, Duration::ZERO)));
        }
        Losses(losses)
    }

    fn is_volatile(&self, store: Store) -> bool {
        self.losses(store).can_happen()
    }

    /// How the store uses its servers.
    pub(super) fn used(&self, store: Store) -> RedisSettings {
        RedisSettings {
            accept_volatile: self.is_volatile(store),
            wait_replicas: self.waited(store),
            wait_flushed: self.wait_flushed,
            wait_for: WAIT_FOR,
            ..RedisSettings::default()
        }
    }

    /// The same, for the configuration of a gateway.
    pub(super) fn section(&self, store: Store) -> String {
        let mut text = String::new();
        if store.is_redis() {
            let RedisSettings { accept_volatile, wait_replicas, wait_flushed, .. } =
                self.used(store);
            let wait_for = WAIT_FOR.as_millis();
            write!(
                text,
                "\n[redis]\naccept_volatile = {accept_volatile}\nwait_replicas = {wait_replicas}\n\
                 wait_flushed = {wait_flushed}\nwait_for = \"{wait_for}ms\"\n"
            )
            .expect("a string grows");
        }
        text
    }

    /// Says whether operations that need a durable store are served.
    pub(super) fn is_durable(&self, store: Store) -> bool {
        !self.is_volatile(store)
    }

    /// The same, for the figures.
    pub(super) fn figures(&self, store: Store) -> Option<RedisFigures> {
        let server = match self.kind {
            RedisKind::Redis7 => "redis-7",
            RedisKind::Redis8 => "redis-8",
            RedisKind::Valkey9 => "valkey-9",
        };
        store.is_redis().then(|| RedisFigures {
            server,
            appendfsync: self.flush,
            wait_replicas: self.waited(store),
            wait_flushed: self.wait_flushed,
        })
    }
}

/// How long replicas and disks may take: a flush that is done every second may take two.
const WAIT_FOR: Duration = Duration::from_secs(3);

/// How the servers of a run were set up.
#[derive(Clone, Debug, Serialize)]
pub struct RedisFigures {
    /// Which program served.
    pub server: &'static str,
    /// When it flushed what it was told.
    pub appendfsync: Flush,
    /// How many replicas were waited for.
    pub wait_replicas: u32,
    /// Whether the server's own disk was.
    pub wait_flushed: bool,
}

/// When what was acknowledged may be lost by what is said of the store, and how long before.
#[derive(Clone, Debug)]
pub(super) struct Losses(pub(super) Vec<(Trouble, Duration)>);

impl Losses {
    /// Says whether anything may be lost at all.
    pub(super) const fn can_happen(&self) -> bool {
        !self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(store: Store, flush: Flush, waits: (u32, bool), loses: &[Trouble]) {
        check_of(RedisKind::Redis8, store, flush, waits, loses);
    }

    fn check_of(
        kind: RedisKind,
        store: Store,
        flush: Flush,
        waits: (u32, bool),
        loses: &[Trouble],
    ) {
        let (wait_replicas, wait_flushed) = (Some(waits.0), waits.1);
        let setup = RedisSetup { kind, flush, wait_replicas, wait_flushed };
        let losses = setup.losses(store).0;
        let losses: Vec<_> = losses.into_iter().map(|(trouble, _)| trouble).collect();
        assert_eq!(losses, loses, "{setup:?}");
        assert_eq!(setup.is_durable(store), loses.is_empty());
    }

    #[test]
    fn only_what_the_settings_say_may_be_lost() {
        let replaced = [Trouble::Failover, Trouble::Restart, Trouble::Stop];
        check(Store::Redis, Flush::Always, (0, false), &[]);
        check(Store::Redis, Flush::Everysec, (0, false), &[Trouble::Power]);
        check(Store::Redis, Flush::Everysec, (0, true), &[]);
        check_of(RedisKind::Valkey9, Store::Redis, Flush::Everysec, (0, true), &[Trouble::Power]);
        check(Store::RedisSentinel, Flush::Always, (0, false), &replaced);
        check(Store::RedisCluster, Flush::Always, (1, false), &[]);
        check(Store::RedisCluster, Flush::Everysec, (1, false), &[Trouble::Power]);
        check(Store::Sqlite, Flush::Everysec, (0, false), &[]);
    }
}
