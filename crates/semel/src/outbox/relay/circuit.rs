//! Whether a destination is worth a send: closed, open, or being probed.

use std::{collections::HashSet, time::Duration};

use crate::{backoff::Backoff, clock::Monotonic, entropy::Entropy};

/// Of how many lanes everything must have failed, with nothing confirmed between, until a destination
/// is taken to be away that did not say so itself.
const LANES: usize = 5;

/// Of how many lanes every message must have been refused for its own sake: it is no longer likely that
/// it is the messages' fault.
const LANES_REFUSED: usize = 50;

/// The circuit of one destination, as others see it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CircuitState {
    /// Everything is sent.
    #[default]
    Closed,
    /// One message is sent, to see.
    HalfOpen,
    /// Nothing is sent for a while.
    Open,
}

impl CircuitState {
    /// Returns the word for this state.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half-open",
            Self::Open => "open",
        }
    }

    /// Returns the number for this state in metrics: 0 closed, 1 half-open, 2 open.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Closed => 0,
            Self::HalfOpen => 1,
            Self::Open => 2,
        }
    }
}

/// What a batch told about the destination.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Whether anything was confirmed.
    pub(super) confirmed: bool,
    /// Whether the destination refused for its own sake.
    pub(super) away: bool,
    /// When it asked to be tried again.
    pub(super) retry_after: Option<Duration>,
    /// The lanes, as numbers, whose messages were neither confirmed nor refused for their own sake.
    pub(super) failed: Vec<u64>,
    /// The lanes whose messages were refused for their own sake.
    pub(super) refused: Vec<u64>,
    /// Why something failed: what the destination said for its own sake, if it did.
    pub(super) why: Box<str>,
}

/// What a batch changed of a circuit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Turn {
    Closed,
    None,
    Opened,
}

/// How much may be sent now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Allowed {
    All,
    Nothing,
    One,
}

#[derive(Debug)]
pub(super) struct Circuit {
    state: State,
    /// How often it opened in a row.
    opened: u32,
    /// Lanes that failed since something was last confirmed; full at [`LANES`].
    failed: HashSet<u64>,
    /// Lanes that were refused since then; full at [`LANES_REFUSED`].
    refused: HashSet<u64>,
    backoff: Backoff,
    retry_after_max: Duration,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed,
    Open { until: Monotonic },
    Probing,
}

impl Circuit {
    pub(super) fn new(backoff: Backoff, retry_after_max: Duration) -> Self {
        let (failed, refused) = (HashSet::new(), HashSet::new());
        Self { state: State::Closed, opened: 0, failed, refused, backoff, retry_after_max }
    }

    pub(super) fn allowed(&self, now: Monotonic) -> Allowed {
        match self.state {
            State::Closed => Allowed::All,
            State::Open { until } if now >= until => Allowed::One,
            State::Open { .. } | State::Probing => Allowed::Nothing,
        }
    }

    /// A probe is on its way.
    pub(super) const fn probes(&mut self) {
        if matches!(self.state, State::Open { .. }) {
            self.state = State::Probing;
        }
    }

    /// A probe was not sent after all.
    pub(super) const fn unprobed(&mut self, now: Monotonic) {
        if matches!(self.state, State::Probing) {
            self.state = State::Open { until: now };
        }
    }

    /// When it may be probed.
    pub(super) const fn wakes(&self) -> Option<Monotonic> {
        match self.state {
            State::Open { until } => Some(until),
            State::Closed | State::Probing => None,
        }
    }

    pub(super) const fn state(&self) -> CircuitState {
        match self.state {
            State::Closed => CircuitState::Closed,
            State::Open { .. } => CircuitState::Open,
            State::Probing => CircuitState::HalfOpen,
        }
    }

    /// Draws the conclusion of a batch; says what it changed.
    pub(super) fn heard(
        &mut self,
        verdict: &Verdict,
        now: Monotonic,
        entropy: &dyn Entropy,
    ) -> Turn {
        let was_open = !matches!(self.state, State::Closed);
        if self.opens(verdict, now, entropy) {
            return if was_open { Turn::None } else { Turn::Opened };
        }
        let is_open = !matches!(self.state, State::Closed);
        if was_open && !is_open { Turn::Closed } else { Turn::None }
    }

