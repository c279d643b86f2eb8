//! A batch on its way: what is open, what has its outcome, and no lane out of order.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use rdkafka::{
    message::{Header, OwnedHeaders},
    producer::BaseRecord,
    types::RDKafkaErrorCode,
};
use semel::outbox::{Cause, Event, Fault, Lane, Message, Sent};

use super::{
    live::{Live, Report, Round, Slot},
    route::Route,
    verdict::{self, Verdict},
};
use crate::native::Persisted;

/// How often a batch is taken up again after its producer failed.
const RUNS_MAX: usize = 8;

/// Messages and what became of each.
#[derive(Debug)]
pub(super) struct Batch {
    messages: Vec<Message>,
    payload_max: usize,
    sent: Vec<Option<Sent>>,
    alone: BTreeSet<usize>,
    /// Lanes of which something has an outcome that is no confirmation.
    shut: HashSet<Lane>,
    /// The types of aggregates that something was confirmed of.
    kinds: BTreeSet<Box<str>>,
    runs: usize,
}

impl Batch {
    pub(super) fn new(messages: Vec<Message>, payload_max: usize) -> Self {
        let sent = vec![None; messages.len()];
        let (alone, kinds) = (BTreeSet::new(), BTreeSet::new());
        Self { messages, payload_max, sent, alone, shut: HashSet::new(), kinds, runs: 0 }
    }

    /// Returns what is sent next: what is open up to the first that must go alone, or that one.
    pub(super) fn next_run(&mut self) -> Option<Vec<usize>> {
        self.shut_in();
        let open: Vec<_> = (0..self.sent.len()).filter(|at| self.sent[*at].is_none()).collect();
        let first = *open.first()?;
        self.runs += usize::from(!self.alone.contains(&first));
        if self.runs > RUNS_MAX {
            self.give_up("its producer failed again and again");
            return None;
        }
        Some(match self.alone.contains(&first) {
            true => vec![first],
            false => open.into_iter().take_while(|at| !self.alone.contains(at)).collect(),
        })
    }

    /// Gives a run to a producer. What it does not take is told as its report.
    pub(super) fn enqueue(
        &mut self,
        live: &Live,
        round: &Arc<Round>,
        run: &[usize],
        route: &Route,
    ) {
        let mut stopped = None;
        // A lane of which one was not taken must not go on in this run.
        let mut behind: HashSet<&Lane> = HashSet::new();
        for (place, at) in run.iter().enumerate() {
            let event = &self.messages[*at].event;
            let failed = if let Some(code) = stopped {
                Some(code)
            } else if behind.contains(&event.lane) {
                Some(RDKafkaErrorCode::Fatal)
            } else if event.payload.as_ref().is_some_and(|told| told.len() > self.payload_max) {
                Some(RDKafkaErrorCode::MessageSizeTooLarge)
            } else {
                offer(live, round, place, event, route).err()
            };
            if let Some(code) = failed {
                behind.insert(&event.lane);
                if matches!(code, RDKafkaErrorCode::QueueFull | RDKafkaErrorCode::Fatal) {
                    stopped = Some(code);
                }
                round.tell(place, Report::Failed(code, Persisted::No));
            }
        }
    }

    /// Takes the reports of a run, in the order of the batch.
    pub(super) fn judge(&mut self, round: &Round, run: &[usize], many: bool) {
        let alone = run.len() == 1;
        let mut again: HashSet<Lane> = HashSet::new();
        for (place, at) in run.iter().enumerate() {
            let event = &self.messages[*at].event;
            let lane = &event.lane;
            let verdict = match round.report(place) {
                Some(report) => verdict::judge(report, many, alone),
                None => {
                    let why = "the brokers did not answer in time".into();
                    Verdict::Is(Sent::Unknown { why })
                }
            };
            match verdict {
                Verdict::Alone => {
                    self.alone.insert(*at);
                    again.insert(lane.clone());
                }
                Verdict::Again => {
                    again.insert(lane.clone());
                }
                // The broker keeps the order of a partition, so this does not happen; if it did, a
                // confirmation would hide that the order is broken.
                Verdict::Is(Sent::Confirmed)
                    if self.shut.contains(lane) || again.contains(lane) =>
                {
                    let why = "it overtook an earlier event of its aggregate".into();
                    self.shut.insert(lane.clone());
                    self.sent[*at] = Some(Sent::Unknown { why });
                }
                Verdict::Is(Sent::Confirmed) => {
                    if !self.kinds.contains(lane.kind()) {
                        self.kinds.insert(lane.kind().into());
                    }
                    self.sent[*at] = Some(Sent::Confirmed);
                }
                Verdict::Is(sent) => {
                    self.shut.insert(lane.clone());
                    self.sent[*at] = Some(sent);
                }
            }
        }
    }

    /// Refuses what is still open, for the destination's fault.
    pub(super) fn give_up(&mut self, why: &str) {
        for sent in self.sent.iter_mut().filter(|sent| sent.is_none()) {
            *sent = Some(Sent::Refused {
                fault: Fault::Destination { retry_after: None },
                why: why.into(),
            });
        }
    }

    /// The types of aggregates that something was confirmed of.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().map(AsRef::as_ref)
    }

    pub(super) fn into_sent(mut self) -> Vec<Sent> {
        self.give_up("it was not sent");
        self.sent.into_iter().flatten().collect()
    }

    /// Gives what lies behind an event that was not confirmed its outcome: it is not sent.
    fn shut_in(&mut self) {
        for (message, sent) in self.messages.iter().zip(&mut self.sent) {
            if sent.is_none() && self.shut.contains(&message.event.lane) {
                let why = "not sent, as an earlier event of its aggregate was not confirmed";
                *sent = Some(Sent::Refused { fault: Fault::Message, why: why.into() });
            }
        }
    }
}

/// Makes the record of an event and gives it to the producer.
fn offer(
    live: &Live,
    round: &Arc<Round>,
    at: usize,
    event: &Event,
    route: &Route,
) -> Result<(), RDKafkaErrorCode> {
    let topic = route.topic(event.lane.kind()).map_err(|_| RDKafkaErrorCode::InvalidTopic)?;
    let slot = Box::new(Slot { round: round.clone(), at });
    let record = BaseRecord::with_opaque_to(&topic, slot).key(event.lane.id());
    let record = record.headers(headers(event));
    live.send(match &event.payload {
        Some(payload) => record.payload(payload.as_ref()),
        None => record,
    })
}

/// The headers that a record has beside the event's own; a header of its own under one of these names is left out.
const OURS: [&str; 4] = ["id", "eventType", "traceparent", "semel-cause"];

fn headers(event: &Event) -> OwnedHeaders {
    let [id, kind, trace, cause] = OURS;
    let with = |headers: OwnedHeaders, key: &str, value: Option<&str>| match value {
        Some(_) => headers.insert(Header { key, value }),
        None => headers,
    };
    let headers = OwnedHeaders::new_with_capacity(event.headers.len() + OURS.len());
    let headers = with(headers, id, Some(&event.id.to_string()));
    let headers = with(headers, kind, Some(&event.kind));
    let headers = with(headers, trace, event.trace.as_deref());
    let headers = with(headers, cause, event.cause.as_ref().map(Cause::as_str));
    let own = event.headers.iter().filter(|(name, _)| !OURS.contains(&name.as_ref()));
    own.fold(headers, |headers, (name, value)| with(headers, name, Some(value)))
}
