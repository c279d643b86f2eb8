//! Readiness and metrics of a relay.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{
    message::answer,
    upstream::{Deed, Upstream},
};

use super::place::{Place, QUICK, Relay, first_seen, id, taking, until};

/// M31, M43: credentials that broke are seen at once, spend no attempt, and all is delivered when they
/// are mended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_credentials_are_seen_by_readiness_and_by_the_age_of_the_oldest_event() {
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let receiver = Upstream::new(move |_| {
        let status = if is_broken.load(Ordering::SeqCst) { 401 } else { 204 };
        async move { Deed::Write(answer(status, &[], "")) }
    })
    .await;
    let relay = format!("{QUICK}lag_max = \"500ms\"\n");
    let place = Place::with(&relay, &[("hooks", &receiver)], "");
    let _relay = Relay::start(&place).await;
    until("it is ready", async || place.ask("/readyz").await.status() == 200).await;
    place.append("a", 0..20);
    until("it is not ready", async || place.ask("/readyz").await.status() == 503).await;
    let why = place.ask("/readyz").await;
    assert!(why.text().contains("events for hooks wait for"), "{}", why.text());
    assert!(place.metric("semel_relay_oldest_seconds{destination=\"hooks\"}").await >= 0.5);
    until("the circuit opened", async || {
        place.metric("semel_relay_circuit{destination=\"hooks\"}").await > 0.0
    })
    .await;
    let late = place.outbox(&["destinations", "--lag-max", "1ms"]);
    late.ends(1, "the destination hooks lags by");
    // An outage parks nothing for an operator: no attempt was spent.
    assert!(place.metric("semel_relay_failed_total{destination=\"hooks\"}").await < 0.5);
    broken.store(false, Ordering::SeqCst);
    place.until_drained().await;
    until("it is ready again", async || place.ask("/readyz").await.status() == 200).await;
    assert_eq!(first_seen(&receiver, "a"), (0..20).collect::<Vec<_>>());
    assert_eq!(place.metric("semel_relay_sent_total{destination=\"hooks\"}").await, 20.0);
    assert_eq!(place.ask("/healthz").await.status(), 200);
}

/// M31: a destination that takes nothing for long is late to whoever asks, whether a relay runs or not;
/// the log says why, once, and when it is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_set_aside_still_lags_and_the_log_says_why() {
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let receiver = Upstream::new(move |_| {
        let is_broken = is_broken.load(Ordering::SeqCst);
        let answer = if is_broken { answer(429, &[], "") } else { answer(204, &[], "") };
        async move { Deed::Write(answer) }
    })
    .await;
    let relay = format!("{QUICK}lag_max = \"500ms\"\nblocked_for = \"50ms\"\n");
    let place = Place::with(&relay, &[("hooks", &receiver)], "");
    let (relay, log) = Relay::logged(&place).await;
    place.append("a", 0..2);
    let state = || place.outbox(&["--json", "destinations"]).json()["destinations"][0].clone();
    until("it was set aside", async || state()["parked"] == 2).await;
    let shown = place.outbox(&["parked", "hooks"]).out;
    let states: Vec<_> = shown.lines().filter(|line| line.contains("order/a")).collect();
    assert!(states[0].contains(" aside ") && states[1].contains(" behind "), "{shown}");
    let aside = place.outbox(&["parked", "--state", "aside"]).out;
    assert!(aside.contains(&id("a", 0)) && !aside.contains(&id("a", 1)), "{aside}");
    until("it lags", async || place.ask("/readyz").await.status() == 503).await;
    let late = || place.outbox(&["destinations", "--lag-max", "1ms", "--failed-max", "1ms"]);
    late().ends(1, "the destination hooks lags by");
    assert_eq!((&state()["waiting"], &state()["failed_lanes"]), (&0.into(), &0.into()));
    assert_ne!(state()["oldest"], serde_json::Value::Null);
    relay.kill().await;
    late().ends(1, "the destination hooks lags by");
    let text = std::fs::read_to_string(&log).unwrap();
    let told = |what: &str| text.lines().filter(|line| line.contains(what)).count();
    assert_eq!(told("its circuit is open"), 1, "{text}");
    assert_eq!(told("an event was not taken"), 1, "{text}");
    assert_eq!(told("it answered 429"), 2, "{text}");
    assert_eq!(told(&id("a", 0)), 1, "{text}");
    let (_relay, log) = Relay::logged(&place).await;
    until("it is away again", async || {
        std::fs::read_to_string(&log).unwrap().contains("its circuit is open")
    })
    .await;
    broken.store(false, Ordering::SeqCst);
    until("it lags no more", async || late().code == 0).await;
    until("that is told", async || {
        std::fs::read_to_string(&log).unwrap().contains("takes events again")
    })
    .await;
}

/// One dead destination: the other goes on, and its events are all there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_destination_holds_no_other_up() {
    let alive = taking().await;
    let dead = Upstream::new(|_| async { Deed::Hang }).await;
    let place = Place::to(&[("alive", &alive), ("dead", &dead)]);
    let _relay = Relay::start(&place).await;
    for first in (0..100).step_by(10) {
        place.append("a", first..first + 10);
    }
    until("all arrived", async || alive.seen.effects().len() >= 100).await;
    assert_eq!(first_seen(&alive, "a"), (0..100).collect::<Vec<_>>());
    assert_eq!(place.metric("semel_relay_sent_total{destination=\"dead\"}").await, 0.0);
    let told = place.outbox(&["--json", "destinations"]).json();
    let states = told["destinations"].as_array().unwrap();
    let dead = states.iter().find(|state| state["destination"] == "dead").unwrap();
    let behind = dead["waiting"].as_u64().unwrap() + dead["parked"].as_u64().unwrap();
    assert_eq!(behind, 100);
}
