//! Which events go to a destination.

use std::collections::BTreeSet;

use super::super::{event::Lane, store::Placed};

/// Which aggregates' events a destination gets, by the aggregate's type. What it does not get counts
/// as delivered there.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Routes {
    /// All.
    #[default]
    All,
    /// All but these.
    Except(BTreeSet<Box<str>>),
    /// Only these.
    Only(BTreeSet<Box<str>>),
}

impl Routes {
    /// Names the only types whose events the destination gets.
    pub fn only<T: Into<Box<str>>>(kinds: impl IntoIterator<Item = T>) -> Self {
        Self::Only(kinds.into_iter().map(Into::into).collect())
    }

    /// Names the types whose events the destination does not get.
    pub fn except<T: Into<Box<str>>>(kinds: impl IntoIterator<Item = T>) -> Self {
        Self::Except(kinds.into_iter().map(Into::into).collect())
    }

    /// Says whether the destination gets the events of a lane.
    #[must_use]
    pub fn takes(&self, lane: &Lane) -> bool {
        match self {
            Self::All => true,
            Self::Except(kinds) => !kinds.contains(lane.kind()),
            Self::Only(kinds) => kinds.contains(lane.kind()),
        }
    }

    /// Says whether the destination gets an event. One of which nobody can say whose it is goes to all.
    pub(super) fn gets(&self, placed: &Placed) -> bool {
        self.takes(&placed.event.lane) || placed.is_of_no_kind()
    }
}
