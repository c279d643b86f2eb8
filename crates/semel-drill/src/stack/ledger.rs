//! What was done: the upstream's own books, which survive everything but the drill.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use semel_testkit::history::Told;

use super::settings::Upstream;

/// The effects of every intent, by its number.
#[derive(Debug)]
pub(super) struct Ledger {
    keyed: bool,
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    effects: u64,
    by_intent: HashMap<u64, Page>,
}

/// What stands under one intent.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    /// How often it was done.
    pub(super) effects: usize,
    /// How often it was asked for.
    pub(super) requests: u64,
    /// Whether a request was left without an answer that tells what happened.
    pub(super) unanswered: bool,
    /// Whether an answer broke off, so that nobody can keep it.
    pub(super) broke_off: bool,
    /// What its first effect was answered with.
    pub(super) done: Option<Told>,
    /// What it was refused with for good.
    pub(super) refused: Option<Told>,
}

impl Page {
    /// Says whether an answer is this intent's own.
    pub(super) fn is_own(&self, told: &Told) -> bool {
        self.done.as_ref() == Some(told) || self.refused.as_ref() == Some(told)
    }
}

impl Ledger {
    pub(super) fn new(upstream: Upstream) -> Self {
        Self { keyed: upstream == Upstream::Keyed, pages: Mutex::default() }
    }

    /// Notes a request, and returns the how manieth of its intent it is.
    pub(super) fn asked(&self, number: u64) -> u64 {
        let mut pages = self.lock();
        let page = pages.by_intent.entry(number).or_default();
        page.requests += 1;
        page.requests
    }

    /// Does what was asked, or finds it settled where the key is honoured; returns what to answer.
    pub(super) fn act(&self, number: u64) -> Told {
        match self.known(number) {
            Some(settled) => settled,
            None => self.done(number),
        }
    }

    /// Notes an effect, unless there is one where the key is honoured; returns what to answer.
    pub(super) fn done(&self, number: u64) -> Told {
        let mut pages = self.lock();
        let Pages { effects, by_intent } = &mut *pages;
        let page = by_intent.entry(number).or_default();
        if let Some(done) = page.done.as_ref().filter(|_| self.keyed) {
            return done.clone();
        }
        *effects += 1;
        page.effects += 1;
        let told = Told { status: 201, body: receipt(number, *effects) };
        page.done.get_or_insert_with(|| told.clone());
        told
    }

    /// Returns what an intent is settled as, where the key is honoured.
    pub(super) fn known(&self, number: u64) -> Option<Told> {
        self.lock().by_intent.get(&number).and_then(|page| self.settled(page))
    }

    /// Makes good that nobody heard of effects that there are: the books of the application have so many.
    pub(super) fn has_at_least(&self, number: u64, effects: u64) {
        while self
            .lock()
            .by_intent
            .get(&number)
            .is_none_or(|page| u64::try_from(page.effects).unwrap_or(u64::MAX) < effects)
        {
            self.done(number);
        }
    }

    /// Refuses for good, unless it is settled where the key is honoured; returns what to answer.
    pub(super) fn refuse(&self, number: u64) -> Told {
        let mut pages = self.lock();
        let page = pages.by_intent.entry(number).or_default();
        if let Some(settled) = self.settled(page) {
            return settled;
        }
        let body = format!("{{\"declined\":{number}}}").into();
        page.refused.get_or_insert(Told { status: 402, body }).clone()
    }

    /// Notes that a request gets no answer that tells what happened.
    pub(super) fn unanswered(&self, number: u64) {
        self.lock().by_intent.entry(number).or_default().unanswered = true;
    }

    /// Notes that an answer breaks off.
    pub(super) fn breaks_off(&self, number: u64) {
        self.lock().by_intent.entry(number).or_default().broke_off = true;
    }

    /// Returns what stands under an intent.
    pub(super) fn page(&self, number: u64) -> Page {
        self.lock().by_intent.get(&number).cloned().unwrap_or_default()
    }

    /// Returns how many effects there are.
    pub(super) fn effects(&self) -> u64 {
        self.lock().effects
    }

    fn settled(&self, page: &Page) -> Option<Told> {
        page.done.as_ref().or(page.refused.as_ref()).filter(|_| self.keyed).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an effect is answered with: it names the intent and the effect, and some are long.
fn receipt(number: u64, effect: u64) -> Bytes {
    const LONG: usize = 6 << 10;
    let length = if number.is_multiple_of(97) { LONG } else { 0 };
    format!("{{\"intent\":{number},  \"effect\":{effect}, \"pad\":\"{:length$}\"}}", "").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_naive_upstream_acts_whenever_it_is_asked() {
        let ledger = Ledger::new(Upstream::Naive);
        let (first, second) = (ledger.act(7), ledger.act(7));
        assert_ne!(first, second);
        let page = ledger.page(7);
        assert!(page.is_own(&first) && !page.is_own(&second));
        assert_eq!((page.effects, ledger.effects()), (2, 2));
    }

    #[test]
    fn a_keyed_upstream_acts_once_and_keeps_to_its_first_answer() {
        let ledger = Ledger::new(Upstream::Keyed);
        assert_eq!(ledger.act(7), ledger.act(7));
        assert_eq!(ledger.refuse(7).status, 201);
        assert_eq!((ledger.refuse(8).status, ledger.act(8).status), (402, 402));
        assert_eq!((ledger.page(7).effects, ledger.page(8).effects), (1, 0));
    }
}
