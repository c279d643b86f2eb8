//! Messages that the destination refuses for their own sake.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use semel::outbox::{Message, ParkedState, memory::MemoryOutbox, relay::RelayPolicy};

use super::{
    script::Act,
    world::{Freeze, Freezer, MINUTE, SECOND, World, health},
};

fn poison(kind: &'static str) -> impl FnMut(&Message, u32) -> Act {
    move |message, _| if &*message.event.kind == kind { Act::Refuse } else { Act::Confirm }
}

/// A poison event is put before an operator after enough attempts in enough time, and the events of
/// other aggregates flow all the while.
#[tokio::test]
async fn a_poison_event_parks_its_lane_and_others_flow() {
    let world = World::new();
    world.script.rule(poison("1"));
    let relay = world.relay();
    let bad = world.commit_all(&["a", "a"])[0];
    for _ in 0..50 {
        world.commit("b");
        world.run(SECOND).await;
    }
    assert_eq!(world.script.first_arrivals().len(), 50, "others were held up");
    assert_eq!(world.parked().await, ["a:1:behind", "a:2:behind"]);
    world.run(MINUTE * 5).await;
    assert_eq!(world.parked().await, ["a:1:failed", "a:2:behind"]);
    let row = world.parked_rows().await.remove(0);
    assert!(row.attempts >= 8 && &*row.why == "by script", "{row:?}");
    let sends = world.script.sends(bad);
    let tried_for = sends.last().unwrap().since(sends[0]);
    assert!(tried_for >= Duration::from_secs(60), "{tried_for:?}");
    assert_eq!((world.script.first_arrivals().len(), health(&relay).stats.failed), (50, 1));
    // It waits for an operator, and is not sent meanwhile.
    world.run(MINUTE * 60).await;
    assert_eq!(world.script.sends(bad).len(), sends.len());
}

/// M41: a poison event does not hold its lane for ever by outliving its leaders: what is known of it is in
/// its parked row, and a span in which it could have been tried often enough stands for the number.
#[tokio::test]
async fn a_poison_event_is_given_up_although_its_leaders_keep_dying() {
    let world = World::new();
    world.script.can(|can| can.publish_wait = SECOND / 4);
    world.script.rule(poison("1"));
    let relay = |freezer: &Arc<Freezer>| {
        let turns = Arc::new(Freeze(freezer.clone()));
        let change = |policy: &mut RelayPolicy| {
            policy.lease = SECOND;
            // No leader gets to try it more than a few times.
            policy.retry_first = SECOND * 30;
        };
        world.built(change, |builder| builder.turns(turns))
    };
    world.commit_all(&["a", "a"]);
    let (mut leaders, mut given_up) = (Vec::new(), None);
    for nth in 0..140_u32 {
        let freezer = Arc::<Freezer>::default();
        leaders.push(relay(&freezer));
        world.run(SECOND * 4).await;
        world.commit("b");
        // Killed: it never goes on.
        freezer.freeze();
        if world.parked().await.contains(&"a:1:failed".to_owned()) {
            given_up = Some(nth * 4);
            break;
        }
    }
    let seconds = given_up.expect("it is given up");
    assert!((480..=540).contains(&seconds), "given up after {seconds} s");
    assert!(world.parked_rows().await[0].attempts < 8);
    assert!(world.script.first_arrivals().len() > 100, "others were held up");
}

/// However many lanes are refused for the messages' own sake, and though nothing else is there to tell
/// that the destination is not to blame: they are parked, and so it is known that they were refused.
#[tokio::test]
async fn lanes_that_are_refused_with_nothing_beside_them_are_set_aside() {
    let world = World::new();
    world.script.always(Act::Refuse);
    let _relay = world.relay();
    world.commit_lanes(20);
    world.run(SECOND * 3).await;
    let rows = world.parked_rows().await;
    assert_eq!(rows.len(), 20);
    assert!(rows.iter().all(|row| row.state == ParkedState::Behind && row.attempts > 0));
}

/// A poison event with nothing else to compare it with holds up nobody for long.
#[tokio::test]
async fn a_lane_that_fails_alone_does_not_hold_up_what_comes_later() {
    for act in [Act::Refuse, Act::Lose, Act::Hang, Act::Away(None)] {
        let world = World::new();
        world.script.rule(
            move |message, _| if message.event.lane.id() == "a" { act } else { Act::Confirm },
        );
        let _relay = world.relay();
        world.commit("a");
        world.run(SECOND / 10).await;
        world.commit("b");
        world.run(MINUTE * 5).await;
        assert_eq!(world.script.first_arrivals(), ["b:2"], "{act:?}");
        assert_eq!(world.state().await.parked, 1, "{act:?}");
    }
}

/// M46: however often it failed, the next attempt is never further away than the bound.
#[tokio::test]
async fn attempts_are_never_further_apart_than_the_bound() {
    let world = World::new();
    world.script.rule(|_, before| if before < 60 { Act::Lose } else { Act::Confirm });
    let _relay = world.relay();
    let id = world.commit("a");
    world.run(MINUTE * 40).await;
    let sends = world.script.sends(id);
    assert_eq!(sends.len(), 61);
    let gaps = sends.windows(2).map(|pair| pair[1].since(pair[0]));
    // Sixty failures: the wait never leaves its bound; what a parked row takes to be read comes on top.
    assert!(gaps.max().unwrap() <= Duration::from_secs(32));
    assert_eq!(world.state().await.parked, 0);
}

/// What can never be sent is not tried: too large for this publisher.
#[tokio::test]
async fn an_event_that_no_send_can_carry_is_put_before_an_operator_at_once() {
    let world = World::new();
    world.script.can(|can| can.payload_max = 10);
    let _relay = world.relay();
    let mut transaction = world.outbox.begin();
    let mut large = world.event("a");
    large.payload = Some(Bytes::from_static(b"more than ten"));
    let id = large.id;
    transaction.append(large).unwrap();
    transaction.commit().unwrap();
    world.commit_all(&["a", "b"]);
    world.run(SECOND).await;
    assert!(world.script.sends(id).is_empty());
    assert_eq!(world.parked().await, ["a:1:failed", "a:2:behind"]);
    assert_eq!(world.script.first_arrivals(), ["b:3"]);
    assert!(world.parked_rows().await[0].why.contains("takes 10"));
}

/// An attempt that an operator asks for is one attempt: refused, the row waits for a word again.
#[tokio::test]
async fn a_retry_that_is_refused_waits_for_an_operator_again() {
    let world = World::new();
    world.script.rule(poison("1"));
    let _relay = world.with(|policy| {
        policy.attempts_max = 1;
        policy.failing_for = Duration::ZERO;
    });
    let id = world.commit("a");
    world.run(SECOND * 10).await;
    assert_eq!(world.parked().await, ["a:1:failed"]);
    mark(&world.outbox, &world, ParkedState::Retry).await;
    world.run(SECOND * 10).await;
    assert_eq!(world.parked().await, ["a:1:failed"]);
    assert_eq!((world.script.sends(id).len(), world.parked_rows().await[0].attempts), (2, 2));
}

/// Marks the first parked row.
pub(super) async fn mark(outbox: &MemoryOutbox, world: &World, state: ParkedState) {
    use semel::{outbox::OutboxInspect, store::Actor};
    let row = world.parked_rows().await.remove(0);
    let actor = Actor { name: "operator".into(), note: "as agreed".into() };
    assert_eq!(outbox.mark(row.destination, vec![row.seq], state, actor).await.unwrap(), 1);
}
