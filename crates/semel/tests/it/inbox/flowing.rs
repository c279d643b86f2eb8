//! Messages that are handled: each once, acknowledged after the commit.

use std::sync::Arc;

use bytes::Bytes;
use semel::{
    SystemClock,
    inbox::{InboxInspect, InboxPolicy, Receipt, Redelivered},
};
use semel_testkit::sources::MemoryQueue;

use super::desk::{Desk, Said, consumer, delivery, policy, until};

fn queue() -> Arc<MemoryQueue> {
    MemoryQueue::new(Arc::new(SystemClock::new()))
}

#[tokio::test]
async fn every_message_has_one_effect_and_is_acknowledged() {
    let (desk, queue) = (Desk::new(|_, _| Said::Done), queue());
    (0..200).for_each(|n| queue.send(delivery(&format!("m{n}"))));
    let running = desk.start(queue.clone());
    until("all are acknowledged", async || queue.acked().len() == 200).await;
    let stats = running.close().await.stats();
    let mut effects = desk.effects();
    effects.sort();
    effects.dedup();
    assert_eq!((effects.len(), desk.effects().len(), stats.handled), (200, 200, 200));
    assert_eq!((queue.left(), queue.is_closed()), (0, true));
}

/// M17: fifty copies of one message, spread over all lanes.
#[tokio::test(flavor = "multi_thread")]
async fn copies_at_once_have_one_effect() {
    let (desk, queue) = (Desk::new(|_, _| Said::Done), queue());
    (0..50).for_each(|_| queue.send(delivery("a")));
    let running = desk.start(queue.clone());
    until("all are acknowledged", async || queue.acked().len() == 50).await;
    let stats = running.close().await.stats();
    assert_eq!((desk.effects().len(), stats.handled, stats.duplicates), (1, 1, 49));
}

/// M73: the acknowledgement is lost, so nobody knows whether the answer went out.
#[tokio::test]
async fn a_copy_sends_again_what_the_first_run_recorded() {
    let (desk, queue) = (Desk::new(|_, _| Said::Done), queue());
    queue.lose_settlements(2);
    queue.send(delivery("a"));
    let running = desk.start(queue.clone());
    until("it is acknowledged", async || queue.acked().len() == 1).await;
    let stats = running.close().await.stats();
    assert_eq!((desk.effects(), desk.emitted().len()), (vec!["a".to_owned()], 3));
    assert_eq!((stats.handled, stats.duplicates), (1, 2));
}

/// M73: what the run recorded could not be sent, and nothing is acknowledged before it is.
#[tokio::test]
async fn nothing_is_acknowledged_before_its_answer_is_sent() {
    let (desk, queue) = (Desk::new(|_, _| Said::Done), queue());
    desk.kept.lock().unwrap().emit_fails = 5;
    queue.send(delivery("a"));
    let running = desk.start(queue.clone());
    until("it is acknowledged", async || queue.acked().len() == 1).await;
    let stats = running.close().await.stats();
    assert_eq!((desk.effects().len(), desk.emitted().len(), stats.not_emitted), (1, 1, 5));
    assert_eq!(desk.parked().await, [], "the effect is there: no attempt is spent on it");
}

#[tokio::test]
async fn another_message_under_one_id_is_reported_and_not_run() {
    let (desk, queue) = (Desk::new(|_, _| Said::Done), queue());
    queue.send(delivery("a"));
    let running = desk.start(queue.clone());
    until("the first is acknowledged", async || queue.acked().len() == 1).await;
    let mut other = delivery("a");
    other.payload = Some(Bytes::from_static(b"another"));
    queue.send(other);
    until("both are acknowledged", async || queue.acked().len() == 2).await;
    assert_eq!(running.close().await.stats().mismatches, 1);
    assert_eq!((desk.effects().len(), desk.emitted().len()), (1, 1));
    let audit = desk.inbox.inbox_audit(Some(consumer()), 10).await.unwrap();
    assert_eq!(audit[0].message, delivery("a").message);
}

#[tokio::test]
async fn messages_are_handed_over_in_batches_to_whoever_takes_several() {
    let desk = Desk::with(policy(), true, |_, _| Said::Done);
    let queue = queue();
    (0..300).for_each(|n| queue.send(delivery(&format!("m{n}"))));
    let running = super::desk::Running::of(
        desk.builder(queue.clone()).lanes(2).batch_max(50).build().unwrap(),
    );
    until("all are acknowledged", async || queue.acked().len() == 300).await;
    running.close().await;
    let kept = desk.kept.lock().unwrap();
    assert_eq!((kept.effects.len(), kept.batches.iter().sum::<usize>()), (300, 300));
    assert!(kept.batches.iter().all(|batch| *batch <= 50), "{:?}", kept.batches);
}

/// What may have come before is counted, and not kept: M67.
#[tokio::test]
async fn what_may_have_come_before_is_counted_until_its_end() {
    for batches in [false, true] {
        let desk = Desk::with(policy(), batches, |_, _| Said::Done);
        let queue = queue();
        for n in 0..20 {
            let mut copy = delivery(&format!("m{n}"));
            copy.redelivered = Redelivered::Unknown;
            copy.receipt = Receipt(9);
            queue.send(copy);
        }
        let running = desk.start(queue.clone());
        until("all are acknowledged", async || queue.acked().len() == 20).await;
        running.close().await;
        let consumers = desk.inbox.consumers().await.unwrap();
        assert_eq!((consumers[0].remembered, consumers[0].attempted), (20, 0));
    }
}

#[tokio::test]
async fn a_source_that_is_away_is_waited_for() {
    let (desk, queue) = (Desk::new(|_, _| Said::Done), queue());
    queue.break_down(true);
    let running = desk.start(queue.clone());
    until("it is not ready", async || {
        running.runner.stats().source_errors > 2 && !running.runner.is_ready()
    })
    .await;
    queue.send(delivery("a"));
    queue.break_down(false);
    until("it is acknowledged", async || queue.acked().len() == 1).await;
    assert!(running.runner.is_ready());
    running.close().await;
}

#[test]
fn a_memory_shorter_than_the_source_repeats_is_refused() {
    let day = std::time::Duration::from_secs(86_400);
    let clock = Arc::new(SystemClock::new());
    let desk = Desk::with(InboxPolicy { remember_for: day, ..policy() }, false, |_, _| Said::Done);
    for (horizon, refused) in [(Some(day), false), (Some(day * 2), true), (None, true)] {
        let queue = MemoryQueue::repeating(clock.clone(), horizon);
        let built = desk.builder(queue).build();
        assert_eq!(built.is_err_and(|error| error.code() == "inbox-horizon"), refused);
    }
}
