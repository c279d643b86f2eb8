//! The typed form, for plain functions.

use std::{
    fmt::Debug,
    sync::atomic::{AtomicUsize, Ordering},
};

use semel::{Fail, Kept, Ran, RunError, decide::OnLost, store::Store};
use semel_testkit::{Fault, Verb};

use crate::world::{World, call, ended, other_content, policy};

/// Runs a value once and again, and expects it both times and one run.
async fn comes_back<T: Kept + Clone + Debug + PartialEq>(value: T) {
    let world = World::new();
    let runs = AtomicUsize::new(0);
    for replayed in [false, true] {
        let ran = world.engine.run(call("k", policy(OnLost::Hold)), async |_| {
            runs.fetch_add(1, Ordering::Relaxed);
            Ok::<T, Fail<()>>(value.clone())
        });
        assert_eq!(ran.await.unwrap(), Ran { value: value.clone(), replayed });
    }
    assert_eq!(runs.into_inner(), 1);
}

/// S01: nothing is a result too: unit, none, zero, empty and false are replayed, not run again.
#[tokio::test]
async fn nothing_is_a_result_too() {
    comes_back(()).await;
    comes_back(None::<u8>).await;
    comes_back(None::<()>).await;
    comes_back(0_u64).await;
    comes_back(false).await;
    comes_back(String::new()).await;
    comes_back(Vec::<u8>::new()).await;
}

#[tokio::test]
async fn values_come_back() {
    comes_back(Some(())).await;
    comes_back(Some(None::<String>)).await;
    comes_back(Some(Some("é".to_owned()))).await;
    comes_back(i128::MIN).await;
    comes_back('ß').await;
    comes_back((0..=255).collect::<Vec<u8>>()).await;
    comes_back(bytes::Bytes::from_static(b"\0\xff")).await;
}

/// C25: a failure for good is replayed as the failure that it was.
#[tokio::test]
async fn a_final_failure_is_replayed() {
    let world = World::new();
    for was_replayed in [false, true] {
        let ran = world.engine.run(call("k", policy(OnLost::Hold)), async |_| {
            Err::<u8, _>(Fail::Final("no money".to_owned()))
        });
        match ran.await.unwrap_err() {
            RunError::Failed { fail: Fail::Final(error), replayed } => {
                assert_eq!((error.as_str(), replayed), ("no money", was_replayed));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.engine.stats().fresh, 1);
}

/// C65: a failure without effect runs again.
#[tokio::test]
async fn a_failure_without_effect_runs_again() {
    let world = World::new();
    let no_effect = async |_: &semel::Holder| Err::<u8, _>(Fail::NoEffect(7_u8));
    let ran = world.engine.run(call("k", policy(OnLost::Hold)), no_effect).await;
    assert!(matches!(ran, Err(RunError::Failed { fail: Fail::NoEffect(7), replayed: false })));
    let again =
        world.engine.run(call("k", policy(OnLost::Hold)), async |_| Ok::<_, Fail<u8>>(1_u8));
    assert_eq!(again.await.unwrap(), Ran { value: 1, replayed: false });
}

/// A failure that may have had its effect is not run again by guess.
#[tokio::test]
async fn a_failure_that_may_have_acted_is_not_run_again() {
    let world = World::new();
    let in_doubt = async |_: &semel::Holder| Err::<u8, _>(Fail::MayHaveActed(()));
    let ran = world.engine.run(call("k", policy(OnLost::Hold)), in_doubt).await;
    assert!(matches!(ran, Err(RunError::Failed { fail: Fail::MayHaveActed(()), .. })));
    let again =
        world.engine.run(call("k", policy(OnLost::Hold)), async |_| Ok::<_, Fail<()>>(1_u8));
    assert!(matches!(again.await, Err(RunError::Refused(refusal)) if refusal.code() == "unknown"));
}

#[tokio::test]
async fn a_kept_value_of_another_type_is_told() {
    let world = World::new();
    let first = world.engine.run(call("k", policy(OnLost::Hold)), async |_| {
        Ok::<_, Fail<()>>("not a number".to_owned())
    });
    first.await.unwrap();
    let again =
        world.engine.run(call("k", policy(OnLost::Hold)), async |_| Ok::<_, Fail<()>>(1_u8));
    assert!(matches!(again.await, Err(RunError::Type)));
    let other = other_content("k", policy(OnLost::Hold));
    let other = world.engine.run(other, async |_| Ok::<_, Fail<()>>(1_u8));
    assert!(matches!(other.await, Err(RunError::Refused(refusal)) if refusal.code() == "mismatch"));
}

/// C19: the answers of the store were lost, and the caller still sees its own first run.
#[tokio::test]
async fn lost_answers_are_no_replay() {
    let world = World::new();
    world.store.next(Verb::Claim, Fault::LoseAnswer);
    world.store.next(Verb::Complete, Fault::LoseAnswer);
    let run = tokio::spawn({
        let engine = world.engine.clone();
        async move {
            engine.run(call("k", policy(OnLost::Hold)), async |_| Ok::<_, Fail<()>>(42_u8)).await
        }
    });
    world.clock.run(std::time::Duration::from_secs(1)).await;
    assert_eq!(ended(run).await.unwrap(), Ran { value: 42, replayed: false });
    assert_eq!(world.memory.capabilities().name, "memory");
}
