//! Retention: drops what is no longer asked for, in bounded steps that nobody waits for.

use async_trait::async_trait;
use semel::{
    StoreError,
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

/// How many records one step touches at most: each takes a lock of the server's shared table.
const RECORDS_MAX: u32 = 1_000;

#[async_trait]
impl Sweep for PostgresStore {
    async fn sweep(&self, budget: SweepBudget) -> Result<Swept, StoreError> {
        self.rest(Due { records: budget.records.clamp(1, RECORDS_MAX) }).await
    }
}

/// One step of the sweep.
#[derive(Debug)]
struct Due {
    records: u32,
}

impl Work for Due {
    type Done = Swept;

    async fn run(&self, step: Step<'_>) -> Result<Swept, Fault> {
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
        Ok(swept)
    }
}
