//! Retention of what consumers had, in bounded steps.

use std::time::Duration;

use async_trait::async_trait;
use semel::{
    StoreError, Timestamp,
    inbox::{InboxSweep, InboxSwept, store::ATTEMPTS_KEPT},
};

use super::store::LOCK_WAIT;
use crate::{SqliteStore, error::Fault, queries, queue::Lane, row, step::Step, verb::Verb};

/// How many of each kind one step touches at most.
const STEP_MAX: u32 = 5_000;

#[async_trait]
impl InboxSweep for SqliteStore {
    async fn sweep_inbox(&self, limit: u32) -> Result<InboxSwept, StoreError> {
        self.write(Lane::Later, Due(limit.clamp(1, STEP_MAX))).await
    }
}

#[derive(Debug)]
struct Due(u32);

impl Verb for Due {
    type Answer = InboxSwept;
    const LOCK_WAIT: Duration = LOCK_WAIT;

    fn run(&self, step: &mut Step<'_>) -> Result<InboxSwept, Fault> {
        let (now, limit) = (step.now(), self.0);
        let kept = u64::try_from(ATTEMPTS_KEPT.as_micros()).unwrap_or(u64::MAX);
        let stale = Timestamp::from_micros(now.as_micros().saturating_sub(kept));
        let conn = step.conn();
        let delete = |sql: &str, until: Timestamp| -> Result<u64, Fault> {
            let deleted = conn.prepare_cached(sql)?.execute((row::micros(until), limit))?;
            Ok(u64::try_from(deleted).unwrap_or(u64::MAX))
        };
        let messages = delete(queries::INBOX_SWEEP, now)?;
        let attempts = delete(queries::INBOX_SWEEP_ATTEMPTS, stale)?;
        if messages + attempts > 0 {
            step.wrote();
        }
        let more = messages >= u64::from(limit) || attempts >= u64::from(limit);
        Ok(InboxSwept { messages, attempts, more })
    }
}
