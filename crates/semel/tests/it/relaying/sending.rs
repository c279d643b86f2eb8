//! What is sent, and in which order.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use semel::{
    Timestamp,
    outbox::{
        Destination, Lane, OutboxInspect,
        relay::{RelayDestination, Routes},
        store::{EventFilter, LeftOut},
    },
    store::Actor,
};
use semel_testkit::{ManualClock, SeededEntropy};

use super::{
    script::{Act, Script},
    world::{HOUR, MINUTE, SECOND, World, health},
};

#[tokio::test]
async fn what_was_committed_is_sent_once_and_nothing_else() {
    let world = World::new();
    let relay = world.relay();
    let mut rolled_back = world.outbox.begin();
    let mut late = world.outbox.begin();
    let never = world.add(&mut rolled_back, "a");
    let late_one = world.add(&mut late, "b");
    let soon = world.commit_all(&["a", "b", "a"]);
    world.run(SECOND).await;
    assert_eq!(world.script.first_arrivals(), ["a:3", "b:4", "a:5"]);
    late.commit().unwrap();
    rolled_back.rollback();
    world.run(SECOND).await;
    assert_eq!(world.script.first_arrivals(), ["a:3", "b:4", "a:5", "b:2"]);
    assert_eq!(world.script.arrivals().len(), 4);
    assert!(world.script.sends(never).is_empty());
    assert_eq!((world.script.sends(late_one).len(), world.script.sends(soon[0]).len()), (1, 1));
    let state = world.state().await;
    assert_eq!((state.waiting, state.parked, health(&relay).stats.sent), (0, 0, 4));
}

/// M52: the events of one transaction leave in the order in which they were appended.
#[tokio::test]
async fn ten_events_of_one_transaction_keep_their_order() {
    for pipelined in [false, true] {
        let world = World::new();
        world.script.can(|can| can.pipelined = pipelined);
        let _relay = world.relay();
        world.commit_all(&["a"; 10]);
        world.run(SECOND).await;
        let order: Vec<String> = (1..=10).map(|nth| format!("a:{nth}")).collect();
        assert_eq!(world.script.first_arrivals(), order);
        let batches = if pipelined { 1 } else { 10 };
        assert_eq!(world.script.batches(), batches);
    }
}

/// M53: lanes overtake each other, and no event overtakes one of its own lane.
#[tokio::test]
async fn lanes_whose_sends_take_unequal_times_keep_their_order() {
    for pipelined in [false, true] {
        let world = World::new();
        world.script.can(|can| can.pipelined = pipelined);
        let chance = Arc::new(SeededEntropy::printed());
        let drawn = Arc::clone(&chance);
        let wait = move || Duration::from_millis(1 + drawn.below(200));
        world.script.rule(move |_, _| Act::ConfirmAfter(wait()));
        let _relay = world.relay();
        for nth in 0..200 {
            world.commit(["a", "b"][nth % 2]);
        }
        world.run(MINUTE).await;
        let arrived = world.script.first_arrivals();
        for lane in ["a:", "b:"] {
            let of = arrived.iter().filter_map(|told| told.strip_prefix(lane)?.parse::<u64>().ok());
            let of: Vec<u64> = of.collect();
            assert!(of.len() == 100 && of.is_sorted(), "{lane} {of:?}");
        }
    }
}

/// M50: the second event of a lane waits while the first one fails, whatever way it fails in.
#[tokio::test]
async fn no_event_passes_one_of_its_lane_that_failed() {
    let acts = [Act::Refuse, Act::Lose, Act::ArriveUnheard, Act::Away(None), Act::Hang];
    for act in acts.into_iter().flat_map(|act| [(act, false), (act, true)]) {
        let (act, pipelined) = act;
        let world = World::new();
        world.script.can(|can| can.pipelined = pipelined);
        world.script.rule(move |message, before| {
            if &*message.event.kind == "1" && before < 2 { act } else { Act::Confirm }
        });
        let _relay = world.with(|policy| policy.blocked_for = HOUR);
        world.commit_all(&["a", "a", "b"]);
        world.run(MINUTE).await;
        let arrived = world.script.first_arrivals();
        let place = |of: &str| arrived.iter().position(|told| told == of);
        assert!(place("a:1") < place("a:2"), "{act:?}: {arrived:?}");
        assert_eq!(arrived.len(), 3, "{act:?}: {arrived:?}");
    }
}

/// A lane stays shut until a copy of what nobody can say of is confirmed, and the copy says so.
#[tokio::test]
async fn an_event_that_may_have_arrived_is_sent_again_under_the_same_id() {
    let world = World::new();
    world.script.rule(move |message, before| {
        assert_eq!(message.copies, before, "{message:?}");
        if before < 3 { Act::ArriveUnheard } else { Act::Confirm }
    });
    let relay = world.with(|policy| policy.blocked_for = HOUR);
    let id = world.commit_all(&["a", "a"])[0];
    world.run(SECOND * 10).await;
    assert_eq!(world.script.sends(id).len(), 4);
    let first: Vec<_> = world.script.arrivals().into_iter().take(4).collect();
    assert!(first.iter().all(|arrival| arrival.id == id));
    let stats = health(&relay).stats;
    assert_eq!((stats.unknown, stats.resent, stats.sent), (6, 6, 2));
}

