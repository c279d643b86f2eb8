//! Hints that something was appended.
//!
//! Whoever waits looks at the last position, which takes microseconds and no lock: now and then while
//! all is quiet, and often for a short time after an event was appended in this process, since its
//! commit is near then. Nothing of it happens inside a user's transaction.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use rusqlite::Connection;
use semel::{StoreError, outbox::OutboxHints};
use tokio::{sync::Notify, time::timeout};

use crate::{SqliteStore, error::Fault, queries};

/// How often the last position is looked at while nothing is known to come.
const QUIET: Duration = Duration::from_millis(20);
/// How often it is looked at when a commit is near, and how many times.
const NEAR: (Duration, u32) = (Duration::from_millis(1), 50);

/// What tells those who wait.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    /// Up to which position it was told that there is something.
    told: AtomicU64,
    /// Told to all who wait: an event was appended, or one of them saw one that is committed.
    near: Notify,
}

impl Hints {
    /// Tells that a transaction of this process has appended something, and may soon be committed.
    pub(crate) fn near(&self) {
        self.near.notify_waiters();
    }

    /// Says whether there is anything behind what was told.
    fn is_news(&self, tip: u64) -> bool {
        self.told.fetch_max(tip, Ordering::Relaxed) < tip
    }
}

#[async_trait]
impl OutboxHints for SqliteStore {
    async fn hinted(&self, wait: Duration) -> Result<bool, StoreError> {
        match timeout(wait, self.news()).await {
            Ok(news) => news.map(|()| true),
            Err(_) => Ok(false),
        }
    }
}

impl SqliteStore {
    /// Waits until something was committed that nobody was told of.
    async fn news(&self) -> Result<(), StoreError> {
        let mut often = 0;
        loop {
            let told = self.hints.told.load(Ordering::Relaxed);
            let near = self.hints.near.notified();
            if self.hints.is_news(self.tip().await?) {
                self.hints.near.notify_waiters();
                return Ok(());
            }
            let pause = if often > 0 { NEAR.0 } else { QUIET };
            often =
                if timeout(pause, near).await.is_ok() { NEAR.1 } else { often.saturating_sub(1) };
            if self.hints.told.load(Ordering::Relaxed) > told {
                return Ok(());
            }
        }
    }

    async fn tip(&self) -> Result<u64, StoreError> {
        match self.readers.glance(|conn| Ok(tip(conn)?)) {
            Some(tip) => tip,
            None => self.readers.ask(|conn| Ok(tip(conn)?)).await,
        }
    }
}

fn tip(conn: &Connection) -> Result<u64, Fault> {
    let mut statement = conn.prepare_cached(queries::OUTBOX_TIP)?;
    let tip: i64 = statement.query_row([], |row| row.get(0))?;
    Ok(u64::try_from(tip).unwrap_or_default())
}
