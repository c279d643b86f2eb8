//! The loop of one destination: it owns everything in hand, waits for nobody, and hears reports.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::sync::{Notify, mpsc};

use super::{
    RelayDestination,
    calls::{Calls, Report, Told},
    circuit::Circuit,
    health::Board,
    lanes::{Item, Nth},
    paced::Paced,
    policy::RelayPolicy,
    shutdown::Closing,
    term::Term,
    troubles::Troubles,
};
use crate::{
    backoff::Backoff,
    clock::{Clock, Monotonic},
    entropy::Entropy,
    error::StoreError,
    outbox::{publisher::PublisherCapabilities, store::Settled},
    telemetry::{RelayCounters, count},
};

/// How many reports are heard at once before anything is done about them.
const HEARD_AT_ONCE: usize = 64;

/// How long the loop sleeps at most.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

/// What the loop is made of.
pub(super) struct Parts {
    pub(super) calls: Calls,
    pub(super) plan: RelayDestination,
    pub(super) owner: Box<str>,
    pub(super) policy: Arc<RelayPolicy>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) counters: Arc<RelayCounters>,
    pub(super) board: Arc<Board>,
    pub(super) hint: Arc<Notify>,
    pub(super) told: mpsc::UnboundedReceiver<Told>,
    pub(super) closing: Closing,
}

/// Drives one destination.
pub(super) struct Driver {
    pub(super) calls: Calls,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) plan: RelayDestination,
    pub(super) owner: Box<str>,
    pub(super) policy: Arc<RelayPolicy>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) counters: Arc<RelayCounters>,
    pub(super) board: Arc<Board>,
    pub(super) can: PublisherCapabilities,
    pub(super) lease: Duration,
    pub(super) circuit: Circuit,
    /// Since when the circuit is open, if that was told.
    pub(super) opened_at: Option<Monotonic>,
    pub(super) troubles: Troubles,
    pub(super) retry: Backoff,
    /// How much the destination has confirmed.
    pub(super) confirmed: u64,
    /// How long the destination took lately to confirm, at most.
    pub(super) pace: Duration,
    /// Batches on their way.
    pub(super) flights: HashMap<u64, Flight>,
    pub(super) batch_last: u64,
    pub(super) term_last: u64,
    pub(super) term: Option<Box<Term>>,
    pub(super) away: Away,
    pub(super) store_answers: bool,
    pub(super) closing: Closing,
    hint: Arc<Notify>,
    told: mpsc::UnboundedReceiver<Told>,
}

/// A batch on its way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) term: u64,
    pub(super) began: Monotonic,
    pub(super) sends: Vec<(Nth, Item)>,
}

/// What is asked while another leads.
#[derive(Debug)]
pub(super) struct Away {
    pub(super) ask: Paced,
    pub(super) resigning: bool,
}

/// What the loop does next.
pub(super) enum Next {
    End,
    Sleep(Monotonic),
}

impl Driver {
    pub(super) fn new(parts: Parts) -> Self {
        let can = parts.plan.publisher.capabilities();
        let policy = &parts.policy;
        let retry = Backoff { first: policy.retry_first, max: policy.retry_max };
        let clock = Arc::clone(&parts.calls.clock);
        let ask = Paced::new(clock.monotonic());
        Self {
            lease: policy.lease_for(can.publish_wait),
            circuit: Circuit::new(retry, policy.retry_after_max),
            opened_at: None,
            troubles: Troubles::default(),
            retry,
            can,
            clock,
            confirmed: 0,
            pace: Duration::ZERO,
            flights: HashMap::new(),
            batch_last: 0,
            term_last: 0,
            term: None,
            away: Away { ask, resigning: false },
            store_answers: true,
            calls: parts.calls,
            plan: parts.plan,
            owner: parts.owner,
            policy: parts.policy,
            entropy: parts.entropy,
            counters: parts.counters,
            board: parts.board,
            closing: parts.closing,
            hint: parts.hint,
            told: parts.told,
        }
    }

    /// Drives the destination until the relay is closed.
    pub(super) async fn run(mut self) {
        let clock = Arc::clone(&self.clock);
        let closing = self.closing.clone();
        loop {
            let now = clock.monotonic();
            let wake = match self.act(now) {
                Next::End => return,
                Next::Sleep(wake) => wake,
            };
            tokio::select! {
                biased;
                told = self.told.recv() => self.hear_all(told),
                () = closing.begins(), if !self.closing.has_begun() => {}
                () = self.hint.notified() => self.hinted(),
                () = clock.sleep_until(wake) => {}
            }
        }
    }

