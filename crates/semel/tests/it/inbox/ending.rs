//! Shutdowns and crashes.

use std::{sync::Arc, time::Duration};

use semel::{SystemClock, inbox::Redelivered};
use semel_testkit::sources::MemoryQueue;

use super::desk::{Desk, Running, Said, delivery, until};

#[tokio::test]
async fn a_shutdown_gives_back_what_is_too_slow_with_its_attempt() {
    let desk = Desk::new(|_, _| Said::Hangs);
    let queue = MemoryQueue::new(Arc::new(SystemClock::new()));
    let mut copy = delivery("a");
    copy.redelivered = Redelivered::Yes(Some(1));
    queue.send(copy);
    for round in 1..=5 {
        let running = Running::of(
            desk.builder(queue.clone()).drain(Duration::from_millis(1)).build().unwrap(),
        );
        until("it hangs", async || desk.runs("a") == round).await;
        assert_eq!(desk.attempts("a").await.count, 1);
        running.close().await;
        assert!(queue.is_closed());
        assert_eq!(desk.attempts("a").await.count, 0, "its end is no fault of the message");
        queue.restart();
    }
    assert_eq!((queue.left(), desk.parked().await), (1, vec![]));
}

#[tokio::test]
async fn a_shutdown_waits_for_what_is_at_work() {
    let (begun, goes_on) =
        (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let desk = Desk::new(|_, _| Said::Done);
    let queue = MemoryQueue::new(Arc::new(SystemClock::new()));
    queue.send(delivery("a"));
    let slow = Slow { desk: Arc::clone(&desk), begun: begun.clone(), goes_on: goes_on.clone() };
    let policy = Arc::clone(&desk.policy);
    let runner = semel::inbox::runner::Runner::builder(
        policy,
        queue.clone(),
        Arc::clone(&desk.inbox) as _,
        Arc::new(slow),
    );
    let running = Running::of(runner.build().unwrap());
    begun.notified().await;
    let closing = tokio::spawn(running.close());
    goes_on.notify_one();
    closing.await.unwrap();
    assert_eq!((desk.effects().len(), queue.acked().len()), (1, 1));
}

/// Goes on when it is told to.
struct Slow {
    desk: Arc<Desk>,
    begun: Arc<tokio::sync::Notify>,
    goes_on: Arc<tokio::sync::Notify>,
}

#[async_trait::async_trait]
impl semel::inbox::Handler for Slow {
    async fn run(
        &self,
        delivery: &semel::inbox::Delivery,
    ) -> Result<semel::inbox::Handled, semel::inbox::Failed> {
        self.begun.notify_one();
        self.goes_on.notified().await;
        self.desk.run(delivery).await
    }
}

/// M73: killed again and again between commit and acknowledgement, and anywhere else.
#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_moment_every_message_has_one_effect_and_its_answer_goes_out() {
    let desk = Desk::new(|_, _| Said::Done);
    let queue = MemoryQueue::new(Arc::new(SystemClock::new()));
    (0..400).for_each(|n| queue.send(delivery(&format!("m{n}"))));
    let mut kills = 0;
    while queue.acked().len() < 400 {
        queue.lose_settlements(kills % 3);
        let running = desk.start(queue.clone());
        for _ in 0..(kills * 7 % 40) {
            tokio::task::yield_now().await;
        }
        running.kill().await;
        queue.restart();
        kills += 1;
        assert!(kills < 100_000, "it never ends");
    }
    let (mut effects, mut emitted) = (desk.effects(), desk.emitted());
    assert_eq!(effects.len(), 400);
    effects.sort();
    effects.dedup();
    emitted.sort();
    emitted.dedup();
    assert_eq!((effects.len(), emitted.len(), desk.parked().await), (400, 400, vec![]));
}
