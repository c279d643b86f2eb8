//! Retention: drops what is no longer asked for, in bounded steps that nobody waits for.

use std::time::Duration;

use async_trait::async_trait;
use semel::{
    Clock, StoreError,
    store::capability::{Sweep, SweepBudget, Swept},
};

use crate::{
    PostgresStore,
    error::Fault,
    link::{Step, Work},
    row,
    value::{self, Cells, Value},
};

/// How many bytes of outcomes one step drops at most: each must be found and marked.
const BYTES_MAX: i64 = 16 * 1024 * 1024;

/// How many records one statement touches at most: each takes a lock of the server's shared table, and
/// what else the server has to do waits for its processors and its disk meanwhile.
const RECORDS_MAX: u32 = 25;

/// How long at most the sweep rests before the next statement: a busy service must not make more than
/// its sweep can drop.
const REST_MAX: Duration = Duration::from_millis(100);

#[async_trait]
impl Sweep for PostgresStore {
    /// Does what the budget allows in small statements, and rests after each, so that others hardly
    /// notice: the sweep has time.
    async fn sweep(&self, budget: SweepBudget) -> Result<Swept, StoreError> {
        let (mut all, mut left) = (Swept::default(), budget.records.max(1));
        loop {
            let records = left.min(RECORDS_MAX);
            let (swept, took) = self.rest(Due { records }).await?;
            all.forgotten += swept.forgotten;
            all.deleted += swept.deleted;
            all.more = swept.more;
            left -= records;
            if !swept.more {
                return Ok(all);
            }
            tokio::time::sleep(took.saturating_mul(self.links.settings.sweep_rest).min(REST_MAX))
                .await;
            if left == 0 {
                return Ok(all);
            }
        }
    }
}

/// One statement of the sweep.
#[derive(Debug)]
struct Due {
    records: u32,
}

impl Work for Due {
    /// What it did, and how long that took.
    type Done = (Swept, Duration);

    async fn run(&self, step: Step<'_>) -> Result<Self::Done, Fault> {
        let began = step.links.clock.monotonic();
        let statements = step.statements();
        let records = i64::from(self.records);
        let params = [Value::Bigint(Some(records)), Value::Bigint(Some(BYTES_MAX))];
        let params: Vec<_> = params.iter().map(Value::param).collect();
        let rows = step.alone(&statements.record_sweep, &params).await?;
        let mut swept = Swept::default();
        if let Some(row) = rows.first() {
            swept.forgotten = row::count(row, 0)?.unwrap_or_default();
            swept.deleted = row::count(row, 1)?.unwrap_or_default();
            // What is left because others hold it is not due for whoever asks again at once.
            let any = swept.forgotten + swept.deleted > 0;
            swept.more = any && row.truth(2)? == Some(true);
        }
        let references = [Value::Bigint(Some(records))];
        let gone = value::execute(step.client(), &statements.reference_sweep, &references).await?;
        swept.more |= gone >= u64::from(self.records);
        Ok((swept, step.links.clock.monotonic().since(began)))
    }
}