    /// Says whether the circuit opened, anew or once more.
    fn opens(&mut self, verdict: &Verdict, now: Monotonic, entropy: &dyn Entropy) -> bool {
        if verdict.confirmed {
            self.failed.clear();
            self.refused.clear();
            self.opened = 0;
            self.state = State::Closed;
        } else {
            extend(&mut self.failed, &verdict.failed, LANES);
            extend(&mut self.refused, &verdict.refused, LANES_REFUSED);
        }
        let probing = matches!(self.state, State::Probing);
        let fails = !verdict.failed.is_empty() || !verdict.refused.is_empty();
        let all = self.failed.len() >= LANES || self.refused.len() >= LANES_REFUSED;
        let failing = fails && (probing || all);
        if !verdict.away && !failing {
            return false;
        }
        let was_closed = matches!(self.state, State::Closed);
        // What was on its way when the circuit opened tells nothing new.
        if let State::Open { until } = self.state
            && !verdict.away
            && now < until
        {
            return false;
        }
        if was_closed || probing {
            self.opened = self.opened.saturating_add(1);
        }
        let asked = verdict.retry_after.unwrap_or_default().min(self.retry_after_max);
        let until = now.after(self.backoff.wait(self.opened, entropy).max(asked));
        let until = match self.state {
            State::Open { until: before } => before.max(until),
            State::Closed | State::Probing => until,
        };
        self.state = State::Open { until };
        was_closed
    }
}

fn extend(kept: &mut HashSet<u64>, lanes: &[u64], max: usize) {
    for lane in lanes {
        if kept.len() >= max {
            return;
        }
        kept.insert(*lane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::SystemEntropy;

    fn circuit() -> Circuit {
        let backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(30) };
        Circuit::new(backoff, Duration::from_secs(300))
    }

    fn failed(lanes: &[u64]) -> Verdict {
        Verdict { failed: lanes.to_vec(), ..Verdict::default() }
    }

    fn away(retry_after: Option<Duration>) -> Verdict {
        Verdict { away: true, retry_after, ..failed(&[1]) }
    }

    #[test]
    fn one_lane_that_fails_for_ever_opens_nothing() {
        let (mut circuit, now) = (circuit(), Monotonic::default());
        for _ in 0..100 {
            assert_eq!(circuit.heard(&failed(&[7]), now, &SystemEntropy), Turn::None);
        }
        assert_eq!(circuit.allowed(now), Allowed::All);
    }

    #[test]
    fn everything_that_fails_opens_it_and_one_confirmation_closes_it() {
        let (mut circuit, now) = (circuit(), Monotonic::default());
        assert_eq!(circuit.heard(&failed(&[1, 2, 3, 4, 5]), now, &SystemEntropy), Turn::Opened);
        assert_eq!(circuit.allowed(now), Allowed::Nothing);
        let later = now.after(Duration::from_millis(100));
        assert_eq!(circuit.allowed(later), Allowed::One);
        circuit.probes();
        assert_eq!(
            (circuit.allowed(later), circuit.state()),
            (Allowed::Nothing, CircuitState::HalfOpen)
        );
        assert_eq!(circuit.heard(&failed(&[9]), later, &SystemEntropy), Turn::None);
        assert_eq!(circuit.state(), CircuitState::Open);
        let late = later.after(Duration::from_millis(200));
        assert_eq!(circuit.allowed(late), Allowed::One);
        circuit.probes();
        let confirmed = Verdict { confirmed: true, ..Verdict::default() };
        assert_eq!(circuit.heard(&confirmed, late, &SystemEntropy), Turn::Closed);
        assert_eq!(circuit.allowed(late), Allowed::All);
        assert_eq!(circuit.heard(&confirmed, late, &SystemEntropy), Turn::None);
    }

    #[test]
    fn a_destination_that_says_when_is_believed_within_a_bound() {
        let (mut circuit, now) = (circuit(), Monotonic::default());
        let said = circuit.heard(&away(Some(Duration::from_secs(20))), now, &SystemEntropy);
        assert_eq!(said, Turn::Opened);
        assert_eq!(circuit.wakes(), Some(now.after(Duration::from_secs(20))));
        let mut other = self::circuit();
        other.heard(&away(Some(Duration::from_secs(1_000_000))), now, &SystemEntropy);
        assert_eq!(other.wakes(), Some(now.after(Duration::from_secs(300))));
    }
}
