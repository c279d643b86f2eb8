//! What is read: windows of the current pass, parked rows that are due, and which lanes are parked.

use std::{sync::Arc, time::Duration};

use super::{
    calls::Report,
    driver::Driver,
    lanes::{Item, Origin},
    parked::Listed,
    term::Term,
};
use crate::{
    clock::Monotonic,
    error::StoreError,
    outbox::{
        event::Lane,
        store::{Due, Park, Parked, ParkedState, Placed, READ_MAX, Unpark, Window},
    },
    telemetry::{count, count_many},
};

/// How often due rows are looked for while nothing tells of any: an operator's word is heard within
/// this time.
const DUE_EVERY: Duration = Duration::from_secs(1);

/// How many more due rows than those in hand are asked for.
const DUE_MORE: usize = 256;

/// How many parked rows are in hand at most.
const DUE_MAX: usize = 2_000;

/// The least room for bytes of parked rows with which more are asked for.
const DUE_BYTES: usize = 64 * 1024;

/// How long at most nothing is read, so that parked lanes catch up: at most an eighth of the time.
const CATCH_UP: Duration = Duration::from_millis(250);

/// The least time between two listings of parked lanes.
const LIST_EVERY: Duration = Duration::from_millis(500);

impl Driver {
    /// Says whether a window may be read, apart from when.
    pub(super) fn may_read(&self, term: &Term) -> bool {
        let bounded = term.parked.known && term.parked.len() <= self.policy.parked_lanes_max;
        let reader = &term.reader;
        // A store that takes no settlements gets no more to settle.
        let settles = term.settler.ask.failures == 0;
        bounded && settles && !reader.ask.asking && !reader.ended && term.has_room(&self.policy)
    }

    pub(super) fn read(&mut self, term: &mut Term, now: Monotonic) {
        let waits = now < term.reader.ask.at.max(term.catches_up.0);
        if !self.may_read(term) || waits || now >= term.sends_until {
            return;
        }
        term.reader.ask.asking = true;
        term.reader.again = false;
        let room = self.policy.events_max.saturating_sub(term.ledger.len());
        let limit = self.policy.window_max.min(room).max(1);
        let bytes = self.policy.bytes_max.saturating_sub(term.ledger.bytes()).max(1);
        let (store, leader, after) =
            (Arc::clone(&self.calls.store), term.leader.clone(), term.reader.upto);
        let read = async move { store.read(leader, after, limit, bytes).await };
        self.calls.ask(term.nth, self.store_wait(), read, Report::Read);
    }

    pub(super) fn have_read(
        &mut self,
        term: &mut Term,
        answer: Result<Window, StoreError>,
        now: Monotonic,
    ) {
        let window = self.noted(answer, now);
        let reader = &mut term.reader;
        reader.ask.answered(window.is_none(), now, &*self.entropy);
        let Some(window) = window else { return };
        self.board.knows(now);
        term.store_time = Some((window.now, now));
        let Some(pass) = window.pass else {
            reader.idle = reader.idle.saturating_add(1);
            let doubled = Duration::from_millis(1 << reader.idle.saturating_sub(1).min(16));
            let wait = doubled.min(self.policy.poll_idle);
            reader.ask.at = if reader.again { now } else { now.after(wait) };
            return;
        };
        if reader.upto.is_some_and(|(current, _)| current != pass) {
            // Somebody has closed the pass: another leads.
            term.lost = true;
            return;
        }
        reader.idle = 0;
        reader.ask.at = now;
        reader.upto = Some((pass, window.upto));
        reader.ended = window.ends;
        self.take_in(term, window);
    }

    /// Sorts a window into lanes, and what belongs behind parked rows to them.
    fn take_in(&self, term: &mut Term, window: Window) {
        let mut not_routed = 0;
        for placed in window.events {
            let nth = term.ledger.enter(placed.pos, placed.at, placed.event.size());
            let lane = &placed.event.lane;
            if !self.plan.routes.gets(&placed) {
                not_routed += 1;
                term.ledger.done(nth);
            } else if term.parked.contains(lane) && !goes_behind(term, lane) {
                term.parked.parks(lane);
                term.ledger.park(nth, behind(placed));
            } else {
                term.lanes.push(Item::new(placed, Origin::Cursor(nth)));
            }
        }
        count_many(&self.counters.not_routed, not_routed);
        term.ledger.enter_upto(window.upto, window.ends);
    }

    pub(super) fn ask_due(&mut self, term: &mut Term, now: Monotonic) {
        let (in_hand, bytes) = term.parked.in_hand();
        let bytes_max = self.policy.bytes_max / 4;
        let full = in_hand >= DUE_MAX || (in_hand > 0 && bytes + DUE_BYTES > bytes_max);
        if !term.due.is_due(now) || !term.parked.known || full {
            return;
        }
        term.due.asking = true;
        term.aside.asks();
        term.due.at = now.after(DUE_EVERY);
        term.parked.asks();
        let (store, destination) = (Arc::clone(&self.calls.store), self.plan.destination.clone());
        // What is in hand is told again.
        let (limit, bytes_max) = ((in_hand + DUE_MORE).min(READ_MAX), bytes + bytes_max);
        let due = async move { store.due(destination, limit, bytes_max).await };
        self.calls.ask(term.nth, self.store_wait(), due, Report::Due);
    }

