//! A destination that does to each message what a script says, and remembers what arrived.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use semel::{
    Clock, Monotonic,
    outbox::{EventId, Fault, Lane, Message, Publisher, PublisherCapabilities, Sent},
};
use semel_testkit::ManualClock;

/// What happens to a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// It arrives, and nobody hears of it.
    ArriveUnheard,
    /// The destination refuses it, and whatever else comes.
    Away(Option<Duration>),
    /// It arrives, and that is confirmed.
    Confirm,
    /// It arrives after a while, and that is confirmed.
    ConfirmAfter(Duration),
    /// A lie: it is lost, and confirmed.
    ConfirmLost,
    /// The whole batch is never answered; this message does not arrive.
    Hang,
    /// Nobody can say at once, and it arrives after a while.
    Late(Duration),
    /// It does not arrive, and nobody can say.
    Lose,
    /// A lie: it is confirmed, and arrives after those behind it.
    Overtake(Duration),
    /// The destination refuses this very message.
    Refuse,
}

/// A message that arrived.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Arrival {
    pub(super) id: EventId,
    pub(super) lane: Lane,
    /// What it tells.
    pub(super) kind: Box<str>,
    pub(super) at: Monotonic,
}

type Rule = Box<dyn FnMut(&Message, u32) -> Act + Send>;

pub(super) struct Script {
    clock: Arc<ManualClock>,
    can: Mutex<PublisherCapabilities>,
    rule: Mutex<Rule>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    arrivals: Vec<Arrival>,
    /// When each event was sent, in order.
    sends: HashMap<EventId, Vec<Monotonic>>,
    batches: u64,
    at_once: usize,
    at_once_max: usize,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").finish_non_exhaustive()
    }
}

impl Script {
    /// How long a call takes at most.
    pub(super) const PUBLISH_WAIT: Duration = Duration::from_secs(5);

    /// A destination that confirms everything, in batches of 16, four at once.
    pub(super) fn new(clock: Arc<ManualClock>) -> Arc<Self> {
        let mut can = PublisherCapabilities::new("script");
        can.batch_max = 16;
        can.batches_max = 4;
        can.publish_wait = Self::PUBLISH_WAIT;
        let (can, rule) = (Mutex::new(can), Mutex::new(Box::new(|_: &_, _| Act::Confirm) as Rule));
        Arc::new(Self { clock, can, rule, seen: Arc::default() })
    }

    /// Changes what it can do, before a relay is started on it.
    pub(super) fn can(&self, change: impl FnOnce(&mut PublisherCapabilities)) {
        change(&mut self.can.lock().unwrap());
    }

    /// Sets what happens to each message, given how often it was sent before.
    pub(super) fn rule(&self, rule: impl FnMut(&Message, u32) -> Act + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
    }

    pub(super) fn always(&self, act: Act) {
        self.rule(move |_, _| act);
    }

    pub(super) fn arrivals(&self) -> Vec<Arrival> {
        self.seen.lock().unwrap().arrivals.clone()
    }

    /// What arrived, as `lane:kind`, without copies.
    pub(super) fn first_arrivals(&self) -> Vec<String> {
        let mut known = HashSet::new();
        let first = self.arrivals().into_iter().filter(|arrival| known.insert(arrival.id));
        first.map(|arrival| format!("{}:{}", arrival.lane.id(), arrival.kind)).collect()
    }

    /// When an event was sent.
    pub(super) fn sends(&self, id: EventId) -> Vec<Monotonic> {
        self.seen.lock().unwrap().sends.get(&id).cloned().unwrap_or_default()
    }

    /// How many messages were sent in all.
    pub(super) fn sent(&self) -> usize {
        self.seen.lock().unwrap().sends.values().map(Vec::len).sum()
    }

    pub(super) fn batches(&self) -> u64 {
        self.seen.lock().unwrap().batches
    }

    pub(super) fn at_once_max(&self) -> usize {
        self.seen.lock().unwrap().at_once_max
    }

    fn act(&self, message: &Message) -> Act {
        let before = {
            let mut seen = self.seen.lock().unwrap();
            let sends = seen.sends.entry(message.event.id).or_default();
            sends.push(self.clock.monotonic());
            u32::try_from(sends.len() - 1).unwrap()
        };
        (self.rule.lock().unwrap())(message, before)
    }

