//! How long an answer is replayed, and what comes after.

use std::time::Duration;

use semel::{Clock, Policy};
use semel_http::{Late, Operation, Resource};
use semel_testkit::ManualClock;

use crate::support::{Server, Setup, pay, payments, policy};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

async fn serving(operation: Operation, clock: &std::sync::Arc<ManualClock>) -> Server {
    Setup::new([operation])
        .clock(clock)
        .serve(|ledger, _| async move {
            let row = ledger.write().to_string();
            (Resource::new("payment", row.as_str()), row)
        })
        .await
}

/// S13
#[tokio::test]
async fn a_retry_after_half_a_minute_or_a_day_is_a_replay_and_then_a_tombstone() {
    let clock = ManualClock::new();
    let server = serving(payments(), &clock).await;
    let first = server.send(&pay()).await;
    for span in [Duration::from_secs(31), 23 * HOUR] {
        clock.advance(span);
        server.send(&pay()).await.assert_replays(&first);
    }
    clock.advance(2 * HOUR);
    let forgotten = server.send(&pay()).await;
    assert_eq!((forgotten.status, forgotten.code().as_str()), (410, "forgotten"));
    let document = forgotten.document();
    assert_eq!(document["retry"], "do-not-retry");
    assert_eq!(document["pointer"]["id"], "1");
    assert_eq!(document["settled_at"], "2030-01-01T00:00:00.000Z");
    assert_eq!(server.refused(&pay().json("{}")).await, (422, "mismatch".to_owned()));
    assert_eq!(server.ledger.rows(), 1);
}

/// A UUID of version 7 made at an instant.
fn uuid7(at_ms: u64) -> String {
    let hex = format!("{at_ms:012x}");
    format!("{}-{}-7cc3-98c4-dc0c0c07398f", &hex[..8], &hex[8..])
}

/// C83
#[tokio::test]
async fn a_retry_that_comes_after_everything_was_forgotten_is_refused_by_its_own_time() {
    let clock = ManualClock::new();
    let remember_for = 2 * DAY;
    let late = || payments().policy(Policy { remember_for, replay_for: DAY, ..policy() });
    let server = serving(late().late(Late::Refuse), &clock).await;
    let minted = clock.wall().as_micros() / 1_000;
    let ask = pay().set("idempotency-key", uuid7(minted));
    let first = server.send(&ask).await;
    clock.advance(20 * HOUR);
    server.send(&ask).await.assert_replays(&first);
    clock.advance(3 * DAY);
    let refused = server.send(&ask).await;
    assert_eq!((refused.status, refused.code().as_str()), (412, "late"));
    assert_eq!(refused.document()["retry"], "do-not-retry");
    assert_eq!(refused.document()["first_sent"], "2030-01-01T00:00:00.000Z");
    let told = pay().header("repeatability-first-sent", "Tue, 01 Jan 2030 00:00:00 GMT");
    assert_eq!(server.refused(&told).await, (412, "late".to_owned()));
    assert_eq!(server.ledger.rows(), 1);
    // A key that tells no time, or a recent one, runs.
    assert_eq!(server.send(&pay()).await.text(), "2");
    let recent = uuid7(clock.wall().as_micros() / 1_000);
    assert_eq!(server.send(&pay().set("idempotency-key", recent)).await.text(), "3");
    // Unless the operation refuses, a late retry runs.
    let runs = serving(late(), &clock).await;
    assert_eq!(runs.send(&ask).await.text(), "1");
}

#[tokio::test]
async fn an_old_key_that_is_still_recorded_is_replayed() {
    let clock = ManualClock::new();
    let remember_for = 2 * DAY;
    let policy = Policy { remember_for, replay_for: DAY, ..policy() };
    let server = serving(payments().policy(policy).late(Late::Refuse), &clock).await;
    let minted = clock.wall().as_micros() / 1_000;
    let ask = pay().set("idempotency-key", uuid7(minted));
    clock.advance(40 * HOUR);
    let first = server.send(&ask).await;
    assert_eq!(first.status, 200);
    clock.advance(20 * HOUR);
    server.send(&ask).await.assert_replays(&first);
    assert_eq!(server.ledger.rows(), 1);
}
