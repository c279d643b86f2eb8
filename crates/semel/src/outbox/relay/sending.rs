//! What is sent, and what becomes of it.

use std::{iter, sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    circuit::{Allowed, CircuitState, Turn, Verdict},
    driver::{Driver, Flight},
    lanes::{Item, Nth, Origin, Stuck},
    reading::behind,
    term::Term,
};
use crate::{
    clock::{Monotonic, Timestamp},
    engine::cut,
    outbox::{
        publisher::{Fault, Message, Sent},
        store::{Park, ParkedState, Placed, Unpark},
    },
    telemetry::{count, count_many},
};

/// How many lanes may be stuck without anybody doubting the destination itself.
const FEW: usize = 4;

/// How many lanes are parked aside at once: what is stuck may be the first sign of a destination that
/// is away, of which the outcomes will tell.
const ASIDE_AT_ONCE: usize = 50;

/// The items of one lane in a batch whose outcomes are told.
struct Landing {
    nth: Nth,
    /// Whether some were confirmed before one was not.
    opened: bool,
    /// The first that was not confirmed, and those behind it.
    back: Vec<Item>,
    failure: Option<Failure>,
}

struct Failure {
    kind: FailureKind,
    why: Box<str>,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum FailureKind {
    Destination,
    Message,
    Unknown,
}

impl Driver {
    /// Sends what is ready, as far as lease, circuit and bounds allow.
    pub(super) fn send(&mut self, term: &mut Term, now: Monotonic) {
        let mut misfits = Vec::new();
        while now < term.sends_until && self.flights.len() < self.can.batches_max.max(1) {
            let max = match self.circuit.allowed(now) {
                Allowed::All => self.can.batch_max.max(1),
                Allowed::Nothing => break,
                Allowed::One => 1,
            };
            let payload_max = self.can.payload_max;
            let fits = |item: &Item| unsendable(item, payload_max).is_none();
            let at = (now, self.confirmed);
            let sends = term.lanes.take(max, self.can.pipelined, fits, &mut misfits, at);
            if sends.is_empty() {
                break;
            }
            self.circuit.probes();
            self.launch(term, sends, now);
        }
        for nth in misfits {
            let head = term.lanes.head(nth);
            let why = head.and_then(|head| unsendable(head, self.can.payload_max));
            self.fail_for_good(term, nth, Vec::new(), (1, why.unwrap_or_default()));
        }
    }

    fn launch(&mut self, term: &Term, mut sends: Vec<(Nth, Item)>, now: Monotonic) {
        self.batch_last += 1;
        let again = sends.iter().filter(|(_, item)| item.sent).count();
        count_many(&self.counters.resent, again);
        let messages = sends.iter_mut().map(|(_, item)| {
            item.sent = true;
            Message {
                destination: self.plan.destination.clone(),
                event: Arc::clone(&item.placed.event),
                copies: item.copies,
            }
        });
        let messages: Vec<Message> = messages.collect();
        let (batch, wait) = (self.batch_last, self.can.publish_wait);
        self.flights.insert(batch, Flight { term: term.nth, began: now, sends });
        self.calls.publish(term.nth, batch, messages, term.sends_until, wait);
    }

    /// Hears the outcomes of a batch.
    pub(super) fn published(
        &mut self,
        term: &mut Term,
        flight: Flight,
        outcomes: Option<Vec<Sent>>,
        now: Monotonic,
    ) {
        let Some(outcomes) = outcomes else {
            self.circuit.unprobed(now);
            return unsent(term, flight.sends, now);
        };
        let untold = || Sent::Unknown { why: "the publisher told no outcome".into() };
        let outcomes = outcomes.into_iter().chain(iter::repeat_with(untold));
        let mut verdict = Verdict::default();
        let mut landing: Option<Landing> = None;
        for ((nth, item), sent) in flight.sends.into_iter().zip(outcomes) {
            if landing.as_ref().is_some_and(|landing| landing.nth != nth) {
                landing.take().into_iter().for_each(|landed| self.land(term, landed, now));
            }
            let new = || Landing { nth, opened: false, back: Vec::new(), failure: None };
            self.outcome(term, landing.get_or_insert_with(new), (item, sent), &mut verdict);
        }
        landing.into_iter().for_each(|landed| self.land(term, landed, now));
        if verdict.confirmed {
            let took = now.since(flight.began);
            self.pace = took.max(self.pace - self.pace / 16);
        }
        match self.circuit.heard(&verdict, now, &*self.entropy) {
            Turn::None => {}
            Turn::Closed => self.tell_closed(now),
            Turn::Opened => self.tell_opened(&verdict.why, now),
        }
    }

