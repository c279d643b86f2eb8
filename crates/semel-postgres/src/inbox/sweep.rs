//! Retention of what consumers had, in bounded steps.

use async_trait::async_trait;
use semel::{
    StoreError,
    inbox::{InboxSweep, InboxSwept, store::ATTEMPTS_KEPT},
};

use crate::{
    PostgresStore,
    error::Fault,
    link::{Step, Work},
    row,
    value::Value,
};

/// How many of each kind one statement touches at most.
const STEP_MAX: u32 = 5_000;

#[async_trait]
impl InboxSweep for PostgresStore {
    async fn sweep_inbox(&self, limit: u32) -> Result<InboxSwept, StoreError> {
        self.rest(Sweep { limit: limit.clamp(1, STEP_MAX) }).await
    }
}

struct Sweep {
    limit: u32,
}

impl Work for Sweep {
    type Done = InboxSwept;

    async fn run(&self, step: Step<'_>) -> Result<InboxSwept, Fault> {
        let limit = u64::from(self.limit);
        let values = [
            Value::Bigint(Some(i64::from(self.limit))),
            Value::Bigint(Some(row::span(ATTEMPTS_KEPT))),
        ];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        let rows = step.bounded(&step.statements().inbox_sweep, &params).await?;
        let mut swept = InboxSwept::default();
        if let Some(row) = rows.first() {
            swept.messages = row::count(row, 0)?.unwrap_or_default();
            swept.attempts = row::count(row, 1)?.unwrap_or_default();
            swept.more = swept.messages >= limit || swept.attempts >= limit;
        }
        trim(step).await?;
        Ok(swept)
    }
}

/// Keeps the audit within its bound.
pub(super) async fn trim(step: Step<'_>) -> Result<(), Fault> {
    let stay = Value::Bigint(Some(i64::from(step.links.settings.audit_max)));
    step.bounded(&step.statements().inbox_trim, &[stay.param()]).await.map(drop)
}
