//! Messages that fail, and what fails for all of them.

use std::{sync::Arc, time::Duration};

use semel::{
    SystemClock,
    inbox::{InboxInspect, InboxPolicy, ParkedFilter},
};
use semel_testkit::sources::MemoryQueue;

use super::desk::{Desk, Said, delivery, policy, until};

/// Long enough that a message fails more often than it need before it may be parked.
const PARK_AFTER: Duration = Duration::from_millis(150);

fn queue_of(ids: &[&str]) -> Arc<MemoryQueue> {
    let queue = MemoryQueue::new(Arc::new(SystemClock::new()));
    ids.iter().for_each(|id| queue.send(delivery(id)));
    queue
}

/// M47, M67: a poison message is parked, and the others flow.
#[tokio::test]
async fn a_message_that_always_fails_is_parked_and_the_others_flow() {
    for said in [Said::Fails, Said::Panics] {
        let desk = Desk::new(move |id, _| if id == "poison" { said } else { Said::Done });
        let queue = queue_of(&["a", "poison", "b", "c"]);
        let running = desk.start(queue.clone());
        until("all are acknowledged", async || queue.acked().len() == 4).await;
        let stats = running.close().await.stats();
        assert_eq!(desk.parked().await, [("poison".to_owned(), 3)], "{said:?}");
        assert_eq!((desk.runs("poison"), desk.effects().len()), (3, 3));
        assert_eq!((stats.failures, stats.parked), (3, 1));
        assert_eq!(desk.attempts("poison").await.count, 0, "M67: they go with the parking");
    }
}

/// However often it failed before it may be parked, it is run once more then, and parked for what it
/// failed of: only an attempt that did not end at all is told as one.
#[tokio::test]
async fn a_message_whose_attempts_end_is_parked_for_what_it_failed_of() {
    for attempts_max in [1, 3] {
        let late = InboxPolicy { attempts_max, park_after: PARK_AFTER, ..policy() };
        let desk = Desk::with(late, false, |_, _| Said::Fails);
        let queue = queue_of(&["a"]);
        let running = desk.start(queue.clone());
        until("it is acknowledged", async || queue.acked().len() == 1).await;
        running.close().await;
        let filter = ParkedFilter { limit: 100, ..ParkedFilter::default() };
        let parked = desk.inbox.parked(filter).await.unwrap();
        assert_eq!(parked.len(), 1);
        assert!(parked[0].why.contains("it cannot be handled"), "{}", parked[0].why);
        assert!(desk.runs("a") > parked[0].attempts, "{} runs", desk.runs("a"));
    }
}

#[tokio::test]
async fn a_message_that_nobody_can_read_is_parked_at_once() {
    let desk = Desk::new(|_, _| Said::Refuses);
    let queue = queue_of(&["a"]);
    let running = desk.start(queue.clone());
    until("it is acknowledged", async || queue.acked().len() == 1).await;
    running.close().await;
    assert_eq!((desk.parked().await, desk.runs("a")), (vec![("a".to_owned(), 1)], 1));
}

#[tokio::test]
async fn a_message_that_fails_for_a_while_is_handled_in_the_end() {
    let desk = Desk::new(|_, run| if run < 3 { Said::Fails } else { Said::Done });
    let queue = queue_of(&["a"]);
    let running = desk.start(queue.clone());
    until("it is acknowledged", async || queue.acked().len() == 1).await;
    running.close().await;
    assert_eq!((desk.effects().len(), desk.parked().await), (1, vec![]));
    assert_eq!(desk.attempts("a").await.count, 0);
}

/// M38: while what every message needs is away, no attempt is spent and nothing is lost.
#[tokio::test]
async fn an_outage_spends_no_attempt() {
    for batches in [false, true] {
        let desk =
            Desk::with(policy(), batches, |_, run| if run <= 6 { Said::Away } else { Said::Done });
        let queue = queue_of(&["a", "b"]);
        let running = desk.start(queue.clone());
        until("it is not ready", async || !running.runner.is_ready()).await;
        until("both are acknowledged", async || queue.acked().len() == 2).await;
        assert!(running.runner.is_ready());
        assert!(running.close().await.stats().away >= 6);
        assert_eq!((desk.effects().len(), desk.parked().await), (2, vec![]));
        assert_eq!((desk.attempts("a").await.count, desk.attempts("b").await.count), (0, 0));
    }
}

/// M47: the others of its batch are handled.
#[tokio::test]
async fn a_batch_with_a_poison_message_is_run_message_by_message() {
    let desk = Desk::with(policy(), true, |id, _| match id {
        "poison" => Said::Fails,
        _ => Said::Done,
    });
    let queue = MemoryQueue::new(Arc::new(SystemClock::new()));
    let mut ids: Vec<_> = (0..40).map(|n| format!("m{n}")).collect();
    ids.insert(20, "poison".to_owned());
    ids.iter().for_each(|id| queue.send(delivery(id)));
    let running = super::desk::Running::of(desk.builder(queue.clone()).lanes(1).build().unwrap());
    until("all are acknowledged", async || queue.acked().len() == 41).await;
    running.close().await;
    assert_eq!((desk.effects().len(), desk.parked().await.len()), (40, 1));
}

/// A message that ends its process never gets to say that it failed: its attempts are counted before it
/// runs, and those of the messages behind it are not.
#[tokio::test]
async fn a_message_that_ends_its_process_is_parked_and_those_behind_it_are_not() {
    for batches in [false, true] {
        let desk = Desk::with(policy(), batches, |id, _| match id {
            "poison" => Said::Hangs,
            _ => Said::Done,
        });
        let queue = queue_of(&["poison", "b", "c", "d"]);
        let mut crashes = 0;
        while queue.acked().len() < 4 {
            let before = desk.runs("poison");
            let running =
                super::desk::Running::of(desk.builder(queue.clone()).lanes(1).build().unwrap());
            until("it hangs, or all is done", async || {
                desk.runs("poison") > before || queue.acked().len() == 4
            })
            .await;
            running.kill().await;
            queue.restart();
            crashes += 1;
            assert!(crashes < 10, "it is never parked");
        }
        assert_eq!(desk.effects().len(), 3, "batches: {batches}");
        let parked = desk.parked().await;
        assert_eq!(parked.len(), 1, "{parked:?}");
        assert_eq!(parked[0].0, "poison");
    }
}

#[tokio::test]
async fn parking_waits_for_its_time_however_many_attempts_there_were() {
    let park_after = std::time::Duration::from_secs(3_600);
    let desk = Desk::with(InboxPolicy { park_after, ..policy() }, false, |_, _| Said::Fails);
    let queue = queue_of(&["a"]);
    let running = desk.start(queue.clone());
    until("it was run often", async || desk.runs("a") > 12).await;
    running.close().await;
    assert_eq!((desk.parked().await, queue.left()), (vec![], 1));
}
