//! Retention: whole partitions are dropped, by a lock that nobody waits for long.

use std::time::Duration;

use async_trait::async_trait;
use semel::{
    StoreError,
    outbox::{OutboxRetain, store::Retained},
};

use super::{no_answer, unsigned};
use crate::{
    PostgresStore,
    error::Fault,
    link::{Step, Work},
    row,
    value::{Cells, Value},
};

#[async_trait]
impl OutboxRetain for PostgresStore {
    /// Drops at most one partition, and closes the one that is written to once it holds an eighth of
    /// `keep_for`. While a transaction that appended is open, it waits 100 ms, gives up and says so:
    /// whoever appends meanwhile waits no longer than that.
    async fn retain(&self, keep_for: Duration) -> Result<Retained, StoreError> {
        self.rest(Retain { keep_for }).await
    }
}

/// How much of what was left out one step forgets.
const TRIM_MAX: i64 = 10_000;

struct Retain {
    keep_for: Duration,
}

impl Work for Retain {
    type Done = Retained;

    async fn run(&self, step: Step<'_>) -> Result<Retained, Fault> {
        // Before the lock is taken, which others wait for.
        let trimmed = [Value::Bigint(Some(TRIM_MAX))];
        let params: Vec<_> = trimmed.iter().map(Value::param).collect();
        let rows = step.alone(&step.statements().outbox_trim_left_out, &params).await?;
        let trims_more = rows.first().ok_or_else(no_answer)?.truth(0)? == Some(true);
        let keep_for = [Value::Bigint(Some(row::span(self.keep_for)))];
        let params: Vec<_> = keep_for.iter().map(Value::param).collect();
        let mut retained = Retained::default();
        let rows = match step.alone(&step.statements().outbox_retain, &params).await {
            Ok(rows) => rows,
            Err(fault) if fault.found_locked() => {
                let why =
                    "a transaction that appended events, or reads them, has been open for long";
                retained.held_up = Some(why.into());
                retained.more = trims_more;
                return Ok(retained);
            }
            Err(fault) => return Err(fault),
        };
        let row = rows.first().ok_or_else(no_answer)?;
        retained.dropped = unsigned(row, 0)?;
        retained.more = trims_more || row.truth(1)? == Some(true);
        retained.held_up = row.text(2)?.map(Into::into);
        Ok(retained)
    }
}
