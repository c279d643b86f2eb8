//! Leadership: asked for, renewed, lost and given up.

use std::{sync::Arc, time::Duration};

use super::{
    calls::Report,
    driver::{Driver, Next},
    term::Term,
};
use crate::{
    backoff::share,
    clock::Monotonic,
    error::StoreError,
    outbox::store::{Lead, Led, Settled},
    telemetry::count,
};

/// How long whoever does not lead waits at most until it asks again: a leader that resigns is followed
/// within this time.
const FOLLOW: Duration = Duration::from_secs(1);

/// What is added to a wait at most, so that followers do not ask together.
const SPREAD: Duration = Duration::from_millis(50);

impl Driver {
    /// Asks to lead, once what was sent before can no longer arrive.
    pub(super) fn ask_to_lead(&mut self, now: Monotonic) -> Next {
        let busy = self.away.ask.asking || self.away.resigning || !self.flights.is_empty();
        if self.closing.has_begun() && !busy {
            return Next::End;
        }
        if busy || !self.away.ask.is_due(now) {
            let wakes = [self.closing.until(), (!busy).then_some(self.away.ask.at)];
            let later = wakes.into_iter().flatten().filter(|at| *at > now);
            return Next::Sleep(later.fold(now.after(FOLLOW), Monotonic::min));
        }
        self.away.ask.asking = true;
        let ask = Lead {
            destination: self.plan.destination.clone(),
            owner: self.owner.clone(),
            lease: self.lease,
            start: self.plan.start,
        };
        let store = Arc::clone(&self.calls.store);
        let told = move |answer| Report::Led { asked: now, answer };
        self.calls.ask(
            self.term_last,
            self.store_wait(),
            async move { store.lead(ask).await },
            told,
        );
        Next::Sleep(now.after(FOLLOW))
    }

    pub(super) fn led(
        &mut self,
        asked: Monotonic,
        answer: Result<Led, StoreError>,
        now: Monotonic,
    ) {
        let led = self.noted(answer, now);
        self.away.ask.answered(led.is_none(), now, &*self.entropy);
        match led {
            Some(Led::Leader(leader)) => {
                self.term_last += 1;
                count(&self.counters.leads);
                let epoch = leader.epoch.0;
                tracing::info!(destination = %leader.destination, epoch, "the relay leads");
                let waits = (self.lease, self.can.publish_wait);
                let term = Term::new(self.term_last, leader, (asked, now), waits, &self.policy);
                self.board.leads(true);
                self.term = Some(Box::new(term));
            }
            Some(Led::Follower { ends_in, .. }) => {
                self.board.follows(now);
                let wait = ends_in.min(FOLLOW) + share(SPREAD, &*self.entropy);
                self.away.ask.at = now.after(wait);
            }
            None => {}
        }
    }

    /// Renews three times in a lease.
    pub(super) fn renew(&mut self, term: &mut Term, now: Monotonic) {
        if !term.renewal.is_due(now) {
            return;
        }
        term.renewal.asking = true;
        let (store, leader, lease) =
            (Arc::clone(&self.calls.store), term.leader.clone(), self.lease);
        let told = move |answer| Report::Renewed { asked: now, answer };
        let renew = async move { store.renew(leader, lease).await };
        self.calls.ask(term.nth, self.store_wait(), renew, told);
    }

    /// Judges a renewal by when it was asked for, however late its answer comes.
    pub(super) fn renewed(
        &mut self,
        term: &mut Term,
        asked: Monotonic,
        answer: Result<Settled, StoreError>,
        now: Monotonic,
    ) {
        let renewed = self.noted(answer, now);
        term.renewal.answered(renewed.is_none(), now, &*self.entropy);
        match renewed {
            Some(Settled::Stored) => {
                let until = Term::sends_until(asked, self.lease, self.can.publish_wait);
                term.sends_until = term.sends_until.max(until);
                term.renewal.at = asked.after(self.lease / 3);
            }
            Some(Settled::Stale) => term.lost = true,
            None => {}
        }
    }

    /// Drops everything in hand: whoever leads now reads it from the store.
    pub(super) fn lose(&mut self, term: &Term, now: Monotonic) {
        count(&self.counters.lost);
        let (destination, epoch) = (&term.leader.destination, term.leader.epoch.0);
        tracing::warn!(%destination, epoch, "the relay no longer leads; what was in hand is void");
        self.away.ask.at = now.after(share(SPREAD, &*self.entropy));
        self.give_up(term);
    }

    /// Gives a leadership up. Where it is lost already this changes nothing; where only an answer was
    /// lost, nobody need wait for the lease.
    pub(super) fn give_up(&mut self, term: &Term) {
        self.board.leads(false);
        self.away.resigning = true;
        let (store, leader) = (Arc::clone(&self.calls.store), term.leader.clone());
        let resign = async move { store.resign(leader).await };
        self.calls.ask(term.nth, self.store_wait(), resign, |_| Report::Resigned);
    }

    /// How long a call of the store may take: a hanging one must leave time for another.
    pub(super) fn store_wait(&self) -> Duration {
        self.policy.store_wait.min(self.lease / 3)
    }
}
