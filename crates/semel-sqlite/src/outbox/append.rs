//! Appending inside an open transaction.

use semel::{
    StoreError,
    outbox::{Event, store::READ_MAX},
};

use super::row;
use crate::{
    error::{self, Fault, invalid},
    queries,
    step::Step,
};

/// How many bytes of events one transaction appends at most.
const BYTES_MAX: usize = 256 * 1024 * 1024;

/// Refuses events that break a bound.
pub(crate) fn within_bounds(events: &[Event]) -> Result<(), StoreError> {
    if events.len() > READ_MAX || events.iter().map(Event::size).sum::<usize>() > BYTES_MAX {
        let message = format!(
            "more than {READ_MAX} events or {BYTES_MAX} bytes of them in one transaction; \
             append fewer"
        );
        return Err(invalid(message));
    }
    events.iter().try_for_each(|event| event.check().map_err(row::refused))
}

impl Step<'_> {
    /// Appends events in this order.
    pub(crate) fn append(&mut self, events: &[Event]) -> Result<(), Fault> {
        if events.is_empty() {
            return Ok(());
        }
        let at = self.now();
        self.wrote();
        let mut statement = self.conn().prepare_cached(queries::OUTBOX_APPEND)?;
        for event in events {
            row::bind(&mut statement, event, at)?;
            statement.raw_execute().map_err(error::append)?;
        }
        Ok(())
    }
}
