//! The runner on this store: a consumer with its effects in the same database.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use semel::{
    SystemClock,
    inbox::{
        Delivery, Failed, Handled, Handler, InboxPolicy, Recorded, Redelivered, Source,
        runner::{Runner, RunnerError},
    },
};
use semel_testkit::{servers::Major, sources::MemoryQueue};
use tokio_util::sync::CancellationToken;

use super::desk::{Desk, delivery, policy};
use crate::transact::pool::Pool;

/// Has effects in the database, by a pool.
struct Billing {
    desk: Desk,
    pool: Pool,
    batches: bool,
    emitted: AtomicU32,
}

#[async_trait]
impl Handler for Billing {
    async fn run(&self, delivery: &Delivery) -> Result<Handled, Failed> {
        let ran = self
            .desk
            .inbox
            .run_on(&self.pool, delivery, async |handling| {
                self.desk.act(&*handling, handling.message().id()).await?;
                Ok::<_, tokio_postgres::Error>(handling.finish(Some("paid".into()), ()))
            })
            .await?;
        Ok(ran.into())
    }

    async fn run_all(&self, deliveries: &[Delivery]) -> Result<Option<Vec<Handled>>, Failed> {
        if !self.batches {
            return Ok(None);
        }
        let handled = self.desk.inbox.run_all_on(&self.pool, deliveries, async |mut batch| {
            for at in batch.new_ones() {
                self.desk.act(&*batch, deliveries[at].message.id()).await?;
                batch.answer(at, "paid".into()).unwrap();
            }
            Ok::<_, tokio_postgres::Error>(batch.finish())
        });
        Ok(Some(handled.await?))
    }

    async fn emit(&self, _: &Delivery, recorded: &Recorded) -> Result<(), Failed> {
        assert_eq!(recorded.answer.as_deref(), Some(&b"paid"[..]));
        self.emitted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

async fn billing(batches: bool) -> Arc<Billing> {
    let desk = Desk::new(Major::V18).await;
    let pool = Pool::new(&desk.fixture.url, 8);
    Arc::new(Billing { desk, pool, batches, emitted: AtomicU32::new(0) })
}

async fn runner(billing: &Arc<Billing>, source: Arc<dyn Source>) -> Runner {
    let store = Arc::new(billing.desk.fixture.open().await);
    let policy = InboxPolicy { backoff: Duration::from_millis(1), ..policy() };
    Runner::builder(Arc::new(policy), source, store, Arc::clone(billing) as _).build().unwrap()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// M73: the consumer is killed again and again, also between commit and acknowledgement.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_killed_again_and_again_has_one_effect_per_message() {
    for batches in [false, true] {
        let billing = billing(batches).await;
        let queue = MemoryQueue::new(Arc::new(SystemClock::new()));
        for n in 0..300 {
            let mut copy = delivery(&format!("m{n}"));
            copy.redelivered = Redelivered::Unknown;
            queue.send(copy);
        }
        let runner = runner(&billing, queue.clone()).await;
        let mut kills = 0_usize;
        while queue.acked().len() < 300 {
            queue.lose_settlements(usize::from(kills.is_multiple_of(2)));
            let acked = queue.acked().len();
            let running = runner.clone();
            let task = tokio::spawn(async move { running.run(std::future::pending()).await });
            until("it goes on", || queue.acked().len() > acked || queue.left() == 0).await;
            task.abort();
            drop(task.await);
            queue.restart();
            kills += 1;
        }
        assert_eq!(billing.desk.effects(None).await, 300, "after {kills} kills");
        let distinct = "SELECT count(DISTINCT message) FROM semel.effect";
        assert_eq!(billing.desk.number(distinct).await, 300);
        assert!(billing.emitted.load(Ordering::Relaxed) >= 300);
    }
}

/// M67: nothing stays counted of what has come to its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_ends_in_order_leaves_nothing_counted() {
    let billing = billing(false).await;
    let queue = MemoryQueue::new(Arc::new(SystemClock::new()));
    for n in 0..100 {
        let mut copy = delivery(&format!("m{n}"));
        copy.redelivered = Redelivered::Unknown;
        queue.send(copy);
    }
    let runner = runner(&billing, queue.clone()).await;
    let (closing, running) = (CancellationToken::new(), runner.clone());
    let token = closing.clone();
    let task = tokio::spawn(async move { running.run(token.cancelled()).await });
    until("all are acknowledged", || queue.acked().len() == 100).await;
    assert!(runner.is_ready());
    closing.cancel();
    task.await.unwrap().unwrap();
    assert_eq!(billing.desk.number("SELECT count(*) FROM semel.inbox_attempt").await, 0);
    assert_eq!((billing.desk.effects(None).await, runner.stats().handled), (100, 100));
}

/// M76: without its unique key nothing is consumed.
#[tokio::test]
async fn a_consumer_does_not_start_on_a_table_without_its_unique_key() {
    let billing = billing(false).await;
    let drop = "ALTER TABLE semel.inbox DROP CONSTRAINT inbox_pkey";
    let client = billing.desk.connect().await;
    client.batch_execute(&billing.desk.fixture.sql(drop)).await.unwrap();
    let queue = MemoryQueue::new(Arc::new(SystemClock::new()));
    queue.send(delivery("a"));
    let runner = runner(&billing, queue.clone()).await;
    let ended = runner.run(std::future::pending()).await;
    assert!(matches!(ended, Err(RunnerError::Store(_))), "{ended:?}");
    assert_eq!((billing.desk.effects(None).await, queue.left(), runner.is_ready()), (0, 1, false));
}
