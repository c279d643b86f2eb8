//! Answers of the store that are lost, late, or never come.

use semel::outbox::ParkedState;

use super::{
    refusing::mark,
    script::Act,
    store::{Do, Verb},
    world::{MINUTE, SECOND, World},
};

const VERBS: [Verb; 6] =
    [Verb::Due, Verb::Lead, Verb::ParkedLanes, Verb::Read, Verb::Renew, Verb::Settle];

/// Whatever verb fails in whatever way once, everything is delivered in order and settled.
#[tokio::test]
async fn one_answer_that_is_lost_loses_and_reorders_nothing() {
    let faults = [Do::Fail, Do::LoseAnswer, Do::Hang, Do::Late(SECOND * 3), Do::Slow(SECOND * 3)];
    for (verb, fault) in VERBS.into_iter().flat_map(|verb| faults.map(|fault| (verb, fault))) {
        let world = World::new();
        world.script.rule(
            |message, _| {
                if &*message.event.kind == "2" { Act::Refuse } else { Act::Confirm }
            },
        );
        world.store.once(verb, fault);
        let _relay = world.with(|policy| {
            (policy.failing_for, policy.retry_max) = (SECOND * 5, SECOND);
        });
        for _ in 0..5 {
            world.commit_all(&["a", "b", "a"]);
            world.run(SECOND * 20).await;
        }
        world.run(MINUTE).await;
        assert_eq!(world.parked().await.first().unwrap(), "b:2:failed", "{verb:?} {fault:?}");
        world.script.always(Act::Confirm);
        mark(&world.outbox, &world, ParkedState::Retry).await;
        world.run(SECOND * 20).await;
        let state = world.state().await;
        assert_eq!((state.waiting, state.parked), (0, 0), "{verb:?} {fault:?}");
        let arrived = world.script.first_arrivals();
        assert_eq!(arrived.len(), 15, "{verb:?} {fault:?}");
        for lane in ["a:", "b:"] {
            let of = arrived.iter().filter_map(|told| told.strip_prefix(lane)?.parse::<u64>().ok());
            assert!(of.is_sorted(), "{verb:?} {fault:?} {arrived:?}");
        }
    }
}

/// A settlement whose answer is lost is asked again as it was, and nothing is sent twice for it.
#[tokio::test]
async fn a_settlement_is_repeated_as_it_was_until_the_store_says() {
    let world = World::new();
    let mut lost = 3;
    world.store.rule(move |verb| {
        if verb == Verb::Settle && lost > 0 {
            lost -= 1;
            return Do::LoseAnswer;
        }
        Do::Pass
    });
    let _relay = world.relay();
    world.commit_all(&["a", "b"]);
    world.run(MINUTE).await;
    let settled = world.store.settlements();
    assert!(settled.len() >= 4);
    assert!(settled[..4].iter().all(|of| of.0 == settled[0].0));
    world.commit("a");
    world.run(MINUTE).await;
    assert_eq!(world.script.arrivals().len(), 3);
}
