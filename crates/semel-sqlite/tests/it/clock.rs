//! The clock of the host, set forward and back by an hour.

use std::{sync::Arc, time::Duration};

use semel::{
    Clock, State, Store, Timestamp,
    decide::{OnLost, Refusal},
    store::{ClaimAnswer, Completed},
};
use semel_testkit::ManualClock;

use crate::bench::{Bench, ask, claim, done, granted, record, run};

const HOUR: u64 = 3_600_000_000;

fn moved(clock: &ManualClock, by: i64) {
    let wall = clock.wall().as_micros();
    clock.set_wall(Timestamp::from_micros(wall.saturating_add_signed(by)));
}

fn hour() -> i64 {
    i64::try_from(HOUR).unwrap()
}

#[tokio::test]
async fn an_hour_forward_while_open_ends_no_lease() {
    let (bench, clock) = (Bench::new(), ManualClock::new());
    let store = bench.builder().clock(clock.clone()).open().unwrap();
    granted(&store, ask("k", 1)).await;
    moved(&clock, hour());
    let answer = claim(&store, ask("k", 2)).await.unwrap();
    assert!(matches!(answer, ClaimAnswer::Refused(Refusal::InProgress { .. })), "{answer:?}");
}

#[tokio::test]
async fn an_hour_back_while_open_keeps_leases_as_they_are() {
    let (bench, clock) = (Bench::new(), ManualClock::new());
    let store = bench.builder().clock(clock.clone()).open().unwrap();
    granted(&store, ask("k", 1)).await;
    moved(&clock, -hour());
    clock.advance(Duration::from_secs(31));
    let mut second = ask("k", 2);
    second.on_lost = OnLost::Rerun;
    assert!(matches!(claim(&store, second).await.unwrap(), ClaimAnswer::Granted { .. }));
}

#[tokio::test]
async fn an_hour_back_over_a_restart_revives_nothing_and_lengthens_by_one_lease() {
    let (bench, clock) = (Bench::new(), ManualClock::new());
    let store = bench.builder().clock(clock.clone()).open().unwrap();
    let mut finish = done(semel::Outcome::new(200, "x"));
    finish.replay_for = Duration::from_secs(5);
    let permit = granted(&store, ask("forgotten", 1)).await;
    store.complete(permit, finish).await.unwrap();
    clock.advance(Duration::from_secs(6));
    let held = granted(&store, ask("held", 1)).await;
    let before = store.read(vec![]).await.unwrap().now;
    drop(store);
    moved(&clock, -hour());
    let store = bench.builder().clock(clock.clone()).open().unwrap();
    assert!(store.read(vec![]).await.unwrap().now >= before);
    let answer = claim(&store, ask("forgotten", 2)).await.unwrap();
    assert!(matches!(answer, ClaimAnswer::Refused(Refusal::Forgotten { .. })), "{answer:?}");
    clock.advance(Duration::from_secs(31));
    let answer = claim(&store, ask("held", 2)).await.unwrap();
    assert!(matches!(answer, ClaimAnswer::Refused(Refusal::Unknown { .. })), "{answer:?}");
    // The late holder is still the only truth there is.
    let stored = store.complete(held, done(semel::Outcome::new(200, "late"))).await.unwrap();
    assert_eq!(stored, Completed::Stored);
}

#[tokio::test]
async fn an_hour_forward_over_a_restart_makes_a_lost_holder_unknown_and_runs_nothing() {
    let (bench, clock) = (Bench::new(), ManualClock::new());
    let store = bench.builder().clock(clock.clone()).open().unwrap();
    granted(&store, ask("k", 1)).await;
    drop(store);
    moved(&clock, hour());
    let store = bench.builder().clock(clock.clone()).open().unwrap();
    let answer = claim(&store, ask("k", 2)).await.unwrap();
    assert!(matches!(answer, ClaimAnswer::Refused(Refusal::Unknown { .. })), "{answer:?}");
    assert_eq!(record(&store, "k").await.unwrap().state, State::Unknown);
}

#[tokio::test]
async fn a_process_whose_clock_is_behind_follows_the_time_of_the_file() {
    let bench = Bench::new();
    let ahead = ManualClock::new();
    let behind = ManualClock::new();
    moved(&behind, -hour());
    let first = bench.builder().clock(behind).open().unwrap();
    let second = Arc::new(bench.builder().clock(ahead).open().unwrap());
    run(&second, "k", vec![]).await;
    let now = second.read(vec![]).await.unwrap().now;
    assert!(first.read(vec![]).await.unwrap().now >= now);
}
