//! What happened in a world, in order: a digest always, lines when somebody will read them.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::time::Time;

/// The trace of one world.
#[derive(Debug)]
pub(super) struct Trace {
    time: Arc<Time>,
    written: bool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    digest: u64,
    lines: String,
    tally: Tally,
}

impl Trace {
    pub(super) fn new(time: Arc<Time>, written: bool) -> Arc<Self> {
        Arc::new(Self { time, written, inner: Mutex::default() })
    }

    /// Notes that a task went on.
    pub(super) fn step(&self, task: u64) {
        let now = self.time.now();
        self.lock().fold(task ^ u64::from(now.subsec_nanos()));
    }

    /// Notes something that can be counted, and says how it went.
    pub(super) fn note(&self, what: &'static str, how: &dyn Display) {
        let now = self.time.now();
        let mut inner = self.lock();
        for chunk in what.as_bytes().chunks(8) {
            let word = chunk.iter().fold(0, |word, byte| (word << 8) | u64::from(*byte));
            inner.fold(word);
        }
        inner.tally.count(what);
        if self.written {
            let since = now - Time::START;
            writeln!(inner.lines, "{:>12.6} {what}: {how}", since.as_secs_f64())
                .expect("a string can be written to");
        }
    }

    pub(super) fn digest(&self) -> u64 {
        self.lock().digest
    }

    pub(super) fn lines(&self) -> String {
        std::mem::take(&mut self.lock().lines)
    }

    pub(super) fn tally(&self) -> Tally {
        self.lock().tally.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn fold(&mut self, word: u64) {
        let mixed = (self.digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.digest = mixed ^ (mixed >> 29);
    }
}

/// How often each thing happened.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub(super) fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub(super) fn add(&mut self, what: &'static str, times: u64) {
        *self.0.entry(what).or_default() += times;
    }

    /// Adds what happened in another world.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, times)| self.add(what, *times));
    }

    /// Returns how often something happened.
    #[must_use]
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(what, times)| writeln!(f, "{times:>12}  {what}"))
    }
}