    /// Does everything that can be done now.
    fn act(&mut self, now: Monotonic) -> Next {
        if self.closing.is_over(now) {
            return Next::End;
        }
        let Some(mut term) = self.term.take() else {
            return self.ask_to_lead(now);
        };
        self.renew(&mut term, now);
        term.lanes.expire(now);
        self.set_aside(&mut term, now);
        if !self.closing.has_begun() {
            self.list_parked(&mut term, now);
        }
        // What was confirmed while it was parked is told before the leadership is given up.
        if !self.closing.has_begun() || (self.flights.is_empty() && term.parked.owes()) {
            self.ask_due(&mut term, now);
        }
        if !self.closing.has_begun() {
            self.send(&mut term, now);
            self.read(&mut term, now);
        }
        self.settle(&mut term, now);
        self.board.show(&term, &self.circuit, now);
        if self.closing.has_begun() && self.flights.is_empty() && self.is_settled(&term) {
            self.give_up(&term);
            return Next::Sleep(now.after(LONGEST_SLEEP));
        }
        let wake = self.wake(&term, now);
        self.term = Some(term);
        Next::Sleep(wake)
    }

    /// When something is to be done that no report brings about.
    fn wake(&self, term: &Term, now: Monotonic) -> Monotonic {
        let reads = self.may_read(term).then(|| term.reader.ask.at.max(term.catches_up.0));
        let probes = self.circuit.wakes().filter(|_| term.lanes.has_ready());
        let lists = term.parked.wants_listing().then_some(term.listing.at);
        let stuck = self.is_held_up(term).then_some(term.stuck_at);
        let wakes = [
            reads,
            probes,
            lists,
            stuck,
            term.due.wakes(),
            term.renewal.wakes(),
            term.lanes.wakes(),
            self.settles_at(term),
            self.closing.until(),
        ];
        // What is due already waits for a report, or it would have been done.
        let later = wakes.into_iter().flatten().filter(|at| *at > now);
        later.fold(now.after(LONGEST_SLEEP), Monotonic::min)
    }

    fn hear_all(&mut self, first: Option<Told>) {
        let mut next = first;
        for _ in 0..HEARD_AT_ONCE {
            let Some(told) = next else {
                return;
            };
            self.hear(told);
            next = self.told.try_recv().ok();
        }
        if let Some(told) = next {
            self.hear(told);
        }
    }

    fn hear(&mut self, Told { term: nth, report }: Told) {
        let now = self.clock.monotonic();
        match report {
            Report::Led { asked, answer } => return self.led(asked, answer, now),
            Report::Resigned => {
                self.away.resigning = false;
                return;
            }
            _ => {}
        }
        let flight = match &report {
            Report::Published { batch, .. } => self.flights.remove(batch),
            _ => None,
        };
        let Some(mut term) = self.term.take_if(|term| term.nth == nth) else {
            // Asked under a leadership of before: only that it was refused is worth telling.
            if matches!(report, Report::Settled(Ok(Settled::Stale))) {
                count(&self.counters.late);
            }
            return;
        };
        match report {
            Report::Due(answer) => self.heard_due(&mut term, answer, now),
            Report::Listed(answer) => self.listed(&mut term, answer, now),
            Report::Published { outcomes, .. } => {
                if let Some(flight) = flight {
                    self.published(&mut term, flight, outcomes, now);
                }
            }
            Report::Read(answer) => self.have_read(&mut term, answer, now),
            Report::Renewed { asked, answer } => self.renewed(&mut term, asked, answer, now),
            Report::Settled(answer) => self.settled(&mut term, answer, now),
            Report::Led { .. } | Report::Resigned => {}
        }
        if term.lost {
            self.lose(&term, now);
        } else {
            self.term = Some(term);
        }
    }

    /// Something may have been appended.
    fn hinted(&mut self) {
        let now = self.clock.monotonic();
        if let Some(term) = &mut self.term {
            let reader = &mut term.reader;
            reader.again |= reader.ask.asking;
            reader.idle = 0;
            if reader.ask.failures == 0 {
                reader.ask.at = reader.ask.at.min(now);
            }
        }
    }

    /// Notes whether the store answered, and tells when that changes.
    pub(super) fn noted<T>(&mut self, answer: Result<T, StoreError>, now: Monotonic) -> Option<T> {
        let destination = &self.plan.destination;
        match answer {
            Ok(answer) => {
                if !std::mem::replace(&mut self.store_answers, true) {
                    tracing::info!(%destination, "the store answers the relay again");
                }
                self.board.heard(now);
                Some(answer)
            }
            Err(error) => {
                count(&self.counters.store_errors);
                if std::mem::replace(&mut self.store_answers, false) {
                    tracing::warn!(%destination, %error, "the store fails the relay; it tries on");
                }
                None
            }
        }
    }
}