    pub(super) fn heard_due(
        &mut self,
        term: &mut Term,
        answer: Result<Vec<Due>, StoreError>,
        now: Monotonic,
    ) {
        let due = self.noted(answer, now);
        term.due.answered(due.is_none(), now, &*self.entropy);
        let answered = due.is_some();
        if let Some(due) = &due {
            term.aside.told(due.iter().flat_map(|due| &due.rows));
        }
        let mut nearly = false;
        for due in due.unwrap_or_default() {
            self.heed(term, &due);
            nearly |= self.take_due(term, due);
        }
        catch_up(term, nearly, now);
        term.parked.answered();
        if answered && self.closing.has_begun() {
            term.parked.forgive();
        }
    }

    /// Takes what a parked lane sends next in hand. Says whether that was all of it but for what was
    /// parked since it was asked.
    fn take_due(&mut self, term: &mut Term, Due { rows, whole }: Due) -> bool {
        let Some(lane) = rows.first().map(|head| head.placed.event.lane.clone()) else {
            return false;
        };
        if !term.parked.takes(&lane) {
            return false;
        }
        let fresh: Vec<Parked> =
            rows.into_iter().filter(|row| !term.parked.knows(row.seq)).collect();
        if !fresh.is_empty() {
            // An operator may have parked some, or a settlement came late that was repeated meanwhile.
            term.parked.saw(&lane);
            self.joins(term, &lane);
        }
        if term.lanes.find(&lane).is_some_and(|nth| term.lanes.is_kept(nth)) {
            return false;
        }
        for row in fresh {
            if term.parked.in_hand().0 >= DUE_MAX {
                return false;
            }
            self.take_row(term, row, &lane);
        }
        if whole {
            term.parked.has_all(&lane);
        }
        whole && term.parked.contains(&lane) && !term.parked.is_whole(&lane)
    }

    fn take_row(&mut self, term: &mut Term, row: Parked, lane: &Lane) {
        let seq = row.seq;
        term.parked.take(&row);
        match row.state {
            ParkedState::Drop | ParkedState::Skip => {
                count(&self.counters.left_out);
                term.parked.halt(lane, seq);
                term.settler.unpark.push(Unpark::LeftOut { seq });
            }
            _ if term.parked.is_confirmed(row.placed.event.id) => {
                term.settler.unpark.push(Unpark::Sent { seq });
            }
            // A replay names events and not where they go, and a configuration changes: what is parked
            // counts as delivered as what is read does.
            _ if !self.plan.routes.gets(&row.placed) => {
                self.tell_not_routed(&row.placed);
                term.settler.unpark.push(Unpark::Sent { seq });
            }
            state => term.lanes.push(again(row, state)),
        }
    }

    /// What is in hand of a lane comes behind its parked rows from now on: what is not parked of a
    /// parked lane is only sent when nothing is parked of it that is not in hand before that.
    fn joins(&mut self, term: &mut Term, lane: &Lane) {
        if let Some(nth) = term.lanes.find(lane) {
            self.park_lane(term, nth, None);
        }
    }

    pub(super) fn list_parked(&mut self, term: &mut Term, now: Monotonic) {
        if !term.listing.is_due(now) || !term.parked.wants_listing() {
            return;
        }
        self.list_on(term);
    }

    fn list_on(&mut self, term: &mut Term) {
        term.listing.asking = true;
        let (store, destination) = (Arc::clone(&self.calls.store), self.plan.destination.clone());
        let after = term.parked.list();
        let list = async move { store.parked_lanes(destination, after).await };
        self.calls.ask(term.nth, self.store_wait(), list, Report::Listed);
    }

    pub(super) fn listed(
        &mut self,
        term: &mut Term,
        answer: Result<Vec<Lane>, StoreError>,
        now: Monotonic,
    ) {
        let page = self.noted(answer, now);
        term.listing.answered(page.is_none(), now, &*self.entropy);
        let Some(page) = page else { return term.parked.unlisted() };
        term.listing.at = now.after(LIST_EVERY);
        match term.parked.listed(page, self.policy.parked_lanes_max) {
            Listed::All(new) => new.iter().for_each(|lane| self.joins(term, lane)),
            Listed::More => self.list_on(term),
        }
    }
}

/// Lets lanes catch up of which all is in hand but for what was parked meanwhile. While events of such a
/// lane come as fast as they are parked, it would never be whole: nothing is read for a moment then.
fn catch_up(term: &mut Term, nearly: bool, now: Monotonic) {
    let (until, again) = &mut term.catches_up;
    if !nearly {
        *until = now;
    } else if now >= *again {
        (*until, *again) = (now.after(CATCH_UP), now.after(CATCH_UP * 8));
    }
}

/// A row that waits for those before it.
pub(super) fn behind(placed: Placed) -> Park {
    Park { placed, state: ParkedState::Behind, attempts: 0, why: "".into() }
}

/// Says whether what is read of a parked lane stands behind what is parked of it, in hand: if that is
/// all there is, and nothing keeps it.
fn goes_behind(term: &Term, lane: &Lane) -> bool {
    let is_kept = term.lanes.find(lane).is_some_and(|nth| term.lanes.is_kept(nth));
    term.parked.is_whole(lane) && !is_kept
}

/// A parked row in hand: it goes on failing since it was parked, if it was refused before.
fn again(row: Parked, state: ParkedState) -> Item {
    let mut item = Item::new(row.placed, Origin::Parked { seq: row.seq, state });
    item.attempts = row.attempts;
    item.refused_at = (row.attempts > 0).then_some(row.parked_at);
    item
}
