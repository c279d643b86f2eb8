//! A destination that is away, and a store that is.

use std::time::Duration;

use semel::{
    Clock,
    outbox::{
        Destination,
        relay::{CircuitState, RelayDestination, Unready},
    },
};

use super::{
    script::{Act, Script},
    store::{Do, Verb},
    world::{HOUR, MINUTE, SECOND, World, health},
};

fn lanes(count: usize) -> Vec<String> {
    (0..count).map(|nth| format!("lane-{nth}")).collect()
}

/// M43: half an hour without a broker spends no attempt, keeps memory within its bound, parks nothing
/// for an operator, and everything is delivered afterwards.
#[tokio::test]
async fn an_outage_spends_no_attempt_and_everything_is_delivered_afterwards() {
    for act in [Act::Away(None), Act::Lose, Act::Hang] {
        let world = World::new();
        world.script.always(act);
        let relay = world.with(|policy| policy.events_max = 200);
        let lanes = lanes(50);
        for nth in 0..300 {
            world.commit(&lanes[nth % 50]);
            world.run(SECOND * 6).await;
            assert!(health(&relay).in_hand <= 400, "{act:?}");
        }
        assert_ne!(health(&relay).circuit, CircuitState::Closed, "{act:?}");
        assert!(world.script.sent() < 1_500, "{act:?}: {} sends", world.script.sent());
        assert!(!world.parked().await.iter().any(|row| row.contains("failed")), "{act:?}");
        let rows = world.parked_rows().await;
        assert!(rows.iter().all(|row| row.attempts == 0), "{act:?}");
        world.script.always(Act::Confirm);
        world.run(MINUTE * 2).await;
        assert_eq!(world.script.first_arrivals().len(), 300, "{act:?}");
        let state = world.state().await;
        assert_eq!((state.waiting, state.parked), (0, 0), "{act:?}");
        assert_eq!(health(&relay).stats.failed, 0, "{act:?}");
    }
}

/// One dead destination leaves the others as they are.
#[tokio::test]
async fn a_destination_that_is_away_touches_no_other() {
    let world = World::new();
    let dead = Script::new(world.clock.clone());
    dead.always(Act::Away(None));
    let to_dead = Destination::new("dead").unwrap();
    let other = RelayDestination::new(to_dead, dead.clone());
    let relay = world.built(|_| {}, |builder| builder.destination(other));
    for _ in 0..100 {
        let id = world.commit("a");
        world.run(SECOND / 5).await;
        assert_eq!(world.script.sends(id).len(), 1, "it waited for a destination that is away");
    }
    let health = relay.destinations();
    assert_eq!((health[0].stats.sent, health[1].stats.sent), (100, 0));
    assert!(dead.sent() < 60, "{}", dead.sent());
}

/// A destination that says when to come again is not asked before.
#[tokio::test]
async fn a_destination_is_not_asked_before_it_said() {
    let world = World::new();
    world.script.rule(|_, before| if before == 0 { Act::Away(Some(MINUTE)) } else { Act::Confirm });
    let _relay = world.relay();
    let id = world.commit("a");
    world.run(MINUTE * 2).await;
    let sends = world.script.sends(id);
    assert_eq!(sends.len(), 2);
    assert!(sends[1].since(sends[0]) >= MINUTE);
}

/// M31: a backlog that nobody sees is seen within a minute.
#[tokio::test]
async fn a_relay_that_delivers_nothing_is_not_ready_within_a_minute() {
    let world = World::new();
    world.script.always(Act::Away(None));
    let relay = world.relay();
    world.run(SECOND).await;
    assert_eq!(relay.unready(), []);
    world.commit("a");
    world.run(MINUTE).await;
    assert!(matches!(relay.unready()[..], [Unready::Lagging { .. }]), "{:?}", relay.unready());
    assert!(health(&relay).oldest.unwrap() >= SECOND * 30);
    world.script.always(Act::Confirm);
    world.run(MINUTE).await;
    assert_eq!((relay.unready(), health(&relay).oldest), (vec![], None));
}

/// M31: what the destination lacks is as old as it is to whoever asks, be it in the table, on its way or
/// parked aside: an outage never looks as if nothing waited, and readiness does not waver.
#[tokio::test]
async fn an_event_that_is_lacked_is_as_old_for_everybody_all_the_time() {
    for act in [Act::Away(None), Act::Away(Some(SECOND * 3)), Act::Hang, Act::Lose, Act::Refuse] {
        let world = World::new();
        world.script.always(act);
        let relay = world.with(|policy| {
            policy.oldest_max = SECOND * 10;
            policy.failing_for = HOUR;
        });
        world.run(SECOND).await;
        let began = world.clock.monotonic();
        world.commit_all(&["a", "a", "b"]);
        for _ in 0..300 {
            world.run(SECOND / 2).await;
            let age = world.clock.monotonic().since(began);
            assert_eq!(world.state().await.lag(), age, "{act:?}");
            // The relay hears of an event when it reads.
            let seen = health(&relay).oldest.filter(|_| age > SECOND).unwrap_or(age);
            assert_eq!(seen, age, "{act:?}");
            assert_eq!(relay.unready().is_empty(), age <= SECOND * 10, "{act:?} {age:?}");
        }
        assert_ne!(world.state().await.parked_lanes, 0, "{act:?}: nothing was parked aside");
        world.script.always(Act::Confirm);
        world.run(MINUTE).await;
        assert_eq!(world.state().await.lag(), Duration::ZERO, "{act:?}");
        assert_eq!((relay.unready(), health(&relay).oldest), (vec![], None), "{act:?}");
    }
}

