//! Parked lanes: what is in them, and how they empty.

use std::time::Duration;

use semel::{
    outbox::{
        Message, OutboxInspect, OutboxRetain, ParkedState,
        store::{EventFilter, LeftOut},
    },
    store::Actor,
};

use super::{
    refusing::mark,
    script::Act,
    store::{Do, Verb},
    world::{HOUR, MINUTE, SECOND, World, health, lane, to},
};

/// A world in which event 1 of lane a was refused for good.
async fn poisoned() -> (World, semel::outbox::relay::Relay) {
    let world = World::new();
    world.script.rule(refuse_first);
    let relay = world.with(|policy| {
        policy.attempts_max = 2;
        policy.failing_for = Duration::ZERO;
    });
    world.commit_all(&["a", "a", "a", "b"]);
    world.run(SECOND * 10).await;
    assert_eq!(world.parked().await, ["a:1:failed", "a:2:behind", "a:3:behind"]);
    (world, relay)
}

fn refuse_first(message: &Message, _: u32) -> Act {
    if &*message.event.kind == "1" { Act::Refuse } else { Act::Confirm }
}

/// M40: what comes later in a parked lane waits behind it where everybody sees it, and leaves in order
/// once the head was sent.
#[tokio::test]
async fn a_retry_releases_a_parked_lane_in_order() {
    let (world, _relay) = poisoned().await;
    world.commit("a");
    world.run(MINUTE).await;
    assert_eq!(world.parked().await.len(), 4);
    assert_eq!(world.script.first_arrivals(), ["b:4"]);
    world.script.always(Act::Confirm);
    mark(&world.outbox, &world, ParkedState::Retry).await;
    world.run(SECOND * 5).await;
    assert_eq!(world.script.first_arrivals(), ["b:4", "a:1", "a:2", "a:3", "a:5"]);
    assert_eq!((world.script.arrivals().len(), world.state().await.parked), (5, 0));
    // The lane goes on as any other: nothing of it is parked any more.
    world.commit("a");
    world.run(SECOND).await;
    assert_eq!(world.script.first_arrivals().last().unwrap(), "a:6");
    assert!(world.store.settlements().last().unwrap().0.park.is_empty());
}

/// M40, M41: a head that is left out lets the next event of its lane go.
#[tokio::test]
async fn a_skip_lets_the_next_event_of_the_lane_go() {
    let (world, relay) = poisoned().await;
    mark(&world.outbox, &world, ParkedState::Skip).await;
    world.run(SECOND * 5).await;
    assert_eq!(world.script.first_arrivals(), ["b:4", "a:2", "a:3"]);
    assert_eq!((world.state().await.parked, health(&relay).stats.left_out), (0, 1));
}

/// M41: an event that is never refused and never confirmed is left out too by an operator's word, and
/// what is behind it goes.
#[tokio::test]
async fn an_event_that_nobody_can_say_of_is_left_out_by_a_word() {
    for act in [Act::Lose, Act::Hang] {
        for word in [ParkedState::Skip, ParkedState::Drop] {
            let world = World::new();
            world.script.can(|can| can.batch_max = 1);
            world.script.rule(
                move |message, _| {
                    if &*message.event.kind == "1" { act } else { Act::Confirm }
                },
            );
            let relay = world.relay();
            world.commit_all(&["a", "a", "b"]);
            world.run(MINUTE).await;
            assert_eq!(world.parked().await, ["a:1:behind", "a:2:behind"], "{act:?}");
            let why = &world.parked_rows().await[0].why;
            assert!(
                ["nobody heard", "there was no answer for 1 s so far"].contains(&&**why),
                "{why}"
            );
            mark(&world.outbox, &world, word).await;
            // At the latest between two sends.
            world.run(MINUTE).await;
            let left = if word == ParkedState::Skip { vec!["b:3", "a:2"] } else { vec!["b:3"] };
            assert_eq!(world.script.first_arrivals(), left, "{act:?} {word:?}");
            assert_eq!((world.state().await.parked, health(&relay).stats.left_out), (0, 1));
            // The lane goes on as any other.
            world.commit("a");
            world.run(SECOND * 2).await;
            assert_eq!(world.script.first_arrivals().last().unwrap(), "a:4", "{act:?} {word:?}");
            assert_eq!(world.state().await.parked, 0);
        }
    }
}

/// An event that waits long between two sends goes at once when an operator says so.
#[tokio::test]
async fn a_retry_of_an_event_that_is_sent_again_by_itself_sends_it_at_once() {
    let world = World::new();
    world.script.always(Act::Lose);
    let _relay = world.with(|policy| policy.retry_max = HOUR);
    let id = world.commit_all(&["a", "b"])[0];
    world.run(HOUR).await;
    let before = world.script.sends(id).len();
    let mut quiet = 0;
    while quiet < 60 {
        let sends = world.script.sends(id).len();
        world.run(SECOND).await;
        quiet = if world.script.sends(id).len() == sends { quiet + 1 } else { 0 };
    }
    world.script.always(Act::Confirm);
    mark(&world.outbox, &world, ParkedState::Retry).await;
    world.run(SECOND * 2).await;
    assert!(world.script.first_arrivals().contains(&"a:1".to_owned()), "{before}");
}

