//! Taking records out of one store and into another, while nobody writes.
//!
//! A store can be **closed**: then whatever would write a record is refused as `ReadOnly`, in every
//! process that uses the store and for as long as nobody opens it again, while what is kept is still
//! read and replayed. Records are taken out of a closed store, so that nothing is left behind; and
//! brought into a closed one, so that nobody meets half of them: a key whose record has not arrived
//! yet would look new, and run again.

use async_trait::async_trait;

use super::{bounds, capability::AuditRow};
use crate::{
    clock::Timestamp,
    error::{StoreError, StoreErrorKind},
    record::{Fence, Phase, Record},
};

/// Why a store is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Closed {
    /// Records of another store are coming in, and are not all there yet.
    Arriving,
    /// Its records were taken away.
    Away,
}

impl Closed {
    /// Returns the word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Arriving => "arriving",
            Self::Away => "away",
        }
    }

    /// Says so to whoever would write.
    #[must_use]
    pub fn refusal(self) -> StoreError {
        StoreError::new(
            StoreErrorKind::ReadOnly,
            match self {
                Self::Arriving => {
                    "the store is closed until all records of another one are in it: end their \
                     import by asking for it again"
                }
                Self::Away => {
                    "the store is closed, since its records were taken away: use the one they are in \
                     now, or open this one again with semel records open"
                }
            },
        )
    }
}

/// Whether a store takes writes, and what its next fences lie above.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Standing {
    /// Whether it is closed, and why.
    pub closed: Option<Closed>,
    /// The floor of its fences: the next fence of any intent is larger.
    pub floor: Fence,
}

/// What became of a record that was brought.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Brought {
    /// Another one is kept under its name, this one; nothing was written.
    Differs(Box<Record>),
    /// It is remembered no longer, so it was not written.
    Over,
    /// The same is kept already.
    Same,
    /// It was written.
    Stored,
}

impl Brought {
    /// Says what becomes of a record by what is kept under its name; `None` if it is to be written.
    #[must_use]
    pub fn of(kept: Option<&Record>, brought: &Record, now: Timestamp) -> Option<Self> {
        match kept {
            _ if brought.phase(now) == Phase::Absent => Some(Self::Over),
            None => None,
            Some(kept) if same(kept, brought, now) => Some(Self::Same),
            Some(kept) => Some(Self::Differs(Box::new(kept.clone()))),
        }
    }
}

/// Says whether two records are one at `now`. What is replayed no longer may be dropped already in
/// one place and not yet in the other.
#[must_use]
pub fn same(one: &Record, other: &Record, now: Timestamp) -> bool {
    let meant = |record: &Record| {
        let mut meant = record.clone();
        if meant.phase(now) == Phase::Forgotten {
            meant.outcome = None;
        }
        meant
    };
    one == other || meant(one) == meant(other)
}

/// A page of the audit, as it was written.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Trail {
    /// The rows; those of one intent stand oldest first.
    pub rows: Vec<AuditRow>,
    /// Where the next page begins; `None` behind the last.
    pub next: Option<u64>,
}

/// Takes records out of a store and into it.
///
/// Records that are taken out are read by [`Inspect::list`](super::capability::Inspect::list).
#[async_trait]
pub trait Move: Send + Sync + 'static {
    /// Says whether the store is closed, and how high its fences are.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn standing(&self) -> Result<Standing, StoreError>;

    /// Closes the store, or says why it is closed from now on. When it has answered, no write that
    /// began before can still arrive. A repeat changes nothing.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next; parts of the store may
    /// be closed then.
    async fn close(&self, why: Closed) -> Result<(), StoreError>;

    /// Opens the store again. A repeat changes nothing.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next; parts of the store may
    /// be open then.
    async fn open(&self) -> Result<(), StoreError>;

    /// Writes records into a store that is closed for them ([`Closed::Arriving`]), exactly as they are, each
    /// unless something is kept under its name, and answers in the order asked. A repeat changes nothing. No
    /// two may have one name.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next; it is `Invalid` where the
    /// store is not closed for them, and some records may be written after an error that is not definite.
    async fn bring(&self, records: Vec<Record>) -> Result<Vec<Brought>, StoreError>;

    /// Adds rows to the audit of a store that is closed for them, in order, each unless the same row is
    /// there, and says how many it added.
    ///
    /// # Errors
    ///
    /// Fails as [`Move::bring`] does.
    async fn recall(&self, rows: Vec<AuditRow>) -> Result<u64, StoreError>;

    /// Raises the floor of the fences, which never falls.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn raise(&self, floor: Fence) -> Result<(), StoreError>;

    /// Reads a page of the audit; the first one begins at 0.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn trail(&self, from: u64) -> Result<Trail, StoreError>;
}

/// Says that nothing is brought into a store that is not closed for it.
#[must_use]
pub fn not_arriving() -> StoreError {
    StoreError::new(
        StoreErrorKind::Invalid,
        "records are brought into a store that is closed for them alone",
    )
}

/// Refuses a batch of records that is too large, or one of whose records breaks a bound that its verbs
/// would not have let pass.
///
/// # Errors
///
/// Returns an error of kind `Invalid` that names the record and the bound.
pub fn records_within_bounds(records: &[Record]) -> Result<(), StoreError> {
    bounds::within_batch(records.len())?;
    records.iter().try_for_each(|record| {
        bounds::record_within_bounds(record).map_err(|error| {
            StoreError::new(StoreErrorKind::Invalid, format!("{}: {error}", record.id))
        })
    })
}

/// Refuses a batch of audit rows that is too large, or one of whose rows breaks a bound.
///
/// # Errors
///
/// Returns an error of kind `Invalid` that names the bound.
pub fn rows_within_bounds(rows: &[AuditRow]) -> Result<(), StoreError> {
    bounds::within_batch(rows.len())?;
    rows.iter().try_for_each(bounds::row_within_bounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, Permit, Scope, State, Token};

    fn record() -> Record {
        let scope = Scope::new("acme".parse().unwrap(), "pay".parse().unwrap());
        let mut record = Record::held_by(&Permit {
            id: scope.intent("k".parse().unwrap()),
            token: Token::from_bytes([1; 16]),
            fence: Fence::new(7),
            incarnation: 0,
        });
        record.state = State::Done;
        record.outcome = Some(Outcome::new(201, "{}"));
        record.replay_until = Timestamp::from_micros(10);
        record.remember_until = Timestamp::from_micros(20);
        record
    }

    #[test]
    fn what_is_dropped_in_one_place_alone_is_the_same_once_it_is_replayed_no_longer() {
        let (whole, mut dropped) = (record(), record());
        dropped.outcome = None;
        assert!(!same(&whole, &dropped, Timestamp::from_micros(9)));
        assert!(same(&whole, &dropped, Timestamp::from_micros(10)));
        dropped.fence = Fence::new(8);
        assert!(!same(&whole, &dropped, Timestamp::from_micros(10)));
    }

    #[test]
    fn what_is_kept_decides_and_what_is_over_is_not_written() {
        let (brought, at) = (record(), Timestamp::from_micros);
        let mut other = record();
        other.token = Token::from_bytes([2; 16]);
        assert_eq!(Brought::of(None, &brought, at(0)), None);
        assert_eq!(Brought::of(Some(&brought), &brought, at(0)), Some(Brought::Same));
        let differs = Some(Brought::Differs(Box::new(other.clone())));
        assert_eq!(Brought::of(Some(&other), &brought, at(0)), differs);
        assert_eq!(Brought::of(Some(&other), &brought, at(20)), Some(Brought::Over));
    }
}
