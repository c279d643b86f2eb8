//! A record as a row, and back. Nothing else knows the columns.

use std::time::Duration;

use rusqlite::{Row, ToSql, types::ValueRef};
use semel::{
    Fence, Fingerprint, IntentId, Key, Lease, Operation, Outcome, Record, Scope, State, Tenant,
    Timestamp, Token, codec, decide, fingerprint::PlanId, outcome::Pointer,
};

use crate::error::{Fault, damaged};

/// A record, and the row that holds it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) row_id: i64,
    pub(crate) record: Record,
}

/// Where the outcome stands among the columns of a read.
pub(crate) const OUTCOME: usize = 21;
/// Where the name begins in reads that bring it.
pub(crate) const NAME: usize = 22;

/// Makes the record of a row whose name is known.
pub(crate) fn seen(id: IntentId, row: &Row<'_>) -> Result<Seen, Fault> {
    let mut seen = without_outcome(id, row)?;
    seen.record.outcome = match row.get_ref(OUTCOME)? {
        ValueRef::Null => None,
        // Reading the bytes where they lie saves a copy of the whole outcome.
        ValueRef::Blob(bytes) => Some(codec::decode(bytes)?),
        _ => return Err(damaged("a kept outcome is not bytes; restore a backup").into()),
    };
    Ok(seen)
}

/// Makes the record of a row, without looking at its outcome.
pub(crate) fn without_outcome(id: IntentId, row: &Row<'_>) -> Result<Seen, Fault> {
    let state = row.get_ref(1)?.as_str().ok().and_then(State::from_word);
    let kind: Option<Box<str>> = row.get(17)?;
    let pointer: Option<Box<str>> = row.get(18)?;
    let settled_at: Option<i64> = row.get(13)?;
    let record = Record {
        id,
        state: state.ok_or_else(|| damaged("a record has an unknown state; upgrade or restore"))?,
        token: Token::from_bytes(row.get(2)?),
        fence: Fence::new(count(row, 3)?),
        fingerprint: Fingerprint::new(PlanId::new(row.get(4)?), row.get(5)?),
        lease: Lease {
            renewed_at: instant(row, 6)?,
            length: Duration::from_micros(count(row, 7)?),
        },
        takeovers: row.get(8)?,
        compare: row.get(9)?,
        incarnation: row.get(10)?,
        created_at: instant(row, 11)?,
        claimed_at: instant(row, 12)?,
        settled_at: settled_at.map(|_| instant(row, 13)).transpose()?,
        claimed_by: row.get(14)?,
        reason: row.get(15)?,
        resolved_by: row.get(16)?,
        outcome: None,
        pointer: kind.zip(pointer).map(|(kind, id)| Pointer { kind, id }),
        replay_until: instant(row, 19)?,
        remember_until: instant(row, 20)?,
    };
    Ok(Seen { row_id: row.get(0)?, record })
}

/// Reads the name whose four columns begin at `first`.
pub(crate) fn name(row: &Row<'_>, first: usize) -> Result<IntentId, Fault> {
    let text = |at: usize| -> Result<Box<str>, Fault> { Ok(row.get(first + at)?) };
    let bad = |error| {
        damaged("a record has a name that this version does not allow; restore a backup")
            .with_source(error)
    };
    let tenant = Tenant::new(text(0)?).map_err(bad)?;
    let operation = Operation::new(text(1)?).map_err(bad)?;
    let id = Scope::new(tenant, operation).intent(Key::new(text(2)?).map_err(bad)?);
    match row.get_ref(first + 3)?.as_blob().unwrap_or_default() {
        [] => Ok(id),
        facet => {
            let facet = facet.try_into().map_err(|_| damaged("a facet has the wrong length"))?;
            Ok(id.narrowed(facet))
        }
    }
}

/// Reads a number that is never negative.
pub(crate) fn count(row: &Row<'_>, at: usize) -> Result<u64, Fault> {
    let number: i64 = row.get(at)?;
    let bad = |_| damaged("a stored number is negative; restore a backup");
    Ok(u64::try_from(number).map_err(bad)?)
}

/// Reads an instant.
pub(crate) fn instant(row: &Row<'_>, at: usize) -> Result<Timestamp, Fault> {
    count(row, at).map(Timestamp::from_micros)
}

/// Returns an instant as SQLite keeps it.
pub(crate) fn micros(instant: Timestamp) -> i64 {
    i64::try_from(instant.as_micros()).unwrap_or(i64::MAX)
}

/// Returns a fence as SQLite keeps it. A fence counts microseconds since 1970, so it stays far below
/// the bound.
pub(crate) fn number(fence: Fence) -> i64 {
    i64::try_from(fence.get()).unwrap_or(i64::MAX)
}

/// Returns a span as SQLite keeps it, rounded up: a lease must not end before its holder thinks.
pub(crate) fn span(span: Duration) -> i64 {
    i64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX)
}

/// The facet's column: empty for none.
pub(crate) fn facet(id: &IntentId) -> &[u8] {
    id.facet.as_ref().map_or(&[], |facet| facet)
}

/// When the sweep has next something to do with a record.
pub(crate) fn sweep_at(record: &Record) -> Option<i64> {
    decide::due_at(record).map(micros)
}

/// The columns of a record from `state` on, in the order of the statements that write.
#[derive(Debug)]
pub(crate) struct Columns<'a> {
    record: &'a Record,
    fence: i64,
    renewed_at: i64,
    lease: i64,
    created_at: i64,
    claimed_at: i64,
    settled_at: Option<i64>,
    pointer: (Option<&'a str>, Option<&'a str>),
    replay_until: i64,
    remember_until: i64,
    sweep_at: Option<i64>,
    outcome: Option<Vec<u8>>,
}

impl<'a> Columns<'a> {
    pub(crate) fn of(record: &'a Record) -> Self {
        Self {
            record,
            fence: number(record.fence),
            renewed_at: micros(record.lease.renewed_at),
            lease: span(record.lease.length),
            created_at: micros(record.created_at),
            claimed_at: micros(record.claimed_at),
            settled_at: record.settled_at.map(micros),
            pointer: record
                .pointer
                .as_ref()
                .map_or((None, None), |pointer| (Some(&pointer.kind), Some(&pointer.id))),
            replay_until: micros(record.replay_until),
            remember_until: micros(record.remember_until),
            sweep_at: sweep_at(record),
            outcome: record.outcome.as_ref().map(bytes),
        }
    }

    /// Binds the columns from parameter `first` on.
    pub(crate) fn bind(
        &self,
        statement: &mut rusqlite::Statement<'_>,
        first: usize,
    ) -> rusqlite::Result<()> {
        let record = self.record;
        let plan = record.fingerprint.plan();
        let columns: [&dyn ToSql; 22] = [
            &record.state.as_str(),
            record.token.as_bytes(),
            &self.fence,
            plan.as_bytes(),
            record.fingerprint.digest(),
            &self.renewed_at,
            &self.lease,
            &record.takeovers,
            &record.compare,
            &record.incarnation,
            &self.created_at,
            &self.claimed_at,
            &self.settled_at,
            &record.claimed_by,
            &record.reason,
            &record.resolved_by,
            &self.pointer.0,
            &self.pointer.1,
            &self.replay_until,
            &self.remember_until,
            &self.sweep_at,
            &self.outcome,
        ];
        let mut numbered = columns.into_iter().enumerate();
        numbered.try_for_each(|(at, column)| statement.raw_bind_parameter(first + at, column))
    }
}

fn bytes(outcome: &Outcome) -> Vec<u8> {
    codec::encode(outcome)
}
