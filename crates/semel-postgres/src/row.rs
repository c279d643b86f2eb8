//! A record as a row, and back. Nothing else knows the columns.

use std::time::Duration;

use semel::{
    Fence, Fingerprint, IntentId, Key, Lease, Operation, Record, Scope, State, Tenant, Timestamp,
    Token, codec, decide, fingerprint::PlanId, outcome::Pointer,
};

use crate::{
    error::{Fault, damaged},
    value::{Cells, Value},
};

/// Where the outcome stands among the columns of a record.
pub(crate) const OUTCOME: usize = 20;

/// Makes the record of a row whose name is known and whose columns begin at `first`.
pub(crate) fn record(id: IntentId, row: &impl Cells, first: usize) -> Result<Record, Fault> {
    let mut record = without_outcome(id, row, first)?;
    record.outcome = row.bytes(first + OUTCOME)?.map(codec::decode).transpose()?;
    Ok(record)
}

/// Makes the record of a row, without looking at its outcome.
pub(crate) fn without_outcome(
    id: IntentId,
    row: &impl Cells,
    first: usize,
) -> Result<Record, Fault> {
    let at = |column: usize| first + column;
    let state = row.text(at(0))?.and_then(State::from_word);
    let digest = Fingerprint::new(
        PlanId::new(bytes(row, at(3))?.ok_or_else(missing)?),
        bytes(row, at(4))?.ok_or_else(missing)?,
    );
    let boxed = |column| Ok::<_, Fault>(row.text(at(column))?.map(Box::<str>::from));
    Ok(Record {
        id,
        state: state.ok_or_else(|| damaged("a record has an unknown state; upgrade or restore"))?,
        token: Token::from_bytes(bytes(row, at(1))?.ok_or_else(missing)?),
        fence: Fence::new(count(row, at(2))?.ok_or_else(missing)?),
        fingerprint: digest,
        lease: Lease {
            renewed_at: instant(row, at(5))?,
            // None: claimed inside a transaction that was the lease, so it is over.
            length: Duration::from_micros(count(row, at(6))?.unwrap_or_default()),
        },
        takeovers: small(row, at(7))?,
        compare: row.truth(at(8))?.ok_or_else(missing)?,
        incarnation: small(row, at(9))?,
        created_at: instant(row, at(10))?,
        claimed_at: instant(row, at(11))?,
        settled_at: count(row, at(12))?.map(Timestamp::from_micros),
        claimed_by: boxed(13)?,
        reason: boxed(14)?,
        resolved_by: bytes(row, at(15))?,
        outcome: None,
        pointer: boxed(16)?.zip(boxed(17)?).map(|(kind, id)| Pointer { kind, id }),
        replay_until: instant(row, at(18))?,
        remember_until: instant(row, at(19))?,
    })
}

/// Reads the name whose four columns begin at `first`.
pub(crate) fn name(row: &impl Cells, first: usize) -> Result<IntentId, Fault> {
    let text = |at: usize| row.text(first + at)?.ok_or_else(missing);
    let bad = |error| {
        damaged("a record has a name that this version does not allow; restore a backup")
            .with_source(error)
    };
    let tenant = Tenant::new(text(0)?).map_err(bad)?;
    let operation = Operation::new(text(1)?).map_err(bad)?;
    let id = Scope::new(tenant, operation).intent(Key::new(text(2)?).map_err(bad)?);
    match row.bytes(first + 3)?.unwrap_or_default() {
        [] => Ok(id),
        facet => {
            let facet = facet.try_into().map_err(|_| damaged("a facet has the wrong length"))?;
            Ok(id.narrowed(facet))
        }
    }
}

/// Reads an instant.
pub(crate) fn instant(row: &impl Cells, at: usize) -> Result<Timestamp, Fault> {
    count(row, at)?.map(Timestamp::from_micros).ok_or_else(missing)
}

/// Reads a number that is never negative.
pub(crate) fn count(row: &impl Cells, at: usize) -> Result<Option<u64>, Fault> {
    let bad = |_| damaged("a stored number is negative; restore a backup").into();
    row.bigint(at)?.map(|number| u64::try_from(number).map_err(bad)).transpose()
}

fn small(row: &impl Cells, at: usize) -> Result<u32, Fault> {
    let number = count(row, at)?.ok_or_else(missing)?;
    u32::try_from(number).map_err(|_| damaged("a stored number is too large").into())
}

fn bytes<const N: usize>(row: &impl Cells, at: usize) -> Result<Option<[u8; N]>, Fault> {
    let bad = |_| damaged("stored bytes have the wrong length; restore a backup").into();
    row.bytes(at)?.map(|bytes| bytes.try_into().map_err(bad)).transpose()
}

fn missing() -> Fault {
    damaged("a column of a record is empty; restore a backup").into()
}

/// Returns an instant as it is stored.
pub(crate) fn micros(instant: Timestamp) -> i64 {
    i64::try_from(instant.as_micros()).unwrap_or(i64::MAX)
}

/// Returns a fence as it is stored. A fence counts microseconds since 1970, so it stays far below the
/// bound.
pub(crate) fn number(fence: Fence) -> i64 {
    i64::try_from(fence.get()).unwrap_or(i64::MAX)
}

/// Returns a span as it is stored, rounded up: a lease must not end before its holder thinks.
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

/// The parameters of a record in the order of the statements that write: the name, then the columns.
/// `outcome` is its encoded outcome.
pub(crate) fn values<'a>(record: &'a Record, outcome: Option<&'a [u8]>) -> [Value<'a>; 26] {
    let scope = &record.id.scope;
    let pointer = record.pointer.as_ref();
    [
        Value::Text(Some(scope.tenant.as_str())),
        Value::Text(Some(scope.operation.as_str())),
        Value::Text(Some(record.id.key.as_str())),
        Value::Bytes(Some(facet(&record.id))),
        Value::Text(Some(record.state.as_str())),
        Value::Bytes(Some(record.token.as_bytes())),
        Value::Bigint(Some(number(record.fence))),
        Value::Plan(*record.fingerprint.plan().as_bytes()),
        Value::Bytes(Some(record.fingerprint.digest())),
        Value::Bigint(Some(micros(record.lease.renewed_at))),
        Value::Bigint(Some(span(record.lease.length))),
        Value::Bigint(Some(i64::from(record.takeovers))),
        Value::Truth(record.compare),
        Value::Bigint(Some(i64::from(record.incarnation))),
        Value::Bigint(Some(micros(record.created_at))),
        Value::Bigint(Some(micros(record.claimed_at))),
        Value::Bigint(record.settled_at.map(micros)),
        Value::Text(record.claimed_by.as_deref()),
        Value::Text(record.reason.as_deref()),
        Value::Bytes(record.resolved_by.as_ref().map(<[u8; 16]>::as_slice)),
        Value::Text(pointer.map(|pointer| &*pointer.kind)),
        Value::Text(pointer.map(|pointer| &*pointer.id)),
        Value::Bigint(Some(micros(record.replay_until))),
        Value::Bigint(Some(micros(record.remember_until))),
        Value::Bigint(sweep_at(record)),
        Value::Bytes(outcome),
    ]
}
