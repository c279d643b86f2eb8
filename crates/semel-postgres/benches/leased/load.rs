//! Callers of a store.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use semel::{
    Fingerprint, IntentId, Key, Operation, Outcome, Permit, Scope, Store, Tenant, Timestamp, Token,
    decide::{Ask, Compare, Finish, FinishKind, OnLost},
    store::{
        ClaimAnswer, Completed,
        capability::{Sweep, SweepBudget},
    },
};
use semel_postgres::PostgresStore;
use tokio::task::JoinSet;

/// How many callers there are.
pub(crate) const CALLERS: usize = 64;

/// What one round measured.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) per_second: f64,
    pub(crate) median: Duration,
    pub(crate) p99: Duration,
}

impl Round {
    pub(crate) fn of(mut spans: Vec<Duration>, elapsed: Duration) -> Self {
        spans.sort();
        let at = |percent: usize| spans[(spans.len() - 1) * percent / 100];
        let count = f64::from(u32::try_from(spans.len()).unwrap());
        Self { per_second: count / elapsed.as_secs_f64(), median: at(50), p99: at(99) }
    }
}

/// Has callers do something again and again until the time is over.
pub(crate) async fn callers<F>(
    callers: usize,
    span: Duration,
    once: impl Fn(usize) -> F + Clone + Send + 'static,
) -> Round
where
    F: Future<Output = ()> + Send,
{
    let began = Instant::now();
    let until = began + span;
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let once = once.clone();
        tasks.spawn(async move {
            let mut spans = Vec::new();
            while Instant::now() < until {
                let began = Instant::now();
                once(caller).await;
                spans.push(began.elapsed());
            }
            spans
        });
    }
    let spans = tasks.join_all().await.concat();
    Round::of(spans, began.elapsed())
}

/// A store, and the number of the next intent.
#[derive(Debug)]
pub(crate) struct Bench {
    store: PostgresStore,
    serial: AtomicU64,
}

pub(crate) fn store(store: PostgresStore) -> Arc<Bench> {
    Arc::new(Bench { store, serial: AtomicU64::new(1) })
}

impl Bench {
    async fn claim(&self) -> Permit {
        let ask = ask(id(self.serial.fetch_add(1, Ordering::Relaxed)), 1);
        match self.store.claim(vec![ask]).await.unwrap().remove(0).answer {
            ClaimAnswer::Granted { permit, .. } => permit,
            other => unreachable!("{other:?}"),
        }
    }

    async fn once(&self) {
        let permit = self.claim().await;
        assert_eq!(self.store.complete(permit, done()).await.unwrap(), Completed::Stored);
    }
}

/// Claims new intents.
pub(crate) async fn claims(bench: &Arc<Bench>, span: Duration, count: usize) -> Round {
    let bench = Arc::clone(bench);
    let once = move |_| {
        let bench = Arc::clone(&bench);
        async move { drop(bench.claim().await) }
    };
    callers(count, span, once).await
}

/// Claims and completes new intents.
pub(crate) async fn runs(bench: &Arc<Bench>, span: Duration, count: usize) -> Round {
    let bench = Arc::clone(bench);
    let once = move |_| {
        let bench = Arc::clone(&bench);
        async move { bench.once().await }
    };
    callers(count, span, once).await
}

/// Finishes so many intents, the first ones.
pub(crate) async fn finish(bench: &Arc<Bench>, count: u32) {
    for _ in 0..count {
        bench.once().await;
    }
}

/// Replays the first intents.
pub(crate) async fn replays(bench: &Arc<Bench>, span: Duration, count: usize, kept: u32) -> Round {
    let (bench, next) = (Arc::clone(bench), Arc::new(AtomicU64::new(0)));
    let once = move |_| {
        let (bench, next) = (Arc::clone(&bench), Arc::clone(&next));
        async move {
            let ask = ask(id(next.fetch_add(1, Ordering::Relaxed) % u64::from(kept) + 1), 2);
            let answer = bench.store.claim(vec![ask]).await.unwrap().remove(0).answer;
            assert!(matches!(answer, ClaimAnswer::Replay(_)));
        }
    };
    callers(count, span, once).await
}

/// Claims and completes so many intents a second, whether or not earlier ones are done.
pub(crate) async fn paced(bench: &Arc<Bench>, span: Duration, per_second: u32) -> Round {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let timer = tokio::spawn(async move {
        // The load lasts for a span of time, whatever happens in it.
        // The span of the measurement itself: nothing is waited for.
        tokio::time::sleep(span).await;
        stopped.store(true, Ordering::Relaxed);
    });
    let round = until_stopped(bench, per_second, &stop).await;
    timer.await.unwrap();
    round
}

/// Does the same while a sweep drops so many records.
pub(crate) async fn paced_beside_sweep(bench: &Arc<Bench>, per_second: u32, due: u32) -> Round {
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, sweeper) = (Arc::clone(&stop), Arc::clone(bench));
    let sweep = tokio::spawn(async move {
        let mut deleted = 0;
        while deleted < u64::from(due) {
            deleted += sweeper.store.sweep(SweepBudget::default()).await.unwrap().deleted;
        }
        stopped.store(true, Ordering::Relaxed);
    });
    let round = until_stopped(bench, per_second, &stop).await;
    sweep.await.unwrap();
    round
}

async fn until_stopped(bench: &Arc<Bench>, per_second: u32, stop: &AtomicBool) -> Round {
    let began = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second);
    let mut requests = JoinSet::new();
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        let bench = Arc::clone(bench);
        requests.spawn(async move {
            let began = Instant::now();
            bench.once().await;
            began.elapsed()
        });
    }
    Round::of(requests.join_all().await, began.elapsed())
}

/// Names an intent by a number; keys lie far from each other, as random ones do.
pub(crate) fn id(serial: u64) -> IntentId {
    let key = format!("{:016x}-{serial}", serial.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let scope =
        Scope::new(Tenant::new("acme").unwrap(), Operation::new("payments.create").unwrap());
    scope.intent(Key::new(key).unwrap())
}

fn ask(id: IntentId, token: u8) -> Ask {
    let mut bytes = [token; 16];
    let digest = *Fingerprint::of_bytes(id.key.as_str().as_bytes()).digest();
    bytes[..15].copy_from_slice(&digest[..15]);
    Ask {
        id,
        token: Token::from_bytes(bytes),
        fingerprint: Fingerprint::of_bytes(b"pay 10"),
        older: Vec::new(),
        not_after: Timestamp::MAX,
        lease: Duration::from_secs(30),
        on_lost: OnLost::Hold,
        compare: Compare::Strict,
        claimed_by: None,
    }
}

fn done() -> Finish {
    let outcome = Outcome::new(201, vec![b'x'; 200])
        .header("content-type", "application/json")
        .header("location", "/payments/7");
    Finish {
        kind: FinishKind::Done,
        outcome: Some(outcome),
        reason: None,
        replay_for: Duration::from_secs(86_400),
        remember_for: Duration::from_secs(30 * 86_400),
    }
}
