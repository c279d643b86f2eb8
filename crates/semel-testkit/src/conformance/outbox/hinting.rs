//! Hints: whoever waits for a commit hears of it. Everything works without them, by polling.

use std::{sync::Arc, time::Duration};

use semel::outbox::OutboxHints;

use super::{FreshOutbox, verbs::*};

/// Longer than a hint takes, and short enough to be waited for many times.
const WAIT: Duration = Duration::from_millis(500);

/// How long all who wait may take to hear of commits that go on and on.
const TOLD_WAIT: Duration = Duration::from_secs(60);

async fn hinted(hints: &Arc<dyn OutboxHints>, wait: Duration) -> bool {
    hints.hinted(wait).await.expect("hints can be had")
}

/// A commit is hinted at to whoever waits for it.
pub async fn a_commit_is_hinted_at(on: FreshOutbox) {
    let Some(hints) = on.hints.clone() else { return };
    for _ in 0..ROUNDS_MAX {
        // A hint may be lost, as one of a commit that comes before anybody waits: another follows.
        let (heard, ()) = tokio::join!(hinted(&hints, WAIT), on.commit_hinted());
        if heard {
            return;
        }
    }
    panic!("no commit is ever hinted at")
}

/// Of all who wait each is hinted at, and finds what was committed.
pub async fn all_who_wait_are_hinted_at(on: FreshOutbox) {
    let Some(hints) = on.hints.clone() else { return };
    let leader = on.lead("first").await;
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let hints = Arc::clone(&hints);
            tokio::spawn(async move {
                for _ in 0..ROUNDS_MAX {
                    if hinted(&hints, WAIT).await {
                        return;
                    }
                }
                panic!("no commit is ever hinted at")
            })
        })
        .collect();
    // Where the clock is moved by hand nothing else ends a wait: commits go on until all have heard.
    let told = async {
        while !waiting.iter().all(|waiting| waiting.is_finished()) {
            on.commit_hinted().await;
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TOLD_WAIT, told).await.expect("all who wait hear of a commit");
    for waiting in waiting {
        waiting.await.unwrap();
    }
    assert!(!on.drain(&leader).await.is_empty());
}

/// A wait ends in time although nothing comes, and says so.
pub async fn a_wait_without_a_commit_ends_in_time(on: FreshOutbox) {
    let Some(hints) = on.hints.clone() else { return };
    // What was there before may be told of once.
    heard_in_time(&on, &hints).await;
    assert!(!heard_in_time(&on, &hints).await, "nothing was committed");
}

/// Waits for a short time. The clock of an outbox may be moved by hand: it is moved on for whoever waits.
async fn heard_in_time(on: &FreshOutbox, hints: &Arc<dyn OutboxHints>) -> bool {
    let wait = Duration::from_millis(20);
    let moved = async {
        loop {
            on.after(wait).await;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        heard = hinted(hints, wait) => heard,
        () = moved => unreachable!("time goes on"),
    }
}
