//! What an operator must mend before the store grants claims again.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{
    clock::Monotonic,
    error::{StoreError, StoreErrorKind},
};

/// How long a failure is held against the store when nobody asks it for anything: whoever is sent no
/// requests because of it could otherwise never find out that it was mended.
const HELD_FOR: Duration = Duration::from_secs(30);

/// The last failure to write that asking again does not mend, and when it was met.
///
/// A granted claim ends it, and nothing else does: a store that is full still reads, replays and
/// keeps room for the ends of what already runs.
#[derive(Debug, Default)]
pub(super) struct Trouble(Mutex<Option<(StoreErrorKind, Monotonic)>>);

impl Trouble {
    pub(super) fn failed(&self, error: &StoreError, at: Monotonic) {
        use StoreErrorKind as Kind;
        let kind = error.kind();
        if matches!(kind, Kind::Damaged | Kind::Full | Kind::ReadOnly | Kind::Version) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((kind, at));
        }
    }

    pub(super) fn granted(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn at(&self, now: Monotonic) -> Option<StoreErrorKind> {
        let held = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.filter(|(_, at)| now.since(*at) < HELD_FOR).map(|(kind, _)| kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_an_operator_must_mend_is_held_until_a_claim_is_granted_or_it_is_old() {
        let trouble = Trouble::default();
        let start = Monotonic::default();
        trouble.failed(&StoreError::new(StoreErrorKind::Busy, "busy"), start);
        assert_eq!(trouble.at(start), None, "asking again mends it");
        trouble.failed(&StoreError::new(StoreErrorKind::Full, "full"), start);
        assert_eq!(trouble.at(start), Some(StoreErrorKind::Full));
        assert_eq!(trouble.at(start.after(HELD_FOR)), None, "it may be mended");
        trouble.granted();
        assert_eq!(trouble.at(start), None);
    }
}