    /// Hears the outcome of one message.
    fn outcome(
        &mut self,
        term: &mut Term,
        landing: &mut Landing,
        (mut item, sent): (Item, Sent),
        verdict: &mut Verdict,
    ) {
        let was_away = verdict.away;
        let (kind, why) = match sent {
            Sent::Confirmed => {
                verdict.confirmed = true;
                landing.opened |= landing.failure.is_none();
                if landing.failure.is_some() {
                    self.tell_inversion(&item);
                }
                return self.confirm(term, &item);
            }
            Sent::Refused { fault: Fault::Message, why } => {
                count(&self.counters.refused);
                (FailureKind::Message, why)
            }
            Sent::Refused { fault: Fault::Destination { retry_after }, why } => {
                count(&self.counters.turned_away);
                verdict.away = true;
                verdict.retry_after = verdict.retry_after.max(retry_after);
                (FailureKind::Destination, why)
            }
            Sent::Unknown { why } => {
                count(&self.counters.unknown);
                item.copies = item.copies.saturating_add(1);
                (FailureKind::Unknown, why)
            }
        };
        let lane = u64::try_from(landing.nth).unwrap_or(u64::MAX);
        let refused = kind == FailureKind::Message;
        if refused {
            verdict.refused.push(lane)
        } else {
            verdict.failed.push(lane)
        }
        let why = cut(&why, Park::WHY_MAX);
        if verdict.why.is_empty() || (verdict.away && !was_away) {
            verdict.why.clone_from(&why);
        }
        landing.failure.get_or_insert(Failure { kind, why });
        landing.back.push(item);
    }

    fn confirm(&mut self, term: &mut Term, item: &Item) {
        self.confirmed += 1;
        count(&self.counters.sent);
        let event = &item.placed.event;
        match item.origin {
            Origin::Aside => term.parked.confirmed_aside(event.id),
            Origin::Cursor(nth) => {
                term.ledger.done(nth);
                let falls = |version| term.versions.falls(&event.lane, version);
                if event.version.is_some_and(falls) {
                    self.tell_disorder(item);
                }
            }
            Origin::Parked { seq, .. } => term.settler.unpark.push(Unpark::Sent { seq }),
        }
    }

    /// Decides what becomes of a lane whose batch is back.
    fn land(&mut self, term: &mut Term, landing: Landing, now: Monotonic) {
        let Landing { nth, opened, mut back, failure } = landing;
        leave_aside(term, nth, &mut back, now);
        let (Some(Failure { kind, why }), Some(head)) = (failure, back.first_mut()) else {
            return term.lanes.confirmed(nth);
        };
        self.tell_trouble(head, &why, now);
        if kind == FailureKind::Message {
            head.attempts = head.attempts.saturating_add(1);
            head.failing_since.get_or_insert(now);
            let operator_waits =
                matches!(head.origin, Origin::Parked { state: ParkedState::Retry, .. });
            if self.is_spent(head, term.store_time_at(now), now) || operator_waits {
                let attempts = head.attempts;
                return self.fail_for_good(term, nth, back, (attempts, why));
            }
        }
        // The circuit says when a destination that is away is tried again.
        let wait = |troubles| match kind {
            FailureKind::Destination => Duration::from_millis(1),
            FailureKind::Message | FailureKind::Unknown => {
                self.retry.wait(troubles, &*self.entropy)
            }
        };
        term.lanes.failed(nth, back, why, opened, now, wait);
        trim(term, nth);
    }

    /// Says whether a message that was refused for its own sake is given up: refused often enough, and
    /// for long enough. What was refused under leaders before is known to the store as a row that was
    /// parked with attempts; how often since then, nobody knows whose leaders keep dying. There a span
    /// stands for that number in which each of the attempts could have taken the whole of it.
    fn is_spent(&self, head: &Item, store_time: Option<Timestamp>, now: Monotonic) -> bool {
        let policy = &self.policy;
        let here = head.failing_since.map(|since| now.since(since)).unwrap_or_default();
        let since_parked = |at| store_time.map(|time: Timestamp| time.since(at));
        let before = head.refused_at.and_then(since_parked).unwrap_or_default();
        let enough = head.attempts >= policy.attempts_max && here.max(before) >= policy.failing_for;
        let each = policy.failing_for.saturating_mul(policy.attempts_max);
        enough || (head.refused_at.is_some() && before >= each)
    }

