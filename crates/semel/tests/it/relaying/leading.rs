//! Who leads, until when something is sent, and what a leader of before can still do.

use std::{sync::Arc, time::Duration};

use semel::outbox::{
    Lead, Leader, Led, OutboxStore, Settled, Start,
    relay::{Relay, RelayDestination},
};

use super::{
    script::{Act, Script},
    store::{Do, Verb},
    world::{Freeze, Freezer, HOUR, MINUTE, SECOND, World, health, to},
};

const LEASE: Duration = Duration::from_secs(30);

/// A second process on the same store and the same destination.
fn second(world: &World) -> (Relay, Arc<Freezer>) {
    let freezer = Arc::new(Freezer::default());
    let turns = Arc::new(Freeze(freezer.clone()));
    let relay = Relay::builder(Arc::new(world.outbox.clone()))
        .clock(world.clock.clone())
        .owner("second")
        .turns(turns)
        .destination(RelayDestination::new(to(), world.script.clone()))
        .start()
        .unwrap();
    (relay, freezer)
}

#[tokio::test]
async fn one_of_two_relays_leads_and_the_other_follows_when_it_ends() {
    let world = World::new();
    let first = world.relay();
    world.run(SECOND).await;
    let (second, _) = second(&world);
    world.commit("a");
    world.run(MINUTE).await;
    assert!(health(&first).leading && !health(&second).leading);
    assert!(first.close(MINUTE).await);
    world.commit("a");
    world.run(SECOND * 2).await;
    assert!(health(&second).leading);
    assert_eq!(world.script.first_arrivals(), ["a:1", "a:2"]);
    assert_eq!(world.script.arrivals().len(), 2);
}

/// M13: the lease is renewed while sends run, however long they take in all.
#[tokio::test]
async fn a_lease_is_renewed_while_sends_are_on_their_way() {
    let world = World::new();
    world.script.always(Act::ConfirmAfter(SECOND * 4));
    let relay = world.with(|policy| policy.blocked_for = HOUR);
    let (other, _) = second(&world);
    world.commit_all(&["a"; 30]);
    world.run(MINUTE * 3).await;
    assert_eq!((health(&relay).stats.sent, health(&relay).stats.lost), (30, 0));
    assert_eq!(health(&other).stats.leads, 0);
}

/// What was asked under one leadership and is answered under the next changes nothing there.
#[tokio::test]
async fn an_answer_to_a_leader_of_before_leaves_the_next_one_alone() {
    let world = World::new();
    let relay = world.relay();
    world.run(SECOND * 5).await;
    world.store.once(Verb::Read, Do::Late(SECOND * 9));
    world.run(SECOND * 3).await;
    // Another leads for a moment, before the answer comes.
    let epoch = world.state().await.epoch;
    let leader = Leader { destination: to(), epoch, generation: 1 };
    assert_eq!(world.outbox.resign(leader).await.unwrap(), Settled::Stored);
    let (lease, start) = (SECOND, Start::Earliest);
    let ask = Lead { destination: to(), owner: "another".into(), lease, start };
    assert!(matches!(world.outbox.lead(ask).await.unwrap(), Led::Leader(_)));
    world.run(SECOND * 4).await;
    assert_eq!((health(&relay).stats.lost, health(&relay).stats.leads), (1, 2));
    world.run(SECOND * 4).await;
    world.commit("a");
    world.run(SECOND * 2).await;
    assert_eq!(world.script.first_arrivals(), ["a:1"]);
    assert_eq!((health(&relay).leading, health(&relay).stats.leads), (true, 2));
}

/// M13, M19: where a lease cannot be renewed, nothing is sent that could still be on its way when the
/// lease is over.
#[tokio::test]
async fn nothing_is_sent_that_could_outlast_the_lease() {
    let world = World::new();
    let relay = world.relay();
    world.run(SECOND / 10).await;
    let led = world.clock.sleepers();
    assert!(led > 0 && health(&relay).leading);
    world.store.rule(|verb| if verb == Verb::Renew { Do::Hang } else { Do::Pass });
    let mut last = world.commit("a");
    for _ in 0..60 {
        last = world.commit("a");
        world.run(SECOND).await;
    }
    let sent = world.script.arrivals();
    let span = sent.last().unwrap().at.since(sent[0].at);
    let most = LEASE - Script::PUBLISH_WAIT;
    assert!(span <= most && span > most / 2, "{span:?}");
    assert!(world.script.sends(last).is_empty());
    // Nobody else has led meanwhile: a renewal is all it takes to go on.
    world.store.rule(|_| Do::Pass);
    world.run(MINUTE).await;
    assert_eq!(world.script.first_arrivals().len(), 61);
    assert_eq!((health(&relay).stats.leads, world.script.arrivals().len()), (1, 61));
}

