//! The clients: each keeps its key and asks again, whichever gateway answers, until it knows.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use semel_testkit::{SeededEntropy, history::Told};
use tokio::{task::JoinSet, time::sleep};

use super::{
    caller::{Caller, Got},
    intent::Book,
    queue::{Job, Queue},
    settings::{Settings, Until},
    watch::Watch,
};

/// How long after all trouble is over an intent may stay without a definite answer.
const DEFINITE_WITHIN: Duration = Duration::from_secs(60);
/// How long somebody who has nothing to do looks away.
const IDLE: Duration = Duration::from_millis(2);
/// How many intents may be open for each client.
const OPEN_PER_CLIENT: u64 = 4;
const BACKOFF_MS: u64 = 20;
const BACKOFF_MS_MAX: u64 = 800;

/// What all clients share.
#[derive(Debug)]
pub(super) struct Crowd {
    pub(super) gateways: Vec<SocketAddr>,
    pub(super) book: Book,
    pub(super) watch: Watch,
    clients: usize,
    seed: u64,
    queue: Queue,
    /// How many intents may be begun.
    end: AtomicU64,
    /// Intents that are asked for and not definite; twins count twice.
    open: AtomicU64,
    over: AtomicBool,
    /// Since when there is no trouble any more.
    calm_since: Mutex<Option<Instant>>,
}

impl Crowd {
    pub(super) fn new(settings: &Settings, gateways: Vec<SocketAddr>) -> Arc<Self> {
        let end = match settings.until {
            Until::Intents(end) => end,
            Until::Time(_) => u64::MAX,
        };
        Arc::new(Self {
            gateways,
            book: Book::default(),
            watch: Watch::default(),
            clients: settings.clients,
            seed: settings.seed,
            queue: Queue::default(),
            end: AtomicU64::new(end),
            open: AtomicU64::new(0),
            over: AtomicBool::new(false),
            calm_since: Mutex::default(),
        })
    }

    /// Sends all clients after new intents until no more are begun and all are definite.
    pub(super) fn send(self: &Arc<Self>) -> JoinSet<()> {
        let mut sent = JoinSet::new();
        for number in 0..self.clients {
            let crowd = Arc::clone(self);
            let chance = SeededEntropy::new(self.seed.rotate_left(7) ^ number_of(number));
            sent.spawn(async move { crowd.work(&chance).await });
        }
        sent
    }

    /// Begins no more intents.
    pub(super) fn no_more(&self) {
        self.end.store(0, Ordering::SeqCst);
    }

    /// Says whether as many intents were begun as are to be.
    pub(super) fn has_begun_all(&self) -> bool {
        self.book.len() >= self.end.load(Ordering::SeqCst)
    }

    /// Notes that all trouble is over: what is not definite soon is never.
    pub(super) fn calm(&self) {
        self.over.store(true, Ordering::SeqCst);
        *self.calm_since.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    async fn work(&self, chance: &SeededEntropy) {
        let mut caller = Caller::new(&self.gateways);
        loop {
            if let Some(job) = self.queue.due() {
                self.ask(&mut caller, job, chance).await;
            } else if let Some(number) = self.next_intent() {
                self.begin(number, chance);
            } else if self.open.load(Ordering::SeqCst) == 0 && self.is_over() {
                return;
            } else {
                sleep(IDLE).await;
            }
        }
    }

    /// Begins another intent, unless too many are open: where nothing is answered, nothing new is
    /// asked for.
    fn next_intent(&self) -> Option<u64> {
        let open = self.open.load(Ordering::SeqCst);
        let may = open < OPEN_PER_CLIENT * number_of(self.clients);
        may.then(|| self.book.begin(self.end.load(Ordering::SeqCst))).flatten()
    }

    /// Puts a new intent into the queue; some twice, as after a double click.
    fn begin(&self, number: u64, chance: &SeededEntropy) {
        let twins = if chance.below(16) == 0 { 2 } else { 1 };
        self.open.fetch_add(twins, Ordering::SeqCst);
        for _ in 0..twins {
            self.queue.now(Job::new(number));
        }
    }

    async fn ask(&self, caller: &mut Caller, mut job: Job, chance: &SeededEntropy) {
        let gateways = number_of(self.gateways.len());
        let gateway = usize::try_from(chance.below(gateways)).unwrap_or(0);
        let patience = match chance.below(100) {
            0 => Some(Duration::from_millis(1 + chance.below(60))),
            _ => None,
        };
        let got = caller.ask(job.number, gateway, patience, &self.book).await;
        self.watch.saw(&got);
        match got {
            Got::Told(told) => self.told(job.number, told),
            Got::Unknown => self.book.unknown(job.number),
            Got::Wrong(what) => self.watch.wrong(format!("intent {} was told {what}", job.number)),
            Got::Again(why) => {
                if self.is_too_late(&job) {
                    let says = format!("intent {} is never definite: {}", job.number, why.word());
                    self.watch.wrong(says);
                } else {
                    job.tries += 1;
                    let most = (BACKOFF_MS << job.tries.min(6)).min(BACKOFF_MS_MAX);
                    self.queue.later(job, Duration::from_millis(chance.below(most)));
                    return;
                }
            }
        }
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    /// Notes a final answer.
    pub(super) fn told(&self, number: u64, told: Told) {
        self.book.told(number);
        self.watch.told(number, told);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn is_too_late(&self, job: &Job) -> bool {
        let calm = *self.calm_since.lock().unwrap_or_else(PoisonError::into_inner);
        calm.is_some_and(|since| since.max(job.begun).elapsed() > DEFINITE_WITHIN)
    }

    /// Asks one gateway for what was settled, each until it is definite, and returns what it says.
    pub(super) async fn ask_again(
        self: &Arc<Self>,
        gateway: usize,
        numbers: Arc<[u64]>,
    ) -> Vec<(u64, Got)> {
        let next = Arc::new(AtomicU64::new(0));
        let mut asking = JoinSet::new();
        for _ in 0..self.clients {
            let (crowd, numbers, next) =
                (Arc::clone(self), Arc::clone(&numbers), Arc::clone(&next));
            asking.spawn(async move {
                let mut caller = Caller::new(&crowd.gateways);
                let mut told = Vec::new();
                loop {
                    let at = usize::try_from(next.fetch_add(1, Ordering::SeqCst));
                    let Some(number) = numbers.get(at.unwrap_or(usize::MAX)) else { return told };
                    told.push((*number, caller.until_definite(*number, gateway, &crowd).await));
                }
            });
        }
        asking.join_all().await.into_iter().flatten().collect()
    }
}

fn number_of(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
