//! Which intents this process saw ended lately. Whoever claims one of them most likely asks for its outcome again,
//! which two plain commands tell for a fifth of what a script costs the server.
//!
//! It is a guess and nothing rests on it: what was noted may be gone by now, may be forgotten here for another, or,
//! once in very many, be another intent. Who guesses wrong goes on by the script, a round trip later.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::space::Place;

/// How many are noted, a power of two; a later one takes the place of an earlier one. They take 512 KiB.
const NOTED: usize = 1 << 16;

/// The marks of intents, each where its lowest bits say.
pub(crate) struct Ended {
    marks: Box<[AtomicU64]>,
}

impl Ended {
    pub(crate) fn new() -> Self {
        Self { marks: (0..NOTED).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(crate) fn note(&self, place: &Place) {
        self.at(place).store(place.mark, Ordering::Relaxed);
    }

    pub(crate) fn has(&self, place: &Place) -> bool {
        self.at(place).load(Ordering::Relaxed) == place.mark
    }

    /// Forgets one that turned out to be something else.
    pub(crate) fn strike(&self, place: &Place) {
        self.at(place).store(0, Ordering::Relaxed);
    }

    fn at(&self, place: &Place) -> &AtomicU64 {
        let low = usize::try_from(place.mark % NOTED as u64).unwrap_or_default();
        &self.marks[low]
    }
}

/// Without the marks: they are many.
impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(mark: u64) -> Place {
        Place { bucket: 0, name: Vec::new(), mark }
    }

    #[test]
    fn what_was_noted_last_is_known_until_it_is_struck_out() {
        let ended = Ended::new();
        let (one, same_place) = (place(7), place(7 + NOTED as u64));
        assert!(!ended.has(&one));
        ended.note(&one);
        assert!(ended.has(&one) && !ended.has(&same_place));
        ended.note(&same_place);
        assert!(!ended.has(&one) && ended.has(&same_place));
        ended.strike(&same_place);
        assert!(!ended.has(&same_place));
    }
}