/// M31: what waits for an operator is told apart from what waits to be sent, which it does not hide.
#[tokio::test]
async fn what_waits_for_an_operator_is_counted_apart() {
    let world = World::new();
    let refuse = |message: &semel::outbox::Message, _: u32| match message.event.lane.id() {
        "a" => Act::Refuse,
        _ => Act::Lose,
    };
    world.script.rule(refuse);
    let relay = world.relay();
    world.commit_all(&["a", "a"]);
    world.run(MINUTE * 5).await;
    let state = world.state().await;
    assert_eq!((state.lag(), state.failed_lanes, state.parked), (Duration::ZERO, 1, 2));
    assert_eq!((relay.unready(), health(&relay).oldest), (vec![], None));
    world.commit_all(&["b"]);
    world.run(MINUTE).await;
    assert_eq!(world.state().await.lag(), MINUTE);
    assert_eq!(health(&relay).oldest, Some(MINUTE));
    assert!(matches!(relay.unready()[..], [Unready::Lagging { .. }]), "{:?}", relay.unready());
}

/// M31: so is a store that does not answer, whether it fails or hangs.
#[tokio::test]
async fn a_relay_whose_store_is_silent_is_not_ready_within_a_minute() {
    for what in [Do::Fail, Do::Hang] {
        let world = World::new();
        let relay = world.relay();
        world.run(SECOND).await;
        world.store.rule(move |_| what);
        world.run(SECOND * 45).await;
        assert!(matches!(relay.unready()[..], [Unready::StoreSilent { .. }]), "{what:?}");
        world.store.rule(|_| Do::Pass);
        world.run(SECOND * 20).await;
        assert_eq!(relay.unready(), []);
    }
}

/// M31: a relay that sees nothing does not say that nothing waits, whatever of the store fails it.
#[tokio::test]
async fn what_nobody_can_read_is_as_late_as_it_may_be() {
    let fails: [fn(Verb) -> bool; 3] =
        [|_| true, |verb| verb == Verb::Read, |verb| verb == Verb::Settle];
    for (case, fails) in fails.into_iter().enumerate() {
        let world = World::new();
        let relay = world.relay();
        world.run(SECOND).await;
        assert_eq!((health(&relay).lag(), relay.unready()), (Duration::ZERO, vec![]));
        world.store.rule(move |verb| if fails(verb) { Do::Fail } else { Do::Pass });
        // Where only settlements fail it is sent, and nothing behind it is read.
        world.commit("a");
        world.run(SECOND * 10).await;
        world.commit("a");
        world.run(SECOND * 35).await;
        let lag = health(&relay).lag();
        assert!((SECOND * 35..SECOND * 50).contains(&lag), "{case}: {lag:?}");
        let gauges = health(&relay).gauges();
        let shown = gauges.iter().find(|(name, _)| *name == "semel_relay_oldest_seconds");
        assert!(shown.is_some_and(|(_, seconds)| *seconds >= 35.0), "{case}: {gauges:?}");
        assert_eq!(relay.unready().len(), 1, "{case}: {:?}", relay.unready());
        world.store.rule(|_| Do::Pass);
        world.run(MINUTE).await;
        assert_eq!((health(&relay).lag(), relay.unready()), (Duration::ZERO, vec![]), "{case}");
    }
}

/// A store that is away is asked ever more rarely, and the relay goes on when it is back.
#[tokio::test]
async fn a_store_that_is_away_is_not_pressed() {
    let world = World::new();
    let relay = world.relay();
    world.run(SECOND).await;
    world.store.rule(|_| Do::Fail);
    let calls = || world.store.calls(Verb::Read) + world.store.calls(Verb::Renew);
    let before = calls();
    let ids = [world.commit("a"), world.commit("a")];
    world.run(HOUR / 6).await;
    let asked = calls() - before;
    assert!((100..600).contains(&asked), "{asked}");
    world.store.rule(|_| Do::Pass);
    world.run(SECOND * 40).await;
    assert_eq!(ids.map(|id| world.script.sends(id).len()), [1, 1]);
    assert!(health(&relay).leading);
}