    /// The head of a lane waits for an operator from now on, and the lane behind it.
    fn fail_for_good(
        &mut self,
        term: &mut Term,
        nth: Nth,
        back: Vec<Item>,
        (attempts, why): (u32, Box<str>),
    ) {
        count(&self.counters.failed);
        term.lanes.put_back(nth, back);
        if let Some(head) = term.lanes.head(nth) {
            let (destination, event) = (&self.plan.destination, &head.placed.event);
            let (aggregate, event) = (&event.lane, event.id);
            tracing::warn!(
                %destination, %event, %aggregate, attempts, why = %why,
                "an event waits for an operator"
            );
        }
        self.park_lane(term, nth, Some((attempts, why)));
    }

    /// Says why the head of a lane was not confirmed so far.
    fn troubled(&self, term: &Term, nth: Nth) -> Option<Box<str>> {
        let failed = term.lanes.shut(nth).map(|shut| shut.why.clone());
        failed.or_else(|| {
            let secs = self.clock.monotonic().since(term.lanes.flying_since(nth)?).as_secs();
            (secs > 0).then(|| format!("there was no answer for {secs} s so far").into())
        })
    }

    /// Parks what is in hand of a lane and is not parked; its head as failed, if somebody says so, and
    /// then nothing of it stays in hand.
    pub(super) fn park_lane(&mut self, term: &mut Term, nth: Nth, failed: Option<(u32, Box<str>)>) {
        let troubled = self.troubled(term, nth);
        let mut items = self.put_aside(term, nth);
        items.extend(match failed {
            Some(_) => term.lanes.drain(nth),
            None => term.lanes.drain_unparked(nth, !items.is_empty()),
        });
        put_by(term, items, failed, troubled.as_deref());
        trim(term, nth);
    }

    /// Marks what is on its way of a lane, and is not parked, as parked; whoever reads it from there
    /// sends it on.
    fn put_aside(&mut self, term: &Term, nth: Nth) -> Vec<Item> {
        let mut items = Vec::new();
        for flight in self.flights.values_mut().filter(|flight| flight.term == term.nth) {
            let of_lane = flight.sends.iter_mut().filter(|(of, _)| *of == nth);
            for (_, item) in of_lane {
                if matches!(item.origin, Origin::Cursor(_)) {
                    items.push(item.clone());
                    item.origin = Origin::Aside;
                }
            }
        }
        items
    }

    /// Says whether what is stuck keeps the rest from being read.
    pub(super) fn is_held_up(&self, term: &Term) -> bool {
        term.ledger.waiting() > 0 && (term.reader.ended || !term.has_room(&self.policy))
    }

    /// Parks lanes that are stuck for long and hold up the rest.
    ///
    /// Not while the destination itself seems to be away, since then everything is stuck. Where so few
    /// lanes are in hand that nobody can tell whose fault it is, those are parked that failed again and
    /// again: what comes behind them will tell.
    pub(super) fn set_aside(&mut self, term: &mut Term, now: Monotonic) {
        if now < term.stuck_at || !self.is_held_up(term) {
            return;
        }
        term.stuck_at = now.after(self.policy.blocked_for / 2);
        // A destination that is slow is not stuck.
        let long = self.policy.blocked_for.max(self.pace * 4);
        let (stuck, others) = term.lanes.stuck(now, long);
        let in_hand = stuck.len() + others;
        let long: Vec<Stuck> = stuck.into_iter().filter(|stuck| stuck.long).collect();
        let (few, closed) = (long.len() <= FEW, self.circuit.state() == CircuitState::Closed);
        // What was refused for its own sake is its own fault, however many there are.
        let works = |of: &Stuck| closed && (few || of.refused || self.confirmed > of.confirmed);
        let often = |stuck: &Stuck| in_hand <= FEW && stuck.troubles >= self.policy.attempts_max;
        let aside = long.iter().filter(|stuck| works(stuck) || often(stuck)).take(ASIDE_AT_ONCE);
        for nth in aside.map(|stuck| stuck.nth).collect::<Vec<_>>() {
            count(&self.counters.set_aside);
            self.park_lane(term, nth, None);
        }
    }

    /// Tells why sends fail: each reason when it is new, and not for each event.
    fn tell_trouble(&mut self, item: &Item, why: &str, now: Monotonic) {
        if self.troubles.tells(why, now) {
            let (destination, event) = (&self.plan.destination, &item.placed.event);
            let (aggregate, event) = (&event.lane, event.id);
            tracing::warn!(
                %destination, %event, %aggregate, why,
                "an event was not taken, and is sent again; others may fare alike"
            );
        }
    }

    fn tell_opened(&mut self, why: &str, now: Monotonic) {
        count(&self.counters.circuit_opened);
        let destination = &self.plan.destination;
        // One that takes some events and turns others away opens and closes it all the time.
        if self.troubles.tells(&format!("open: {why}"), now) {
            self.opened_at = Some(now);
            tracing::warn!(%destination, why, "the destination is away; its circuit is open");
        }
    }

