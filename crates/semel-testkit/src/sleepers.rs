//! Who sleeps until an instant of some time, and who is due.

use std::{collections::BTreeMap, task::Waker, time::Duration};

/// Where a sleeper stands: its instant, and its turn among those of the same instant.
pub(crate) type Place = (Duration, u64);

/// The sleepers of one time, the earliest first.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    waiting: BTreeMap<Place, Waker>,
    next: u64,
}

impl Sleepers {
    /// Lets somebody sleep until an instant; who sleeps already keeps its place, and is woken by the
    /// waker that it brought last.
    pub(crate) fn enter(&mut self, place: &mut Option<Place>, until: Duration, waker: &Waker) {
        let place = *place.get_or_insert_with(|| {
            self.next += 1;
            (until, self.next)
        });
        self.waiting.insert(place, waker.clone());
    }

    /// Lets somebody go who may sleep no more.
    pub(crate) fn leave(&mut self, place: &mut Option<Place>) {
        if let Some(place) = place.take() {
            self.waiting.remove(&place);
        }
    }

    /// Takes out whoever sleeps until `now` or less, in the order in which they are to be woken, once
    /// no lock is held.
    pub(crate) fn take_due(&mut self, now: Duration) -> impl Iterator<Item = Waker> + use<> {
        let later = self.waiting.split_off(&(now + Duration::from_nanos(1), 0));
        std::mem::replace(&mut self.waiting, later).into_values()
    }

    /// Returns when the next one is due.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.waiting.first_key_value().map(|(place, _)| place.0)
    }

    /// Returns how many sleep.
    pub(crate) fn count(&self) -> usize {
        self.waiting.len()
    }
}