/// What becomes due while it is asked what is due is asked for at once, and not at the next look.
#[tokio::test]
async fn a_parked_lane_goes_on_although_another_was_settled_meanwhile() {
    let world = World::new();
    world.script.can(|can| can.batch_max = 1);
    world.script.always(Act::Refuse);
    let _relay = world.with(|policy| {
        policy.attempts_max = 1;
        policy.failing_for = Duration::ZERO;
    });
    world.commit_all(&["a", "b", "b"]);
    world.run(SECOND * 10).await;
    assert_eq!(world.parked().await, ["a:1:failed", "b:2:failed", "b:3:behind"]);
    let ms = Duration::from_millis;
    world.script.rule(move |message, _| {
        Act::ConfirmAfter(ms(if message.event.lane.id() == "a" { 5 } else { 12 }))
    });
    let late = move |verb| if verb == Verb::Due { Do::Late(ms(10)) } else { Do::Pass };
    world.store.rule(late);
    let seqs = world.parked_rows().await[..2].iter().map(|row| row.seq).collect();
    let actor = Actor { name: "operator".into(), note: "as agreed".into() };
    assert_eq!(world.outbox.mark(to(), seqs, ParkedState::Retry, actor).await.unwrap(), 2);
    world.run(SECOND * 5).await;
    assert_eq!(world.script.first_arrivals(), ["a:1", "b:2", "b:3"]);
    let arrived = world.script.arrivals();
    assert!(arrived[2].at.since(arrived[1].at) < SECOND / 2, "{arrived:?}");
}

#[tokio::test]
async fn a_drop_leaves_out_what_was_parked_and_later_events_go() {
    let (world, _relay) = poisoned().await;
    mark(&world.outbox, &world, ParkedState::Drop).await;
    world.run(SECOND * 5).await;
    world.commit("a");
    world.run(SECOND * 5).await;
    assert_eq!(world.script.first_arrivals(), ["b:4", "a:5"]);
    assert_eq!(world.state().await.parked, 0);
}

/// M44: a parked event is neither delivered nor old: retention does not touch it.
#[tokio::test]
async fn a_parked_event_outlives_retention() {
    let (world, _relay) = poisoned().await;
    world.run(HOUR).await;
    while world.outbox.retain(MINUTE).await.unwrap().more {}
    assert!(world.kept().await.is_empty());
    assert_eq!(world.state().await.parked, 3);
    world.script.always(Act::Confirm);
    mark(&world.outbox, &world, ParkedState::Retry).await;
    world.run(SECOND * 5).await;
    assert_eq!(world.script.first_arrivals(), ["b:4", "a:1", "a:2", "a:3"]);
}

/// Whoever leads next knows the parked lanes before it sends anything.
#[tokio::test]
async fn a_new_leader_sends_nothing_past_a_parked_event() {
    let (world, relay) = poisoned().await;
    assert!(relay.close(MINUTE).await);
    world.commit("a");
    let _next = world.relay();
    world.run(SECOND * 10).await;
    assert_eq!(world.script.first_arrivals(), ["b:4"]);
    assert_eq!(world.parked().await, ["a:1:failed", "a:2:behind", "a:3:behind", "a:5:behind"]);
}

/// A send that hangs keeps its own lane, and no other for longer than it may be stuck.
#[tokio::test]
async fn a_lane_whose_send_hangs_is_passed_and_goes_on_from_aside() {
    let world = World::new();
    world.script.can(|can| can.batch_max = 1);
    world.script.rule(|message, before| {
        let first = &*message.event.kind == "1" && before == 0;
        if first { Act::ConfirmAfter(SECOND * 4) } else { Act::Confirm }
    });
    let relay = world.relay();
    world.commit_all(&["a", "a", "b"]);
    world.run(SECOND / 2).await;
    world.commit("c");
    world.run(SECOND * 2).await;
    assert_eq!(world.script.first_arrivals(), ["b:3", "c:4"]);
    assert_eq!(world.parked().await, ["a:1:behind", "a:2:behind"]);
    world.run(SECOND * 5).await;
    assert_eq!(world.script.first_arrivals(), ["b:3", "c:4", "a:1", "a:2"]);
    // It was confirmed while it was parked: no second copy was sent.
    assert_eq!((world.script.arrivals().len(), world.state().await.parked), (4, 0));
    assert_eq!(health(&relay).stats.set_aside, 1);
}

/// An operator has events sent again: under their ids, in order, and later ones behind them.
#[tokio::test]
async fn events_are_sent_again_as_an_operator_says() {
    let world = World::new();
    let _relay = world.relay();
    world.commit_all(&["a", "b", "a"]);
    world.run(SECOND).await;
    let actor = Actor { name: "operator".into(), note: "lost by the receiver".into() };
    let filter = EventFilter { lane: Some(lane("a")), limit: 10, ..EventFilter::default() };
    let replayed = world.outbox.replay(to(), filter, LeftOut::Stays, actor).await.unwrap();
    assert_eq!(replayed.parked, 2);
    world.run(SECOND * 5).await;
    world.commit("a");
    world.run(SECOND * 5).await;
    let told: Vec<_> = world.script.arrivals().iter().map(|of| of.kind.clone()).collect();
    assert_eq!(
        told.iter().map(AsRef::as_ref).collect::<Vec<&str>>(),
        ["1", "2", "3", "1", "3", "4"]
    );
    assert_eq!(world.state().await.parked, 0);
}

