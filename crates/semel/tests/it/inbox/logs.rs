//! Ordered logs: in order, logs beside each other, by ids and by positions.

use std::sync::Arc;

use semel::{
    SystemClock,
    inbox::{By, InboxPolicy, InboxStore, LogId},
};
use semel_testkit::sources::MemoryLog;

use super::desk::{Desk, Running, Said, consumer, delivery, policy, until};

fn log(name: &str) -> LogId {
    LogId::new(name).unwrap()
}

fn logs(names: &[&str], messages: usize) -> Arc<MemoryLog> {
    let source = MemoryLog::new(Arc::new(SystemClock::new()));
    for name in names {
        for n in 0..messages {
            source.append(&log(name), delivery(&format!("{name}{n:03}")));
        }
        source.assign(&log(name));
    }
    source
}

fn by_positions() -> InboxPolicy {
    InboxPolicy { by: By::Positions, ..policy() }
}

/// The effects of one log, in the order in which they were had.
fn of(desk: &Desk, name: &str) -> Vec<String> {
    desk.effects().into_iter().filter(|id| id.starts_with(name)).collect()
}

fn all(name: &str, messages: usize) -> Vec<String> {
    (0..messages).map(|n| format!("{name}{n:03}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_log_is_handled_in_its_order() {
    for (policy, batches) in
        [(policy(), false), (policy(), true), (by_positions(), false), (by_positions(), true)]
    {
        // Every seventh message fails at first.
        let desk = Desk::with(policy, batches, |id, run| {
            let number: u32 = id[1..].parse().unwrap_or_default();
            if number % 7 == 3 && run < 2 { Said::Fails } else { Said::Done }
        });
        let source = logs(&["a", "b", "c"], 100);
        let running = desk.start(source.clone());
        for name in ["a", "b", "c"] {
            until("the log is done", async || source.committed(&log(name)) == 100).await;
        }
        running.close().await;
        for name in ["a", "b", "c"] {
            assert_eq!(of(&desk, name), all(name, 100), "batches: {batches}");
        }
    }
}

/// M47: a poison message holds up its own log until it is parked, and no other.
#[tokio::test]
async fn a_poison_message_holds_up_its_log_until_it_is_parked_and_no_other() {
    for policy in [policy(), by_positions()] {
        let desk = Desk::with(policy, false, |id, _| match id {
            "a001" => Said::Fails,
            _ => Said::Done,
        });
        let source = logs(&["a", "b"], 5);
        let running = desk.start(source.clone());
        until("both are done", async || {
            source.committed(&log("a")) == 5 && source.committed(&log("b")) == 5
        })
        .await;
        running.close().await;
        assert_eq!(desk.parked().await, [("a001".to_owned(), 3)]);
        assert_eq!(of(&desk, "a"), ["a000", "a002", "a003", "a004"]);
        assert_eq!(of(&desk, "b").len(), 5);
    }
}

#[tokio::test]
async fn a_consumer_by_positions_goes_on_from_where_it_was_whatever_the_group_remembers() {
    let desk = Desk::with(by_positions(), false, |_, _| Said::Done);
    let source = logs(&["a"], 10);
    let running = desk.start(source.clone());
    until("it is done", async || source.committed(&log("a")) == 10).await;
    source.revoke(&log("a"));
    source.forget_offsets(&log("a"));
    source.append(&log("a"), delivery("a010"));
    source.assign(&log("a"));
    until("it goes on", async || source.committed(&log("a")) == 11).await;
    running.close().await;
    assert_eq!(of(&desk, "a"), all("a", 11));
    assert_eq!(desk.runs("a000"), 1, "it was not even delivered again");
    let next = desk.inbox.positions(consumer(), vec![log("a")]).await.unwrap();
    assert_eq!(next, [Some(11)]);
}

#[tokio::test]
async fn a_log_that_goes_to_another_owner_is_let_go_with_what_is_at_work() {
    let desk = Desk::new(|id, run| match (id, run) {
        ("a001", 1) => Said::Hangs,
        _ => Said::Done,
    });
    let source = logs(&["a"], 4);
    let running = Running::of(desk.builder(source.clone()).build().unwrap());
    until("it hangs", async || desk.runs("a001") == 1).await;
    source.revoke(&log("a"));
    source.assign(&log("a"));
    until("it is done", async || source.committed(&log("a")) == 4).await;
    running.close().await;
    assert_eq!(of(&desk, "a"), all("a", 4));
    assert_eq!((desk.attempts("a001").await.count, desk.parked().await), (0, vec![]));
}
