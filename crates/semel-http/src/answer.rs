//! What an answer of a protected operation is, for whoever counts answers.

use std::sync::atomic::{AtomicU64, Ordering};

use http::Response;

use crate::problem::Code;

/// What an answer is. Business counters count [`Answer::Fresh`], and [`Answer::Unprotected`] if they
/// must.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// The handler's own.
    Fresh,
    /// Semel's own, with a problem document.
    Refused(Code),
    /// What was kept of an earlier run.
    Replay,
    /// The handler ran without protection, since the store was away.
    Unprotected,
}

impl Answer {
    /// Says what a response is that came through the layer.
    #[must_use]
    pub fn of<B>(response: &Response<B>) -> Self {
        // The most frequent is not marked, so that it costs nothing.
        response.extensions().get().copied().unwrap_or(Self::Fresh)
    }
}

/// Counts what the engine cannot see.
#[derive(Debug)]
pub(crate) struct Counters {
    missed: AtomicU64,
    problems: Vec<AtomicU64>,
    unprotected: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        let problems = Code::ALL.iter().map(|_| AtomicU64::new(0)).collect();
        Self { missed: AtomicU64::new(0), problems, unprotected: AtomicU64::new(0) }
    }
}

impl Counters {
    pub(crate) fn count(&self, answer: Answer) {
        match answer {
            Answer::Refused(code) => {
                let at = Code::ALL.iter().position(|known| *known == code);
                if let Some(counter) = at.and_then(|at| self.problems.get(at)) {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            }
            Answer::Unprotected => {
                self.unprotected.fetch_add(1, Ordering::Relaxed);
            }
            // The engine counts both.
            Answer::Fresh | Answer::Replay => {}
        }
    }

    pub(crate) fn missed(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> HttpStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let problems = Code::ALL.iter().copied().zip(self.problems.iter().map(load)).collect();
        HttpStats { missed: load(&self.missed), problems, unprotected: load(&self.unprotected) }
    }
}

/// The counters of one layer at one instant. They only grow.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct HttpStats {
    /// Requests with a key that passed without protection, since their path is only almost an
    /// operation's; `semel::telemetry::HTTP_MISSED`.
    pub missed: u64,
    /// Problem documents sent, by code; `semel::telemetry::HTTP_PROBLEMS`.
    pub problems: Vec<(Code, u64)>,
    /// Requests that ran without protection; `semel::telemetry::HTTP_UNPROTECTED`.
    pub unprotected: u64,
}

impl HttpStats {
    /// Returns how many problem documents of one code were sent.
    #[must_use]
    pub fn problem(&self, code: Code) -> u64 {
        self.problems.iter().find(|(known, _)| *known == code).map_or(0, |(_, count)| *count)
    }
}
