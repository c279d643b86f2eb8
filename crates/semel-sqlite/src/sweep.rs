//! Retention: drops what is no longer asked for, in bounded steps.

use async_trait::async_trait;
use semel::{
    Outcome, Record, StoreError, Timestamp,
    decide::{self, Sweep as Verdict},
    store::capability::{Sweep, SweepBudget, Swept},
};

use crate::{SqliteStore, error::Fault, queries, queue::Lane, row, step::Step, verb::Verb};

/// How many bytes of outcomes one step drops at most: the pages of each must be visited, and other
/// work waits for the writer meanwhile.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

#[async_trait]
impl Sweep for SqliteStore {
    async fn sweep(&self, budget: SweepBudget) -> Result<Swept, StoreError> {
        self.write(Lane::Later, Due(budget)).await
    }
}

/// One step of the sweep.
#[derive(Debug)]
struct Due(SweepBudget);

impl Verb for Due {
    type Answer = Swept;

    fn run(&self, step: &mut Step<'_>) -> Result<Swept, Fault> {
        let now = step.now();
        let records = self.0.records.max(1);
        let due = step.due(now, records.saturating_add(1))?;
        let budget = usize::try_from(records).unwrap_or(usize::MAX);
        let mut swept = Swept { more: due.len() > budget, ..Swept::default() };
        let mut bytes = 0;
        for (row_id, record, size) in due.into_iter().take(budget) {
            bytes += size;
            match decide::sweep(&record, now) {
                Verdict::Delete => {
                    step.delete(row_id, now)?;
                    step.raise(record.fence);
                    swept.deleted += 1;
                }
                Verdict::Forget => {
                    step.forget(row_id, now)?;
                    swept.forgotten += 1;
                }
                Verdict::Keep => {}
            }
            if bytes > BYTES_MAX {
                swept.more = true;
                break;
            }
        }
        Ok(swept)
    }
}

/// A row that is due, its record, and the size of its outcome.
type DueRow = (i64, Record, u64);

impl Step<'_> {
    /// Lists what is due. In place of an outcome stands one without a body: that there is one decides.
    fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<DueRow>, Fault> {
        let mut statement = self.conn().prepare_cached(queries::RECORD_DUE)?;
        let mut rows = statement.query((row::micros(now), limit))?;
        let mut due = Vec::new();
        while let Some(row) = rows.next()? {
            let mut seen = row::without_outcome(row::name(row, row::NAME)?, row)?;
            let size: Option<i64> = row.get(row::OUTCOME)?;
            seen.record.outcome = size.map(|_| Outcome::without_body(0));
            let size = size.and_then(|size| u64::try_from(size).ok()).unwrap_or_default();
            due.push((seen.row_id, seen.record, size));
        }
        Ok(due)
    }
}
