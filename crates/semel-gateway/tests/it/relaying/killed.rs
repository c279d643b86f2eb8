//! Relays that are killed, and two on one store.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::place::{Place, Relay, first_seen, id, taking, until};
use crate::{
    message::answer,
    upstream::{Deed, Upstream},
};

/// A relay that is killed at any moment loses nothing, and whoever knows copies by their key has one
/// effect of each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_it_loses_no_event_and_keeps_the_order() {
    let receiver = taking().await;
    let place = Place::to(&[("hooks", &receiver)]);
    let aggregates: Vec<_> = (0..8).map(|number| format!("a{number}")).collect();
    for round in 0..5_u32 {
        let relay = Relay::start(&place).await;
        for aggregate in &aggregates {
            place.append(aggregate, round * 10..round * 10 + 10);
            // What is rolled back never leaves.
            place.transaction(aggregate, 900..905).execute_batch("ROLLBACK").unwrap();
        }
        let expected = usize::try_from(round).unwrap() * 80 + 15;
        until("some arrived", async || receiver.seen.effects().len() >= expected).await;
        relay.kill().await;
    }
    let _relay = Relay::start(&place).await;
    until("all arrived", async || receiver.seen.effects().len() >= 400).await;
    place.until_drained().await;
    assert_eq!(receiver.seen.effects().len(), 400);
    for aggregate in &aggregates {
        assert_eq!(first_seen(&receiver, aggregate), (0..50).collect::<Vec<_>>(), "{aggregate}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_relays_one_leads_and_the_other_takes_over_after_a_kill() {
    let receiver = taking().await;
    let place = Place::to(&[("hooks", &receiver)]);
    let first = Relay::start(&place).await;
    until("one leads", async || leader(&place).is_some()).await;
    let leading = leader(&place);
    // Both would listen for operators at one address.
    let text = std::fs::read_to_string(place.path().join("semel.toml")).unwrap();
    let without = text.lines().filter(|line| !line.starts_with("admin")).collect::<Vec<_>>();
    std::fs::write(place.path().join("second.toml"), without.join("\n")).unwrap();
    let _second = Relay::start_with(&place, &["--config", "second.toml"]).await;
    place.append("a", 0..100);
    until("all arrived", async || receiver.seen.effects().len() >= 100).await;
    place.until_drained().await;
    assert_eq!(leader(&place), leading);
    // While both run nothing is sent twice.
    assert_eq!(receiver.seen.requests().len(), 100);
    first.kill().await;
    place.append("a", 100..200);
    until("the rest arrived", async || receiver.seen.effects().len() >= 200).await;
    place.until_drained().await;
    assert_ne!(leader(&place), leading);
    assert_eq!(first_seen(&receiver, "a"), (0..200).collect::<Vec<_>>());
}

fn leader(place: &Place) -> Option<String> {
    let told = place.outbox(&["--json", "destinations"]).json();
    told["destinations"][0]["leader"].as_str().map(str::to_owned)
}

/// The lease would last an hour: only whoever gives it up lets the next one lead at once.
#[tokio::test]
async fn a_signal_lets_the_next_relay_lead_at_once() {
    let receiver = taking().await;
    let place = Place::with("lease = \"1h\"\npoll = \"5ms\"\n", &[("hooks", &receiver)], "");
    let relay = Relay::start(&place).await;
    place.append("a", 0..10);
    receiver.seen.until(10).await;
    place.until_drained().await;
    assert_eq!(relay.end().await, Some(0));
    place.append("a", 10..20);
    let _next = Relay::start(&place).await;
    receiver.seen.until(20).await;
    place.until_drained().await;
    assert_eq!(receiver.seen.requests().len(), 20);
}

/// M103: one event to three endpoints, one of which fails: only that one is sent it again.
#[tokio::test]
async fn an_event_is_sent_again_only_where_it_failed() {
    let (one, two) = (taking().await, taking().await);
    let asked = AtomicU32::new(0);
    let failing = Upstream::new(move |_| {
        let nth = asked.fetch_add(1, Ordering::SeqCst);
        let status = if nth < 3 { 500 } else { 200 };
        async move { Deed::Write(answer(status, &[], "")) }
    })
    .await;
    let place = Place::to(&[("one", &one), ("two", &two), ("three", &failing)]);
    let _relay = Relay::start(&place).await;
    place.append("a", 0..1);
    failing.seen.until(4).await;
    place.until_drained().await;
    let counts = [&one, &two, &failing].map(|receiver| receiver.seen.requests().len());
    assert_eq!(counts, [1, 1, 4]);
    assert_eq!(failing.seen.effects(), [(id("a", 0), 4)].into());
}

/// M55: what was sent and never confirmed is still to be sent after a kill.
#[tokio::test]
async fn what_was_sent_and_not_confirmed_is_pending_after_a_kill() {
    let first = AtomicBool::new(true);
    let mute = Upstream::new(move |_| {
        let hangs = first.swap(false, Ordering::SeqCst);
        async move {
            if hangs {
                return Deed::Hang;
            }
            Deed::Write(answer(200, &[], ""))
        }
    })
    .await;
    let place = Place::to(&[("hooks", &mute)]);
    let relay = Relay::start(&place).await;
    place.append("a", 0..1);
    mute.seen.until(1).await;
    relay.kill().await;
    let told = place.outbox(&["--json", "destinations"]).json();
    assert_eq!(told["destinations"][0]["waiting"], 1);
    let _next = Relay::start(&place).await;
    mute.seen.until(2).await;
    place.until_drained().await;
    assert_eq!(mute.seen.effects(), [(id("a", 0), 2)].into());
}
