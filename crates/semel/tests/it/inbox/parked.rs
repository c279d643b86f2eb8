//! Parked messages that an operator has run again.

use std::sync::Arc;

use semel::{
    SystemClock,
    inbox::{InboxInspect, InboxStore, Mark, ParkedState, Standing},
    store::Actor,
};
use semel_testkit::sources::MemoryQueue;

use super::desk::{Desk, Said, consumer, delivery, message, until};

async fn mark(desk: &Desk, mark: Mark) -> bool {
    let actor = Actor { name: "ada".into(), note: "fixed".into() };
    desk.inbox.mark(consumer(), message("a"), mark, actor).await.unwrap()
}

/// M70, M80: it has its own id and is not its own duplicate.
#[tokio::test]
async fn a_parked_message_runs_again_when_an_operator_says_so_and_sends_its_answer() {
    // Parked after three runs; the fourth fails as well, the fifth succeeds.
    let desk = Desk::new(|_, run| if run < 5 { Said::Fails } else { Said::Done });
    let queue = MemoryQueue::new(Arc::new(SystemClock::new()));
    queue.send(delivery("a"));
    let running = desk.start(queue.clone());
    until("it is parked", async || desk.parked().await == [("a".to_owned(), 3)]).await;
    assert!(mark(&desk, Mark::Retry).await);
    until("it failed again", async || desk.parked().await == [("a".to_owned(), 4)]).await;
    desk.kept.lock().unwrap().emit_fails = 2;
    assert!(mark(&desk, Mark::Retry).await);
    // Its copy stays until what it recorded is sent.
    until("it is gone", async || desk.parked().await.is_empty()).await;
    assert_eq!((desk.effects(), desk.emitted()), (vec!["a".to_owned()], vec!["a".to_owned()]));
    assert_eq!(desk.runs("a"), 7, "five, and two that met what was recorded");
    queue.send(delivery("a"));
    until("the copy is acknowledged", async || queue.acked().len() == 2).await;
    running.close().await;
    assert_eq!(desk.effects().len(), 1);
}

#[tokio::test]
async fn a_message_that_is_left_out_is_not_run_again() {
    let desk = Desk::new(|_, _| Said::Refuses);
    let queue = MemoryQueue::new(Arc::new(SystemClock::new()));
    queue.send(delivery("a"));
    let running = desk.start(queue.clone());
    until("it is parked", async || desk.parked().await.len() == 1).await;
    assert!(mark(&desk, Mark::Skip).await);
    let state = desk.inbox.message(consumer(), message("a")).await.unwrap();
    assert_eq!(state.parked.map(|parked| parked.state), Some(ParkedState::Skipped));
    assert_eq!(state.recorded.map(|recorded| recorded.standing), Some(Standing::LeftOut));
    assert!(mark(&desk, Mark::Drop).await && !mark(&desk, Mark::Retry).await);
    assert_eq!(desk.inbox.due(consumer(), 10).await.unwrap(), []);
    running.close().await;
    assert_eq!((desk.effects().len(), desk.parked().await), (0, vec![]));
}
