//! Clients that ask again with the same key until they know, whatever happens to the server.

use std::{
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use semel::{
    Call, Fingerprint, IntentId, Key, Operation, Outcome, Policy, Scope, StoreError,
    StoreErrorKind, Tenant,
};
use semel_testkit::history::{History, Told};
use tokio::task::JoinSet;

/// How long an intent may stay without a definite answer: a take-over, and what a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What an asker was told.
pub(super) enum Said {
    /// A final answer.
    Done(Told),
    /// Nothing definite.
    Again,
    /// Nobody can say; an operator must.
    Unknown,
}

impl Said {
    /// What an error leaves: another try, unless it is none of those that failing over explains.
    pub(super) fn of_error(error: &StoreError) -> Self {
        // Until the standby is promoted, it can only be read.
        let explained = error.kind().is_retryable() || error.kind() == StoreErrorKind::ReadOnly;
        assert!(explained, "{error:?}");
        Self::Again
    }
}

/// A way to have an intent done: writes a row into the ledger, and keeps the outcome.
pub(super) trait Asker: Send + Sync + 'static {
    /// The word for it, with which its keys begin.
    const FORM: &'static str;

    fn ask(&self, call: &Call, outcome: Outcome) -> impl Future<Output = Said> + Send;
}

/// What all clients share.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    pub(super) history: History,
    next: AtomicUsize,
    over: AtomicBool,
    acknowledged: AtomicUsize,
    tries: AtomicUsize,
    unknown: Mutex<Vec<IntentId>>,
}

impl Crowd {
    /// Sends clients after new intents, two of them after each, until it is over.
    pub(super) fn send<A: Asker>(
        self: &Arc<Self>,
        clients: usize,
        asker: &Arc<A>,
        sent: &mut JoinSet<()>,
    ) {
        let next = Arc::new(AtomicUsize::new(0));
        for client in 0..clients {
            let (crowd, asker, next) = (Arc::clone(self), Arc::clone(asker), Arc::clone(&next));
            sent.spawn(async move {
                while !crowd.over.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed) / 2;
                    let id = id(&format!("{}-{number:06}", A::FORM));
                    crowd.until_definite(&*asker, &id, client).await;
                }
            });
        }
    }

    /// Asks until there is a definite answer, or nobody can say.
    pub(super) async fn until_definite<A: Asker>(&self, asker: &A, id: &IntentId, client: usize) {
        self.history.asked(id);
        let deadline = Instant::now() + PATIENCE;
        for attempt in 0.. {
            self.tries.fetch_add(1, Ordering::Relaxed);
            // No two tries would keep the same bytes.
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let outcome = Outcome::new(201, format!("{} by {client}, {number}", id.key));
            match asker.ask(&call(id), outcome).await {
                Said::Done(told) => {
                    self.history.acknowledged(id, told);
                    self.acknowledged.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Said::Unknown => {
                    self.unknown.lock().unwrap().push(id.clone());
                    return;
                }
                Said::Again => {}
            }
            let in_time = Instant::now() < deadline;
            assert!(in_time, "{} is not definite after {attempt} tries", id.key);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until this many more final answers were given.
    pub(super) async fn until_told(&self, more: usize) {
        let (before, deadline) = (self.acknowledged(), Instant::now() + PATIENCE);
        while self.acknowledged() < before + more {
            assert!(Instant::now() < deadline, "the clients do not go on");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(super) fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    pub(super) fn tries(&self) -> usize {
        self.tries.load(Ordering::Relaxed)
    }

    /// Lets the clients finish what they are at.
    pub(super) async fn over(&self, sent: JoinSet<()>) {
        self.over.store(true, Ordering::Relaxed);
        sent.join_all().await;
    }

    /// Takes the intents of which nobody can say whether they were done.
    pub(super) fn take_unknown(&self) -> Vec<IntentId> {
        let mut unknown = std::mem::take(&mut *self.unknown.lock().unwrap());
        unknown.sort();
        unknown.dedup();
        unknown
    }
}

pub(super) fn id(key: &str) -> IntentId {
    let scope = Scope::new(Tenant::new("acme").unwrap(), Operation::new("pay").unwrap());
    scope.intent(Key::new(key).unwrap())
}

/// Everything is short, so that what a dead primary leaves is soon decided.
pub(super) fn call(id: &IntentId) -> Call {
    let policy = Policy {
        lease: Duration::from_secs(2),
        wait: Duration::from_secs(1),
        claim_timeout: Duration::from_secs(2),
        store_for: Duration::from_secs(2),
        ..Policy::default()
    };
    let fingerprint = Fingerprint::of_bytes(id.key.as_str().as_bytes());
    Call::new(id.clone(), fingerprint, Arc::new(policy))
}
