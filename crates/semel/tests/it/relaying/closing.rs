//! Closing a relay: nothing new is sent, what is on its way is waited for, and another follows at once.

use super::{
    script::Act,
    store::{Do, Verb},
    world::{MINUTE, SECOND, World, health},
};

#[tokio::test]
async fn closing_waits_for_what_is_on_its_way_settles_it_and_resigns() {
    let world = World::new();
    world.script.always(Act::ConfirmAfter(SECOND * 2));
    let relay = world.with(|policy| policy.blocked_for = MINUTE);
    world.commit_all(&["a", "a", "b"]);
    world.run(SECOND / 2).await;
    let close = tokio::spawn({
        let relay = relay.clone();
        async move { relay.close(MINUTE).await }
    });
    world.run(SECOND * 3).await;
    assert!(close.await.unwrap());
    assert_eq!(world.script.first_arrivals(), ["a:1", "b:3"]);
    assert!(world.state().await.leader.is_none());
    // Whoever leads next sends what was not settled: a:1 is settled, b:3 lies behind a:2 and is not.
    world.script.always(Act::Confirm);
    let next = world.relay();
    world.run(SECOND).await;
    assert_eq!(world.script.first_arrivals(), ["a:1", "b:3", "a:2"]);
    assert_eq!((world.script.arrivals().len(), health(&next).stats.sent), (4, 2));
}

/// What is confirmed of a lane that was parked aside meanwhile is told before the relay resigns.
#[tokio::test]
async fn closing_tells_what_was_confirmed_aside() {
    let world = World::new();
    world.script.always(Act::ConfirmAfter(SECOND * 3));
    let relay = world.relay();
    world.commit("a");
    world.run(SECOND * 2).await;
    assert_eq!(world.parked().await, ["a:1:behind"]);
    let close = tokio::spawn({
        let relay = relay.clone();
        async move { relay.close(MINUTE).await }
    });
    world.run(SECOND * 3).await;
    assert!(close.await.unwrap());
    assert_eq!((world.state().await.parked, world.script.sent()), (0, 1));
}

#[tokio::test]
async fn closing_gives_up_after_its_time() {
    for (act, fault) in [(Act::Hang, Do::Pass), (Act::Confirm, Do::Hang)] {
        let world = World::new();
        world.script.always(act);
        let relay = world.relay();
        world.run(SECOND).await;
        world.store.rule(move |verb| if verb == Verb::Settle { fault } else { Do::Pass });
        world.commit("a");
        world.run(SECOND).await;
        let close = tokio::spawn({
            let relay = relay.clone();
            async move { relay.close(SECOND * 2).await }
        });
        world.run(SECOND * 2).await;
        assert!(!close.await.unwrap());
        // What was not settled is sent again by whoever leads next.
        world.script.always(Act::Confirm);
        world.store.rule(|_| Do::Pass);
        let _next = world.relay();
        world.run(MINUTE).await;
        assert_eq!(world.state().await.waiting, 0);
    }
}

#[tokio::test]
async fn a_relay_that_does_not_lead_closes_at_once() {
    let world = World::new();
    let _leader = world.relay();
    world.run(SECOND).await;
    let follower = world.relay();
    world.run(SECOND).await;
    assert!(follower.close(SECOND).await);
}