/// A renewal whose answer comes late counts from when it was asked for.
#[tokio::test]
async fn a_late_renewal_is_judged_by_when_it_was_asked_for() {
    let world = World::new();
    let relay = world.with(|policy| policy.store_wait = Duration::from_secs(10));
    world.run(SECOND / 10).await;
    // The renewal at 10 s is answered at 19 s, the next ones never arrive.
    let mut nth = 0;
    world.store.rule(move |verb| match verb {
        Verb::Renew => {
            nth += 1;
            if nth == 1 { Do::Late(SECOND * 9) } else { Do::Hang }
        }
        _ => Do::Pass,
    });
    for _ in 0..60 {
        world.commit("a");
        world.run(SECOND).await;
    }
    let sent = world.script.arrivals();
    let span = sent.last().unwrap().at.since(sent[0].at);
    // 10 s when it was asked + 30 s lease - 5 s: not counted from the answer.
    assert!(span <= SECOND * 35 && span >= SECOND * 33, "{span:?}");
    assert!(health(&relay).leading);
}

/// M16: a process that stood still past its lease settles nothing afterwards, sends at most copies of
/// what it had in hand, and goes on as a follower.
#[tokio::test]
async fn a_frozen_leader_settles_nothing_and_follows() {
    let world = World::new();
    world.script.always(Act::ConfirmAfter(SECOND));
    let (frozen, freezer) = second(&world);
    world.run(SECOND / 10).await;
    assert!(health(&frozen).leading);
    let relay = world.relay();
    world.commit_all(&["a", "a", "b"]);
    world.run(SECOND / 2).await;
    freezer.freeze();
    world.run(MINUTE * 2).await;
    assert!(health(&relay).leading);
    assert_eq!(world.script.first_arrivals().len(), 3);
    let (before, state) = (world.script.arrivals().len(), world.state().await);
    freezer.thaw();
    world.run(MINUTE).await;
    assert_eq!(health(&frozen).stats.lost, 1);
    assert!(health(&relay).leading && !health(&frozen).leading);
    assert!(world.script.arrivals().len() - before <= 2, "more than what was on its way");
    assert_eq!(world.state().await.epoch, state.epoch);
    world.commit("a");
    world.run(SECOND * 5).await;
    assert_eq!(world.script.first_arrivals().len(), 4);
}

/// M19: a process frozen between the decision to send and the send does not begin it too late.
#[tokio::test]
async fn a_send_that_was_decided_on_before_a_freeze_is_not_begun_after_it() {
    let world = World::new();
    let freezer = Arc::new(Freezer::default());
    let turns = Arc::new(Freeze(freezer.clone()));
    let relay = world.built(|_| {}, |builder| builder.turns(turns));
    world.run(SECOND).await;
    assert!(health(&relay).leading);
    // The read is answered as the process is frozen: what it brings is sent after the thaw, if at all.
    world.store.once(Verb::Read, Do::Late(SECOND));
    let id = world.commit("a");
    world.run(SECOND / 2).await;
    freezer.freeze();
    world.run(LEASE * 2).await;
    let (other, _) = second(&world);
    world.run(SECOND * 2).await;
    assert!(health(&other).leading);
    let sends = world.script.sends(id).len();
    assert_eq!(sends, 1);
    freezer.thaw();
    world.run(MINUTE).await;
    assert_eq!((world.script.sends(id).len(), health(&relay).stats.sent), (1, 0));
}

/// M20: a leadership that is lost exactly when a row is to be parked parks nothing; whoever leads then
/// parks one row.
#[tokio::test]
async fn a_leadership_lost_while_parking_leaves_one_parked_row() {
    let world = World::new();
    world.script.rule(
        |message, _| {
            if &*message.event.kind == "1" { Act::Refuse } else { Act::Confirm }
        },
    );
    let change = |policy: &mut semel::outbox::relay::RelayPolicy| {
        policy.attempts_max = 1;
        policy.failing_for = Duration::ZERO;
    };
    let freezer = Arc::new(Freezer::default());
    let turns = Arc::new(Freeze(freezer.clone()));
    let frozen = world.built(change, |builder| builder.turns(turns).owner("frozen"));
    world.run(SECOND).await;
    world.store.once(Verb::Settle, Do::Slow(MINUTE * 2));
    world.commit_all(&["a", "a"]);
    world.run(SECOND / 10).await;
    freezer.freeze();
    world.run(LEASE * 2).await;
    let relay = Relay::builder(Arc::new(world.outbox.clone()))
        .clock(world.clock.clone())
        .policy({
            let mut policy = semel::outbox::relay::RelayPolicy::default();
            change(&mut policy);
            policy
        })
        .destination(RelayDestination::new(to(), world.script.clone()))
        .start()
        .unwrap();
    world.run(SECOND * 10).await;
    assert_eq!(world.parked().await, ["a:1:failed", "a:2:behind"]);
    // The settlement of before arrives, and only then its sender goes on.
    world.run(MINUTE * 2).await;
    freezer.thaw();
    world.run(MINUTE).await;
    assert_eq!(world.parked().await, ["a:1:failed", "a:2:behind"]);
    let stale = world.store.settlements().iter().filter(|of| of.1 == Some(Settled::Stale)).count();
    assert_eq!((stale, health(&frozen).stats.parked, health(&relay).stats.parked), (1, 0, 2));
}