    fn tell_closed(&mut self, now: Monotonic) {
        let destination = &self.plan.destination;
        if let Some(at) = self.opened_at.take() {
            let after_s = now.since(at).as_secs();
            tracing::info!(%destination, after_s, "the destination takes events again; its circuit is closed");
        }
    }

    /// Tells of a parked event that is let go: whoever had it sent again waits for it.
    pub(super) fn tell_not_routed(&mut self, placed: &Placed) {
        count(&self.counters.not_routed);
        let (kind, now) = (placed.event.lane.kind(), self.clock.monotonic());
        if self.troubles.tells(&format!("not routed: {kind}"), now) {
            let (destination, event) = (&self.plan.destination, placed.event.id);
            let aggregate = &placed.event.lane;
            tracing::warn!(
                %destination, %event, %aggregate,
                "a parked event is not sent, and let go: none of its type are routed there"
            );
        }
    }

    fn tell_inversion(&self, item: &Item) {
        count(&self.counters.inversions);
        let (destination, event) = (&self.plan.destination, item.placed.event.id);
        tracing::error!(
            %destination, %event,
            "the publisher confirmed an event behind one of its lane that it did not"
        );
    }

    fn tell_disorder(&self, item: &Item) {
        let so_far = count(&self.counters.disorders);
        // A producer that counts wrongly does so all the time: told ever more rarely.
        if (so_far + 1).is_power_of_two() {
            let (destination, event) = (&self.plan.destination, item.placed.event.id);
            let aggregate = &item.placed.event.lane;
            tracing::warn!(
                %destination, %event, %aggregate,
                "an event was sent whose version is not above the one before it: does its producer \
                 lock the aggregate before it appends?"
            );
        }
    }
}

/// Says why an event can never be sent as it is.
fn unsendable(item: &Item, payload_max: usize) -> Option<Box<str>> {
    if let Some(why) = &item.placed.unreadable {
        return Some(why.clone());
    }
    let len = item.placed.event.payload.as_ref().map_or(0, Bytes::len);
    let too_large =
        || format!("its payload has {len} bytes, and this destination takes {payload_max}");
    (len > payload_max).then(|| too_large().into())
}

/// Parks what was in hand of a lane and is not parked, and puts the rest back; the first as failed, if
/// somebody says so.
pub(super) fn put_by(
    term: &mut Term,
    items: Vec<Item>,
    mut failed: Option<(u32, Box<str>)>,
    troubled: Option<&str>,
) {
    for (at, item) in items.into_iter().enumerate() {
        match item.origin {
            Origin::Aside => {}
            Origin::Cursor(entry) => {
                term.parked.parks(&item.placed.event.lane);
                let mut row = behind(item.placed);
                row.attempts = item.attempts;
                if let Some((attempts, why)) = failed.take() {
                    (row.state, row.attempts, row.why) = (ParkedState::Failed, attempts, why);
                } else if at == 0 {
                    row.why = troubled.unwrap_or_default().into();
                }
                term.ledger.park(entry, row);
            }
            Origin::Parked { seq, .. } => match failed.take() {
                Some((attempts, why)) => {
                    term.parked.halt(&item.placed.event.lane, seq);
                    term.settler.unpark.push(Unpark::Failed { seq, attempts, why });
                }
                None => term.parked.put_back(seq),
            },
        }
    }
}

/// A parked lane that is shut keeps only its head in hand, so that shut lanes leave room for others.
fn trim(term: &mut Term, nth: Nth) {
    for item in term.lanes.trim(nth) {
        if let Origin::Parked { seq, .. } = item.origin {
            term.parked.put_back(seq);
        }
    }
}

/// What is parked by now is sent on from there.
fn leave_aside(term: &mut Term, nth: Nth, back: &mut Vec<Item>, now: Monotonic) {
    if term.lanes.is_aside(nth) {
        back.retain(|item| item.origin != Origin::Aside);
        term.due.at = now;
    }
}

/// A batch was not begun: its items go back as they were.
fn unsent(term: &mut Term, sends: Vec<(Nth, Item)>, now: Monotonic) {
    let mut sends = sends.into_iter().peekable();
    while let Some((nth, first)) = sends.next() {
        let mut back = vec![first];
        while let Some((_, item)) = sends.next_if(|(of, _)| *of == nth) {
            back.push(item);
        }
        leave_aside(term, nth, &mut back, now);
        term.lanes.put_back(nth, back);
    }
}
