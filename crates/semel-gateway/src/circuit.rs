//! Leaves an upstream alone for a while after it failed several times in a row.
//!
//! An open circuit sends nothing, so a call it refuses certainly had no effect. After `open_for` one
//! call is let through as a probe; its end decides whether the circuit closes or stays open.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use semel::Monotonic;

use crate::settings::CircuitSettings;

/// The circuit of one upstream.
#[derive(Debug)]
pub(crate) struct Circuit {
    settings: CircuitSettings,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed { failures: u32 },
    Open { until: Monotonic },
    Probing,
}

/// Leave for one call. Dropped without a word it says nothing about the upstream.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    circuit: &'a Circuit,
    probe: bool,
}

impl Circuit {
    pub(crate) const fn new(settings: CircuitSettings) -> Self {
        Self { settings, state: Mutex::new(State::Closed { failures: 0 }) }
    }

    /// Lets a call through, or says after how long it is worth asking again.
    pub(crate) fn admit(&self, now: Monotonic) -> Result<Pass<'_>, Duration> {
        let mut state = self.lock();
        match *state {
            State::Closed { .. } => Ok(Pass { circuit: self, probe: false }),
            State::Open { until } if now < until => Err(until.since(now)),
            State::Open { .. } => {
                *state = State::Probing;
                Ok(Pass { circuit: self, probe: true })
            }
            State::Probing => Err(self.settings.open_for),
        }
    }

    /// Says whether calls are refused now.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(*self.lock(), State::Closed { .. })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass<'_> {
    /// Says that the upstream answered.
    pub(crate) fn answered(mut self) {
        let mut state = self.circuit.lock();
        // A call that began before the circuit opened must not close it: only the probe may.
        if self.probe || matches!(*state, State::Closed { .. }) {
            *state = State::Closed { failures: 0 };
        }
        self.probe = false;
    }

    /// Says that the upstream could not be reached or did not answer in time. Returns whether the
    /// circuit opened by it.
    pub(crate) fn failed(mut self, now: Monotonic) -> bool {
        let settings = self.circuit.settings;
        let mut state = self.circuit.lock();
        let failures = match *state {
            State::Closed { failures } => failures.saturating_add(1),
            State::Open { .. } | State::Probing if self.probe => settings.failures,
            State::Open { .. } | State::Probing => return false,
        };
        self.probe = false;
        if settings.failures == 0 || failures < settings.failures {
            *state = State::Closed { failures };
            return false;
        }
        *state = State::Open { until: now.after(settings.open_for) };
        true
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.probe {
            // The probe told nothing, so the next call is the probe.
            *self.circuit.lock() = State::Open { until: Monotonic::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_FOR: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_start(Duration::from_secs(seconds))
    }

    fn circuit(failures: u32) -> Circuit {
        Circuit::new(CircuitSettings { failures, open_for: OPEN_FOR })
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_says_for_how_long() {
        let circuit = circuit(2);
        assert!(!circuit.admit(at(1)).unwrap().failed(at(1)));
        circuit.admit(at(1)).unwrap().answered();
        assert!(!circuit.admit(at(1)).unwrap().failed(at(1)));
        assert!(circuit.admit(at(1)).unwrap().failed(at(1)));
        assert_eq!(circuit.admit(at(2)).unwrap_err(), Duration::from_secs(4));
        assert!(circuit.is_open());
    }

    #[test]
    fn one_probe_goes_through_and_its_answer_closes_it() {
        let circuit = circuit(1);
        circuit.admit(at(0)).unwrap().failed(at(0));
        let probe = circuit.admit(at(6)).unwrap();
        assert_eq!(circuit.admit(at(6)).unwrap_err(), OPEN_FOR);
        probe.answered();
        assert!(circuit.admit(at(6)).is_ok());
    }

    #[test]
    fn a_failed_probe_keeps_it_open_and_a_dropped_one_lets_the_next_call_probe() {
        let circuit = circuit(1);
        circuit.admit(at(0)).unwrap().failed(at(0));
        drop(circuit.admit(at(6)).unwrap());
        assert!(circuit.admit(at(6)).unwrap().failed(at(6)));
        assert!(circuit.admit(at(7)).is_err());
    }

    #[test]
    fn an_answer_to_an_older_call_does_not_close_it() {
        let circuit = circuit(1);
        let older = circuit.admit(at(0)).unwrap();
        circuit.admit(at(0)).unwrap().failed(at(0));
        older.answered();
        assert!(circuit.admit(at(1)).is_err());
    }

    #[test]
    fn zero_failures_never_open_it() {
        let circuit = circuit(0);
        for _ in 0..10 {
            assert!(!circuit.admit(at(0)).unwrap().failed(at(0)));
        }
        assert!(!circuit.is_open());
    }
}
