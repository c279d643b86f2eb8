//! Settlements: written at once when a pass ends, else a few times a second.

use std::sync::Arc;

use super::{calls::Report, driver::Driver, term::Term};
use crate::{
    clock::Monotonic,
    error::StoreError,
    outbox::store::{READ_MAX, Settle, Settled, Unpark},
    telemetry::{count, count_many},
};

impl Driver {
    /// When something is to be settled.
    pub(super) fn settles_at(&self, term: &Term) -> Option<Monotonic> {
        let settler = &term.settler;
        if settler.ask.asking {
            return None;
        }
        if settler.current.is_some() {
            return Some(settler.ask.at);
        }
        let now = Monotonic::default();
        if !settler.unpark.is_empty() {
            return Some(now);
        }
        match term.ledger.settleable()? {
            true => Some(now),
            false if self.closing.has_begun() && self.flights.is_empty() => Some(now),
            // What is not settled takes the room of what could be read.
            false if term.ledger.ready() >= self.policy.events_max / 4 => Some(now),
            false => Some(settler.last.after(self.policy.settle_every)),
        }
    }

    /// Says whether nothing is left to settle.
    pub(super) fn is_settled(&self, term: &Term) -> bool {
        let settler = &term.settler;
        !settler.ask.asking
            && !term.due.asking
            && !term.parked.owes()
            && settler.current.is_none()
            && settler.unpark.is_empty()
            && term.ledger.settleable().is_none()
    }

    pub(super) fn settle(&mut self, term: &mut Term, now: Monotonic) {
        if self.settles_at(term).is_none_or(|at| now < at) {
            return;
        }
        let settle = match term.settler.current.take() {
            Some(again) => again,
            None => {
                let next = next(term);
                term.aside.settles(&next.park);
                next
            }
        };
        term.settler.current = Some(settle.clone());
        term.settler.ask.asking = true;
        term.settler.last = now;
        let store = Arc::clone(&self.calls.store);
        let call = async move { store.settle(settle).await };
        self.calls.ask(term.nth, self.store_wait(), call, Report::Settled);
    }

    pub(super) fn settled(
        &mut self,
        term: &mut Term,
        answer: Result<Settled, StoreError>,
        now: Monotonic,
    ) {
        let settled = self.noted(answer, now);
        term.settler.ask.answered(settled.is_none(), now, &*self.entropy);
        match settled {
            Some(Settled::Stored) => self.stored(term, now),
            Some(Settled::Stale) => {
                count(&self.counters.late);
                term.lost = true;
            }
            // It may be stored: the very same is asked, until the store says so.
            None => {}
        }
    }

    fn stored(&mut self, term: &mut Term, now: Monotonic) {
        let Some(settle) = term.settler.current.take() else {
            return;
        };
        term.aside.stored();
        count(&self.counters.settlements);
        count_many(&self.counters.parked, settle.park.len());
        let lanes = settle.park.iter().map(|row| &row.placed.event.lane);
        if term.parked.stored(lanes, settle.unpark.iter().map(place)) {
            term.due.at = now;
        }
        if settle.ends {
            term.reader.closed(now);
        }
    }
}

/// What is to be settled next.
fn next(term: &mut Term) -> Settle {
    let progress = term.ledger.take(READ_MAX);
    let rows = term.settler.unpark.len().min(READ_MAX);
    Settle {
        destination: term.leader.destination.clone(),
        epoch: term.leader.epoch,
        upto: progress.upto.and_then(|pos| Some((term.reader.upto?.0, pos))),
        ends: progress.ends,
        park: progress.park,
        unpark: term.settler.unpark.drain(..rows).collect(),
    }
}

const fn place(unpark: &Unpark) -> u64 {
    match unpark {
        Unpark::Failed { seq, .. } | Unpark::LeftOut { seq } | Unpark::Sent { seq } => *seq,
    }
}
