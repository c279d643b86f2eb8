//! The bounds that every store checks before it writes anything.

use super::{Actor, BATCH_MAX, capability::AuditRow};
use crate::{
    decide::{Ask, Finish, ReleaseAsk, ResolveAsk, Verdict},
    error::{StoreError, StoreErrorKind},
    outcome::{Outcome, Pointer},
    record::Record,
};

/// Refuses a batch that is too large.
///
/// # Errors
///
/// Returns an error of kind `Invalid` past [`BATCH_MAX`].
pub fn within_batch(items: usize) -> Result<(), StoreError> {
    check(items <= BATCH_MAX, "the batch has too many items")
}

/// Refuses a batch of claims that is too large, or one of whose items breaks a bound.
///
/// # Errors
///
/// Returns an error of kind `Invalid` that names the bound.
pub fn claims_within_bounds(asks: &[Ask]) -> Result<(), StoreError> {
    within_batch(asks.len())?;
    for ask in asks {
        let claimed_by = ask.claimed_by.as_ref().map_or(0, |text| text.len());
        check(claimed_by <= Ask::CLAIMED_BY_MAX, "claimed_by is too long")?;
        check(ask.older.len() <= Ask::OLDER_MAX, "the claim has too many older fingerprints")?;
    }
    Ok(())
}

/// Refuses an outcome that breaks a bound of [`Outcome`].
///
/// # Errors
///
/// Returns an error of kind `Invalid` that names the bound.
pub fn within_bounds(outcome: Option<&Outcome>) -> Result<(), StoreError> {
    match outcome.and_then(Outcome::broken_bound) {
        Some(bound) => Err(StoreError::new(StoreErrorKind::Invalid, bound)),
        None => Ok(()),
    }
}

/// Refuses the end of a run that breaks a bound.
///
/// # Errors
///
/// Returns an error of kind `Invalid` that names the bound.
pub fn finish_within_bounds(finish: &Finish, body_max: usize) -> Result<(), StoreError> {
    reason(finish.reason.as_deref())?;
    kept(finish.outcome.as_ref(), body_max)
}

/// Refuses a release that breaks a bound.
///
/// # Errors
///
/// Returns an error of kind `Invalid` that names the bound.
pub fn release_within_bounds(ask: &ReleaseAsk) -> Result<(), StoreError> {
    reason(ask.reason.as_deref())
}

/// Refuses a resolution that breaks a bound.
///
/// # Errors
///
/// Returns an error of kind `Invalid` that names the bound.
pub fn resolution_within_bounds(
    ask: &ResolveAsk,
    actor: &Actor,
    body_max: usize,
) -> Result<(), StoreError> {
    actor_within_bounds(actor)?;
    match &ask.verdict {
        Verdict::Done(outcome) | Verdict::Failed(outcome) => kept(Some(outcome), body_max),
        Verdict::NotDone { .. } => Ok(()),
    }
}

/// Refuses an actor who breaks a bound.
///
/// # Errors
///
/// Returns an error of kind `Invalid` that names the bound.
pub fn actor_within_bounds(actor: &Actor) -> Result<(), StoreError> {
    check(actor.name.len() <= Actor::NAME_MAX, "the actor's name is too long")?;
    check(actor.note.len() <= Actor::NOTE_MAX, "the actor's note is too long")
}

/// Refuses a row of the audit that breaks a bound.
///
/// # Errors
///
/// Returns an error of kind `Invalid` that names the bound.
pub fn row_within_bounds(row: &AuditRow) -> Result<(), StoreError> {
    check(row.actor.len() <= Actor::NAME_MAX, "the actor's name is too long")?;
    check(row.note.len() <= Actor::NOTE_MAX, "the actor's note is too long")
}

/// Refuses a whole record that breaks a bound.
pub(super) fn record_within_bounds(record: &Record) -> Result<(), StoreError> {
    let claimed_by = record.claimed_by.as_ref().map_or(0, |text| text.len());
    check(claimed_by <= Ask::CLAIMED_BY_MAX, "claimed_by is too long")?;
    reason(record.reason.as_deref())?;
    let pointer = record.pointer.as_ref().map_or(0, Pointer::longest);
    check(pointer <= Outcome::POINTER_MAX, "the pointer is too long")?;
    within_bounds(record.outcome.as_ref())
}

fn kept(outcome: Option<&Outcome>, body_max: usize) -> Result<(), StoreError> {
    within_bounds(outcome)?;
    let fits = outcome.is_none_or(|outcome| outcome.fits(body_max));
    check(fits, "the outcome's body is larger than this store keeps")
}

fn reason(reason: Option<&str>) -> Result<(), StoreError> {
    let len = reason.map_or(0, str::len);
    check(len <= ReleaseAsk::REASON_MAX, "the reason is too long")
}

fn check(holds: bool, bound: &str) -> Result<(), StoreError> {
    if holds { Ok(()) } else { Err(StoreError::new(StoreErrorKind::Invalid, bound)) }
}
