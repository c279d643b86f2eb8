//! How often the store is asked and written to, and how soon an event leaves.

use std::{sync::Arc, time::Duration};

use semel::outbox::relay::RelayPolicy;

use super::{
    script::Act,
    store::Verb,
    world::{HOUR, MINUTE, SECOND, World, health},
};

const MS: Duration = Duration::from_millis(1);

/// M37: an idle hour writes nothing, counts nothing, and asks at most as often as the policy says.
#[tokio::test]
async fn an_idle_hour_writes_nothing_and_counts_nothing() {
    let world = World::new();
    let relay = world.with(|policy| policy.poll_idle = SECOND * 2);
    world.commit("a");
    world.run(MINUTE).await;
    let (stats, settles, reads) =
        (health(&relay).stats, world.store.calls(Verb::Settle), world.store.calls(Verb::Read));
    world.run(HOUR).await;
    assert_eq!(health(&relay).stats, stats);
    assert_eq!(world.store.calls(Verb::Settle), settles);
    let reads = world.store.calls(Verb::Read) - reads;
    assert!((1_790..=1_801).contains(&reads), "{reads}");
    // The lease is renewed, three times in each.
    assert!(world.store.calls(Verb::Renew) <= 3_660 / 10 + 2);
}

/// Without any hint an event leaves within the longest pause.
#[tokio::test]
async fn polling_alone_finds_an_event_within_the_idle_pause() {
    let world = World::new();
    let _relay = world.with(|policy| policy.poll_idle = MS * 100);
    for nth in 0..40 {
        world.run(SECOND + MS * 7 * nth).await;
        let at = semel::Clock::monotonic(&*world.clock);
        let id = world.commit("a");
        world.run(MS * 150).await;
        let sends = world.script.sends(id);
        assert!(sends[0].since(at) <= MS * 100, "{:?}", sends[0].since(at));
    }
}

/// A hint, of the process itself or of the store, cuts the pause short.
#[tokio::test]
async fn a_hint_lets_an_event_leave_at_once() {
    for of_store in [false, true] {
        let world = World::new();
        let hints = Arc::new(world.outbox.clone());
        let relay = world.built(
            |policy| policy.poll_idle = SECOND * 10,
            |builder| if of_store { builder.hints(hints) } else { builder },
        );
        world.run(MINUTE).await;
        for _ in 0..20 {
            world.run(SECOND / 3).await;
            let id = world.commit("a");
            if !of_store {
                relay.hint();
            }
            world.run(Duration::ZERO).await;
            assert_eq!(world.script.sends(id).len(), 1, "of the store: {of_store}");
        }
    }
}

/// A hint that comes while a read is on its way is not lost with what that read did not see.
#[tokio::test]
async fn a_hint_while_a_read_is_on_its_way_is_followed() {
    let world = World::new();
    let relay = world.with(|policy| policy.poll_idle = SECOND * 10);
    world.run(MINUTE).await;
    world.store.once(Verb::Read, super::store::Do::Late(SECOND));
    relay.hint();
    world.run(SECOND / 2).await;
    let id = world.commit("a");
    relay.hint();
    world.run(SECOND * 3 / 4).await;
    assert_eq!(world.script.sends(id).len(), 1);
}

/// Under load a few settlements are written in a second, not one for each event.
#[tokio::test]
async fn settlements_are_coalesced_under_load() {
    let world = World::new();
    world.script.can(|can| can.batches_max = 1);
    world.script.always(Act::ConfirmAfter(MS * 10));
    let relay = world.relay();
    world.commit_lanes(10_000);
    world.run(SECOND * 10).await;
    assert_eq!(health(&relay).stats.sent, 10_000);
    let settled = world.store.calls(Verb::Settle);
    assert!((20..=40).contains(&settled), "{settled}");
}

/// What is in hand is bounded in events and in bytes, whatever waits in the table.
#[tokio::test]
async fn what_is_in_hand_is_bounded() {
    for bytes in [false, true] {
        let world = World::new();
        world.script.always(Act::Lose);
        let relay = world.with(|policy| {
            policy.events_max = if bytes { 100_000 } else { 500 };
            policy.bytes_max = if bytes { 100_000 } else { 1 << 30 };
        });
        world.commit_lanes(5_000);
        world.run(MINUTE).await;
        let health = health(&relay);
        assert!(health.in_hand <= 600 && health.in_hand > 100, "{health:?}");
    }
}

/// Old events are dropped once every destination has them, and a hold-up is told.
#[tokio::test]
async fn old_events_are_dropped_and_a_hold_up_is_told() {
    let world = World::new();
    let retain = Arc::new(world.outbox.clone());
    let change = |policy: &mut RelayPolicy| {
        (policy.keep_for, policy.poll_idle) = (MINUTE * 10, SECOND * 10);
    };
    let relay = world.built(change, |builder| builder.retain(retain.clone()));
    world.commit_all(&["a", "b"]);
    world.run(MINUTE * 5).await;
    assert_eq!((world.kept().await.len(), relay.dropped()), (2, 0));
    world.run(MINUTE * 10).await;
    assert_eq!((world.kept().await.len(), relay.dropped()), (0, 2));
    world.script.always(Act::Away(None));
    world.commit_lanes(10);
    world.run(MINUTE * 20).await;
    assert!(relay.retention_held_up().unwrap().contains("bus"));
    world.script.always(Act::Confirm);
    world.run(MINUTE * 2).await;
    assert_eq!((relay.retention_held_up(), world.kept().await.len()), (None, 0));
}
