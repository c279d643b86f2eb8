//! A consumer whose handler does what a test says, and short ways to look at it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use semel::{
    SystemClock,
    inbox::{
        Attempts, By, Consumer, Delivery, Failed, Handled, Handler, InboxInspect, InboxPolicy,
        InboxStore, MessageId, ParkedFilter, Receipt, Recorded, Redelivered, Source, SourceName,
        memory::MemoryInbox,
        runner::{Runner, RunnerBuilder, RunnerError},
    },
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What the handler does about one run of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Said {
    Away,
    Done,
    Fails,
    Hangs,
    Panics,
    Refuses,
}

type Script = Box<dyn Fn(&str, u32) -> Said + Send + Sync>;

/// A consumer with what it did.
pub(crate) struct Desk {
    pub(crate) inbox: Arc<MemoryInbox>,
    pub(crate) policy: Arc<InboxPolicy>,
    pub(crate) kept: Mutex<Kept>,
    script: Script,
    /// Whether the handler takes several messages at once.
    batches: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Ids of messages whose effect is there, in order.
    pub(crate) effects: Vec<String>,
    /// Ids of messages whose answer was sent, in order.
    pub(crate) emitted: Vec<String>,
    /// How often each message was run.
    pub(crate) runs: BTreeMap<String, u32>,
    /// How often sending an answer is to fail.
    pub(crate) emit_fails: u32,
    /// How many messages each batch had.
    pub(crate) batches: Vec<usize>,
}

pub(crate) fn consumer() -> Consumer {
    Consumer::new("billing").unwrap()
}

/// A policy with hardly any pauses.
pub(crate) fn policy() -> InboxPolicy {
    InboxPolicy {
        attempts_max: 3,
        park_after: Duration::ZERO,
        backoff: Duration::from_millis(1),
        backoff_max: Duration::from_millis(4),
        ..InboxPolicy::new(consumer())
    }
}

pub(crate) fn message(id: &str) -> MessageId {
    MessageId::new(SourceName::new("orders").unwrap(), id).unwrap()
}

/// The first copy of a message whose payload is its id.
pub(crate) fn delivery(id: &str) -> Delivery {
    let payload = Bytes::copy_from_slice(id.as_bytes());
    let mut delivery = Delivery::new(message(id), Receipt(0), Some(payload));
    delivery.redelivered = Redelivered::No;
    delivery
}

impl Desk {
    pub(crate) fn new(script: impl Fn(&str, u32) -> Said + Send + Sync + 'static) -> Arc<Self> {
        Self::with(policy(), false, script)
    }

    pub(crate) fn with(
        policy: InboxPolicy,
        batches: bool,
        script: impl Fn(&str, u32) -> Said + Send + Sync + 'static,
    ) -> Arc<Self> {
        let inbox = Arc::new(MemoryInbox::new(Arc::new(SystemClock::new())));
        let (policy, kept, script) = (Arc::new(policy), Mutex::default(), Box::new(script));
        Arc::new(Self { inbox, policy, kept, script, batches })
    }

    pub(crate) fn builder(self: &Arc<Self>, source: Arc<dyn Source>) -> RunnerBuilder {
        let policy = Arc::clone(&self.policy);
        let (store, handler) = (Arc::clone(&self.inbox), Arc::clone(self));
        Runner::builder(policy, source, store, handler).parked_every(Duration::from_millis(10))
    }

    pub(crate) fn start(self: &Arc<Self>, source: Arc<dyn Source>) -> Running {
        Running::of(self.builder(source).build().unwrap())
    }

    pub(crate) fn effects(&self) -> Vec<String> {
        self.kept.lock().unwrap().effects.clone()
    }

    pub(crate) fn emitted(&self) -> Vec<String> {
        self.kept.lock().unwrap().emitted.clone()
    }

    pub(crate) fn runs(&self, id: &str) -> u32 {
        self.kept.lock().unwrap().runs.get(id).copied().unwrap_or_default()
    }

    pub(crate) async fn attempts(&self, id: &str) -> Attempts {
        self.inbox.attempts(consumer(), vec![message(id)]).await.unwrap()[0]
    }

    /// Ids of parked messages and how often they were run.
    pub(crate) async fn parked(&self) -> Vec<(String, u32)> {
        let filter = ParkedFilter { limit: 100, ..ParkedFilter::default() };
        let parked = self.inbox.parked(filter).await.unwrap();
        parked.iter().map(|p| (p.message.id().to_owned(), p.attempts)).collect()
    }

    /// Does what the script says; counts the run.
    async fn say(&self, delivery: &Delivery) -> Result<(), Failed> {
        let id = delivery.message.id();
        let run = {
            let mut kept = self.kept.lock().unwrap();
            let run = kept.runs.entry(id.to_owned()).or_default();
            *run += 1;
            *run
        };
        match (self.script)(id, run) {
            Said::Away => Err(Failed::away("the database is away")),
            Said::Done => Ok(()),
            Said::Fails => Err(Failed::message("it cannot be handled")),
            Said::Hangs => std::future::pending().await,
            Said::Panics => panic!("the handler of {id} panics, as the test says"),
            Said::Refuses => Err(Failed::Refused("it cannot be read".into())),
        }
    }

    fn act(&self, delivery: &Delivery) -> Result<Handled, Failed> {
        self.inbox.handle(&self.policy, delivery, || {
            let id = delivery.message.id().to_owned();
            self.kept.lock().unwrap().effects.push(id);
            Ok(self.answer(delivery))
        })
    }

    /// What a run answers: nothing where only the position of its message is kept.
    fn answer(&self, delivery: &Delivery) -> Option<Bytes> {
        let is_kept = self.policy.by == By::Ids || delivery.parked;
        is_kept.then(|| Bytes::from_static(b"paid"))
    }
}

#[async_trait]
impl Handler for Desk {
    async fn run(&self, delivery: &Delivery) -> Result<Handled, Failed> {
        self.say(delivery).await?;
        self.act(delivery)
    }

    async fn run_all(&self, deliveries: &[Delivery]) -> Result<Option<Vec<Handled>>, Failed> {
        if !self.batches {
            return Ok(None);
        }
        self.kept.lock().unwrap().batches.push(deliveries.len());
        for delivery in deliveries {
            self.say(delivery).await?;
        }
        deliveries.iter().map(|delivery| self.act(delivery)).collect::<Result<_, _>>().map(Some)
    }

    async fn emit(&self, delivery: &Delivery, recorded: &Recorded) -> Result<(), Failed> {
        assert_eq!(recorded.answer, self.answer(delivery));
        let mut kept = self.kept.lock().unwrap();
        if kept.emit_fails > 0 {
            kept.emit_fails -= 1;
            return Err(Failed::message("the answer cannot be sent"));
        }
        kept.emitted.push(delivery.message.id().to_owned());
        Ok(())
    }
}

/// A runner at work.
pub(crate) struct Running {
    pub(crate) runner: Runner,
    closing: CancellationToken,
    task: JoinHandle<Result<(), RunnerError>>,
}

impl Running {
    pub(crate) fn of(runner: Runner) -> Self {
        let closing = CancellationToken::new();
        let (running, token) = (runner.clone(), closing.clone());
        let task = tokio::spawn(async move { running.run(token.cancelled()).await });
        Self { runner, closing, task }
    }

    /// Ends it in order.
    pub(crate) async fn close(self) -> Runner {
        self.closing.cancel();
        self.task.await.unwrap().unwrap();
        self.runner
    }

    /// Ends it as a crash does.
    pub(crate) async fn kill(self) {
        self.task.abort();
        drop(self.task.await);
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
