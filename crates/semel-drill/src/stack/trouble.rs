//! What is made to go wrong, and when it was.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use clap::ValueEnum;
use serde::Serialize;

/// How long after a trouble is over it may still be felt: connections are made anew, renewals catch
/// up.
const ECHO: Duration = Duration::from_secs(1);

/// One kind of trouble.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Trouble {
    /// Connections to the upstream or to the database are cut, refused, or lose a request or a reply.
    Cut,
    /// What goes to the upstream or to the database is late, or held back past the lease.
    Delay,
    /// The primary dies and its synchronous standby takes over.
    Failover,
    /// `kill -9` of a gateway.
    Kill,
    /// The power of the store's disk is cut.
    Power,
    /// A gateway or the database is shut down and started, or the database is killed.
    Restart,
    /// The clock of the store jumps back and forth.
    Skew,
    /// A gateway stands still past its lease and goes on as if nothing had been.
    Stop,
}

/// A trouble, whom it met and when.
#[derive(Clone, Copy, Debug)]
struct Event {
    trouble: Trouble,
    /// Everybody if none is named.
    gateway: Option<usize>,
    from: Instant,
    to: Option<Instant>,
}

/// All trouble so far.
#[derive(Debug, Default)]
pub(super) struct Log(Mutex<Vec<Event>>);

impl Log {
    /// Notes that a trouble begins, and returns its number.
    pub(super) fn begin(&self, trouble: Trouble, gateway: Option<usize>) -> usize {
        let mut events = self.lock();
        events.push(Event { trouble, gateway, from: Instant::now(), to: None });
        events.len() - 1
    }

    /// Notes that a trouble is over.
    pub(super) fn end(&self, number: usize) {
        self.lock()[number].to = Some(Instant::now());
    }

    /// Counts the troubles by their kind.
    pub(super) fn counts(&self) -> BTreeMap<Trouble, usize> {
        let mut counts = BTreeMap::new();
        for event in &*self.lock() {
            *counts.entry(event.trouble).or_default() += 1;
        }
        counts
    }

    /// Says whether any of these gateways was in trouble at any time between two instants.
    pub(super) fn met(&self, gateways: Asked, from: Instant, to: Instant) -> bool {
        let meets = |event: &Event| {
            event.gateway.is_none_or(|gateway| gateways.has(gateway))
                && event.from <= to
                && event.to.is_none_or(|ended| ended + ECHO >= from)
        };
        self.lock().iter().any(meets)
    }

    /// Says whether a server may have lost what it acknowledged between two instants, by trouble of its own
    /// of one of these kinds: each takes what is no older than so long before it, and what was said during it.
    pub(super) fn may_have_lost(
        &self,
        losses: &[(Trouble, Duration)],
        from: Instant,
        to: Instant,
    ) -> bool {
        let took = |event: &Event| {
            let kind = losses.iter().find(|(trouble, _)| *trouble == event.trouble);
            kind.is_some_and(|(_, before)| {
                event.gateway.is_none()
                    && event.from <= to + *before
                    && event.to.is_none_or(|ended| ended + ECHO >= from)
            })
        };
        self.lock().iter().any(took)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which gateways were asked for an intent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Asked(u64);

impl Asked {
    /// Adds a gateway.
    pub(super) fn add(&mut self, gateway: usize) {
        self.0 |= 1 << gateway;
    }

    fn has(self, gateway: usize) -> bool {
        self.0 & (1 << gateway) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a trouble of gateway 1 (or of all) explains what was asked of `gateway` `late` after it
    /// was over.
    fn check(whom: Option<usize>, gateway: usize, late: Duration, explains: bool) {
        let log = Log::default();
        let number = log.begin(Trouble::Kill, whom);
        log.end(number);
        let mut asked = Asked::default();
        asked.add(gateway);
        let from = Instant::now() + late;
        assert_eq!(log.met(asked, from, from), explains);
    }

    #[test]
    fn only_trouble_of_its_own_gateway_and_time_explains_an_unknown_intent() {
        check(Some(1), 1, Duration::ZERO, true);
        check(None, 0, Duration::ZERO, true);
        check(Some(1), 0, Duration::ZERO, false);
        check(Some(1), 1, Duration::from_secs(5), false);
    }

    #[test]
    fn only_what_was_said_shortly_before_it_is_lost_by_a_power_cut() {
        let (log, second) = (Log::default(), Duration::from_secs(1));
        let begun = Instant::now() + 10 * second;
        let (from, to) = (begun, Some(begun + second));
        for (trouble, gateway) in [(Trouble::Power, None), (Trouble::Stop, Some(0))] {
            log.lock().push(Event { trouble, gateway, from, to });
        }
        let losses = [(Trouble::Power, 2 * second)];
        let may = |from, to| {
            log.may_have_lost(
                &losses,
                begun + from * second - 5 * second,
                begun + to * second - 5 * second,
            )
        };
        assert!(!may(0, 2) && may(0, 3) && may(0, 5) && may(6, 9) && !may(8, 9));
        assert!(
            !log.may_have_lost(&[(Trouble::Stop, second)], begun, begun),
            "a gateway loses nothing"
        );
        assert!(!log.may_have_lost(&[], begun, begun));
    }

    #[test]
    fn trouble_that_is_not_over_explains_what_comes_later_and_not_what_was_before() {
        let (log, before) = (Log::default(), Instant::now());
        let mut asked = Asked::default();
        asked.add(0);
        let begun = before + Duration::from_millis(1);
        while Instant::now() < begun {}
        log.begin(Trouble::Stop, Some(0));
        assert!(log.met(asked, before, Instant::now() + Duration::from_secs(60)));
        assert!(!log.met(asked, before, before));
        assert_eq!(log.counts(), BTreeMap::from([(Trouble::Stop, 1)]));
    }
}