/// M40: a lane that was set aside is back with the others in bounded time, however much of it keeps coming:
/// what is parked is sent in runs, and what comes when all of that is in hand is not parked any more.
#[tokio::test]
async fn a_busy_lane_that_was_set_aside_is_soon_back() {
    let ms = Duration::from_millis;
    for pipelined in [false, true] {
        let world = World::new();
        world.script.can(|can| can.pipelined = pipelined);
        let relay = world.with(|policy| {
            policy.poll_idle = ms(10);
            policy.retry_max = SECOND;
        });
        let hot = |act| {
            move |message: &Message, _| match message.event.lane.id() {
                "hot" => act,
                _ => Act::Confirm,
            }
        };
        let busy = async |seconds: u32| {
            for nth in 0..seconds * 100 {
                world.commit(if nth % 10 == 0 { "b" } else { "hot" });
                world.run(ms(10)).await;
            }
        };
        // While one event is settled the next comes: nobody ever sees the lane empty.
        world.store.rule(move |verb| match verb {
            Verb::Settle | Verb::Due | Verb::ParkedLanes => Do::Late(ms(15)),
            _ => Do::Pass,
        });
        world.script.rule(hot(Act::Lose));
        busy(4).await;
        assert!(world.state().await.parked > 200, "it was not set aside");
        world.script.rule(hot(Act::ConfirmAfter(ms(5))));
        // The wait before a lane is tried again, and what it takes to catch up at this pace.
        busy(8).await;
        assert_eq!(world.state().await.parked, 0, "pipelined: {pipelined}");
        let parked = health(&relay).stats.parked;
        busy(2).await;
        assert_eq!((health(&relay).stats.parked, health(&relay).parked_lanes), (parked, 0));
        world.run(SECOND).await;
        let arrived = world.script.first_arrivals();
        assert_eq!(arrived.len(), 1_400);
        let kinds = arrived.iter().filter_map(|of| of.strip_prefix("hot:")?.parse::<u64>().ok());
        assert!(kinds.is_sorted(), "out of order");
    }
}

/// A parked lane in a row of refusals keeps its order and what waits behind it, whatever of it is in
/// hand: the failed head, what stood behind it in the run, and what came meanwhile.
#[tokio::test]
async fn a_run_that_is_refused_on_its_way_waits_behind_the_refused_one() {
    for pipelined in [false, true] {
        let world = World::new();
        world.script.can(|can| can.pipelined = pipelined);
        let _relay = world.with(|policy| {
            policy.attempts_max = 2;
            policy.failing_for = Duration::ZERO;
        });
        world.script.always(Act::Lose);
        world.commit_all(&["a"; 6]);
        world.run(SECOND * 3).await;
        assert_eq!(world.state().await.parked, 6);
        world.script.rule(
            |message, _| if &*message.event.kind == "3" { Act::Refuse } else { Act::Confirm },
        );
        world.run(MINUTE).await;
        world.commit("a");
        world.run(SECOND * 5).await;
        let waiting = ["a:3:failed", "a:4:behind", "a:5:behind", "a:6:behind", "a:7:behind"];
        assert_eq!(world.parked().await, waiting, "pipelined: {pipelined}");
        assert_eq!(world.script.first_arrivals(), ["a:1", "a:2"]);
        mark(&world.outbox, &world, ParkedState::Skip).await;
        world.run(SECOND * 5).await;
        assert_eq!(world.script.first_arrivals(), ["a:1", "a:2", "a:4", "a:5", "a:6", "a:7"]);
        assert_eq!(world.state().await.parked, 0);
    }
}

/// Past the bound of lanes kept in mind nothing more is read, and the relay says so.
#[tokio::test]
async fn more_parked_lanes_than_may_be_kept_in_mind_stop_the_reading() {
    let world = World::new();
    let refuse = |message: &Message| message.event.lane.id().starts_with("bad");
    world.script.rule(move |message, _| if refuse(message) { Act::Refuse } else { Act::Confirm });
    let relay = world.with(|policy| {
        policy.attempts_max = 1;
        policy.failing_for = Duration::ZERO;
        policy.parked_lanes_max = 3;
    });
    world.commit_all(&["bad-1", "bad-2", "bad-3", "bad-4"]);
    world.run(SECOND * 10).await;
    world.commit("good");
    world.run(MINUTE).await;
    assert!(world.script.first_arrivals().is_empty());
    assert!(relay.unready().iter().any(|why| why.to_string().contains("more than 3")));
    mark(&world.outbox, &world, ParkedState::Skip).await;
    world.run(SECOND * 10).await;
    assert_eq!(world.script.first_arrivals(), ["good:5"]);
    assert_eq!(relay.unready(), []);
}