    /// Plays a batch: the delays and outcomes of its messages, or `None` if it hangs.
    fn play(&self, batch: &[Message]) -> Option<Vec<(Duration, bool, Sent)>> {
        let unheard = || Sent::Unknown { why: "nobody heard".into() };
        let mut failed: HashSet<&Lane> = HashSet::new();
        let mut delays: HashMap<&Lane, Duration> = HashMap::new();
        let mut played = Vec::new();
        let (mut hangs, mut late) = (false, Vec::new());
        for message in batch {
            let lane = &message.event.lane;
            if failed.contains(lane) {
                played.push((Duration::ZERO, false, unheard()));
                continue;
            }
            let delay = delays.entry(lane).or_default();
            let (arrives, sent) = match self.act(message) {
                Act::ArriveUnheard => (true, unheard()),
                Act::Away(retry_after) => (false, refused(Fault::Destination { retry_after })),
                Act::Confirm => (true, Sent::Confirmed),
                Act::ConfirmAfter(wait) => {
                    *delay = wait.max(*delay);
                    (true, Sent::Confirmed)
                }
                Act::ConfirmLost => (false, Sent::Confirmed),
                Act::Overtake(wait) => {
                    late.push((message.clone(), wait));
                    (false, Sent::Confirmed)
                }
                Act::Hang => {
                    hangs = true;
                    (false, unheard())
                }
                Act::Late(wait) => {
                    // Late, and yet behind what was sent before in its lane.
                    let behind = *delay + Duration::from_millis(1);
                    late.push((message.clone(), wait.max(behind)));
                    (false, unheard())
                }
                Act::Lose => (false, unheard()),
                Act::Refuse => (false, refused(Fault::Message)),
            };
            if sent != Sent::Confirmed {
                failed.insert(lane);
            }
            played.push((*delay, arrives, sent));
        }
        if hangs {
            return None;
        }
        late.into_iter().for_each(|(message, wait)| self.arrive_late(message, wait));
        Some(played)
    }

    fn arrive_late(&self, message: Message, wait: Duration) {
        let (clock, seen) = (Arc::clone(&self.clock), Arc::clone(&self.seen));
        let at = clock.monotonic().after(wait);
        tokio::spawn(async move {
            clock.sleep_until(at).await;
            seen.lock().unwrap().arrivals.push(arrival(&message, at));
        });
    }
}

fn refused(fault: Fault) -> Sent {
    Sent::Refused { fault, why: "by script".into() }
}

fn arrival(message: &Message, at: Monotonic) -> Arrival {
    let event = &message.event;
    Arrival { id: event.id, lane: event.lane.clone(), kind: event.kind.clone(), at }
}

/// Counts a batch as on its way while it lives.
struct Flying<'a>(&'a Mutex<Seen>);

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap().at_once -= 1;
    }
}

#[async_trait]
impl Publisher for Script {
    fn capabilities(&self) -> PublisherCapabilities {
        self.can.lock().unwrap().clone()
    }

    async fn publish(&self, batch: Vec<Message>) -> Vec<Sent> {
        let _flying = {
            let mut seen = self.seen.lock().unwrap();
            seen.batches += 1;
            seen.at_once += 1;
            seen.at_once_max = seen.at_once_max.max(seen.at_once);
            Flying(&self.seen)
        };
        let Some(played) = self.play(&batch) else {
            return pending().await;
        };
        // What is on its way arrives, whatever becomes of whoever sent it.
        let (clock, seen) = (Arc::clone(&self.clock), Arc::clone(&self.seen));
        tokio::spawn(arrive(clock, seen, batch, played)).await.unwrap()
    }
}

/// Lets a batch arrive, each message after its delay, and tells the outcomes.
async fn arrive(
    clock: Arc<ManualClock>,
    seen: Arc<Mutex<Seen>>,
    batch: Vec<Message>,
    played: Vec<(Duration, bool, Sent)>,
) -> Vec<Sent> {
    let start = clock.monotonic();
    let mut order: Vec<usize> = (0..batch.len()).collect();
    order.sort_by_key(|nth| played[*nth].0);
    for nth in order {
        let (delay, arrives, _) = &played[nth];
        let at = start.after(*delay);
        if at > clock.monotonic() {
            clock.sleep_until(at).await;
        }
        if *arrives {
            seen.lock().unwrap().arrivals.push(arrival(&batch[nth], at));
        }
    }
    played.into_iter().map(|(_, _, sent)| sent).collect()
}