/// M55, M56: what was handed over and not confirmed is still to be sent, whatever the relay believes.
#[tokio::test]
async fn what_nobody_confirmed_is_not_settled() {
    for act in [Act::Hang, Act::Lose, Act::Refuse, Act::ArriveUnheard] {
        let world = World::new();
        world.script.always(act);
        let _relay = world.with(|policy| policy.blocked_for = HOUR);
        world.commit("a");
        world.run(MINUTE).await;
        assert_eq!(world.state().await.waiting, 1, "{act:?}");
    }
}

/// M58: what the publisher does not count as confirmed is a failure, such as a message that no queue
/// takes.
#[tokio::test]
async fn a_message_that_nobody_takes_is_sent_again() {
    let world = World::new();
    world.script.rule(|_, before| if before == 0 { Act::Refuse } else { Act::Confirm });
    let relay = world.relay();
    let id = world.commit("a");
    world.run(SECOND).await;
    assert_eq!(world.script.sends(id).len(), 2);
    assert_eq!((health(&relay).stats.refused, health(&relay).stats.sent), (1, 1));
}

/// M92, M94: a wall clock that jumps sends nothing early, nothing twice, and stops nothing.
#[tokio::test]
async fn a_wall_clock_that_jumps_changes_nothing() {
    let world = World::new();
    let relay = world.relay();
    world.commit("a");
    world.run(SECOND).await;
    let start = ManualClock::START_US;
    for jump_s in [0, 300, 7_200] {
        world.clock.set_wall(Timestamp::from_micros(start - 3_600_000_000 + jump_s * 1_000_000));
        world.commit("a");
        world.run(MINUTE).await;
    }
    assert_eq!(world.script.first_arrivals(), ["a:1", "a:2", "a:3", "a:4"]);
    assert_eq!((world.script.arrivals().len(), health(&relay).stats.lost), (4, 0));
    assert_eq!(relay.unready(), []);
}

#[tokio::test]
async fn a_destination_gets_what_is_routed_to_it_and_settles_the_rest() {
    let world = World::new();
    let other = Script::new(world.clock.clone());
    let only = RelayDestination::new(Destination::new("invoices").unwrap(), other.clone())
        .routes(Routes::only(["invoice"]));
    let relay = world.built(|_| {}, |builder| builder.destination(only));
    world.commit_all(&["a", "b"]);
    world.run(SECOND).await;
    assert_eq!((world.script.arrivals().len(), other.arrivals().len()), (2, 0));
    assert_eq!(relay.destinations()[1].stats.not_routed, 2);
    let states = world.outbox.destinations().await.unwrap();
    assert!(states.iter().all(|state| state.waiting == 0), "{states:?}");
}

/// A replay sends what the destination gets and no more, though it names more: the rest of what it parked is
/// let go.
#[tokio::test]
async fn a_replay_sends_only_what_is_routed_to_the_destination() {
    let world = World::new();
    let other = Script::new(world.clock.clone());
    let invoices = || Destination::new("invoices").unwrap();
    let only = RelayDestination::new(invoices(), other.clone()).routes(Routes::only(["invoice"]));
    let relay = world.built(|_| {}, |builder| builder.destination(only));
    world.commit_all(&["a", "a", "b"]);
    let mut transaction = world.outbox.begin();
    let mut event = world.event("a");
    event.lane = Lane::new("invoice", "7").unwrap();
    transaction.append(event).unwrap();
    transaction.commit().unwrap();
    world.run(SECOND).await;
    assert_eq!(other.first_arrivals(), ["7:4"]);
    let actor = Actor { name: "operator".into(), note: "restored a backup".into() };
    let filter = EventFilter { limit: 10, ..EventFilter::default() };
    let replayed = world.outbox.replay(invoices(), filter, LeftOut::Stays, actor).await.unwrap();
    assert_eq!(replayed.parked, 4, "the store does not know what goes where");
    world.run(SECOND * 5).await;
    let told: Vec<_> = other.arrivals().iter().map(|of| of.kind.to_string()).collect();
    assert_eq!(told, ["4", "4"]);
    assert_eq!(relay.destinations()[1].stats.not_routed, 6);
    assert_eq!(world.parked().await, [] as [String; 0]);
    // What comes later is not held up by it.
    world.commit("a");
    world.run(SECOND).await;
    assert_eq!((other.arrivals().len(), relay.destinations()[1].stats.not_routed), (2, 7));
}

/// An aggregate whose versions do not rise is reported: its producer does not lock it.
#[tokio::test]
async fn versions_that_do_not_rise_are_counted() {
    let world = World::new();
    let relay = world.relay();
    for version in [1, 2, 2, 5, 4, 6] {
        let mut event = world.event("a");
        event.version = Some(version);
        let mut transaction = world.outbox.begin();
        transaction.append(event).unwrap();
        transaction.commit().unwrap();
        world.run(SECOND).await;
    }
    assert_eq!((health(&relay).stats.disorders, health(&relay).stats.sent), (2, 6));
}

/// Many lanes go at once, within the bounds of the publisher.
#[tokio::test]
async fn batches_are_as_large_and_as_many_as_the_publisher_says() {
    let world = World::new();
    world.script.always(Act::ConfirmAfter(SECOND));
    let relay = world.relay();
    world.commit_lanes(100);
    world.run(SECOND * 5).await;
    let arrived: BTreeSet<String> = world.script.first_arrivals().into_iter().collect();
    assert_eq!((arrived.len(), world.script.batches(), world.script.at_once_max()), (100, 7, 4));
    assert_eq!(health(&relay).stats.resent, 0);
}
