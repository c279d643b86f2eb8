//! Dropping events that every destination has.

use std::time::Duration;

use async_trait::async_trait;
use semel::{
    StoreError, StoreErrorKind, Timestamp,
    outbox::{OutboxRetain, store::Retained},
};

use crate::{SqliteStore, error::Fault, queries, queue::Lane, row, step::Step, verb::Verb};

/// How many events one step looks at.
const STEP_MAX: u32 = 1_000;

#[async_trait]
impl OutboxRetain for SqliteStore {
    async fn retain(&self, keep_for: Duration) -> Result<Retained, StoreError> {
        match self.write(Lane::Later, Old(keep_for)).await {
            Err(busy) if busy.kind() == StoreErrorKind::Busy => {
                let mut retained = Retained::default();
                retained.held_up = Some(busy.to_string().into());
                Ok(retained)
            }
            retained => retained,
        }
    }
}

/// Drops the oldest events.
#[derive(Debug)]
struct Old(Duration);

impl Verb for Old {
    type Answer = Retained;
    const LOCK_WAIT: Duration = Duration::from_millis(100);

    fn run(&self, step: &mut Step<'_>) -> Result<Retained, Fault> {
        let now = step.now();
        let before = Timestamp::from_micros(now.as_micros().saturating_sub(micros(self.0)));
        let mut retained = Retained::default();
        let Some((settled, destination)) = settled(step)? else {
            let said = "no destination was ever led, so nothing was sent anywhere";
            retained.held_up = old(step, before)?.map(|_| said.into());
            return Ok(retained);
        };
        let mut statement = step.conn().prepare_cached(queries::OUTBOX_RETAIN)?;
        let dropped =
            statement.execute((settled, row::micros(before), row::micros(now), STEP_MAX))?;
        drop(statement);
        if dropped > 0 {
            step.wrote();
        }
        retained.dropped = u64::try_from(dropped).unwrap_or(u64::MAX);
        retained.more = retained.dropped == u64::from(STEP_MAX);
        if old(step, before)?.is_some_and(|pos| pos > settled) {
            let said = format!("the destination {destination} has not had the oldest events yet");
            retained.held_up = Some(said.into());
        }
        Ok(retained)
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// The position that every destination has settled, and who is at it.
fn settled(step: &Step<'_>) -> Result<Option<(i64, String)>, Fault> {
    let mut statement = step.conn().prepare_cached(queries::OUTBOX_SETTLED_EVERYWHERE)?;
    let mut rows = statement.query([])?;
    rows.next()?.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
}

/// The position of the oldest event, if it was appended before that time.
fn old(step: &Step<'_>, before: Timestamp) -> Result<Option<i64>, Fault> {
    let mut statement = step.conn().prepare_cached(queries::OUTBOX_OLDEST)?;
    let mut rows = statement.query([])?;
    let oldest: Option<(i64, i64)> =
        rows.next()?.map(|row| Ok::<_, Fault>((row.get(0)?, row.get(1)?))).transpose()?;
    Ok(oldest.filter(|(_, at)| *at < row::micros(before)).map(|(pos, _)| pos))
}
