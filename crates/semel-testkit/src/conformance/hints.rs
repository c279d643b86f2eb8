//! Hints: whoever waits for a run hears of its end. Everything works without them, by polling.

use std::{sync::Arc, time::Duration};

use semel::{
    IntentId, Phase, Refusal, State, Store,
    store::{
        BATCH_MAX, Completed, ReleaseAnswer,
        capability::{Hint, Notify},
    },
};
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::{Fresh, verbs::*};

/// Longer than a hint takes, and short enough to be waited for many times.
const WAIT: Duration = Duration::from_millis(500);
/// How often an end is tried that may not be hinted at.
const ROUNDS_MAX: usize = 40;

/// Says whether the end of an intent's run is hinted at in time.
async fn heard(hints: &mut Receiver<Hint>, id: &IntentId) -> bool {
    let heard = async {
        loop {
            match hints.recv().await {
                Ok(Hint::Ended(ended)) if ended == *id => return true,
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return false,
            }
        }
    };
    tokio::time::timeout(WAIT, heard).await.unwrap_or(false)
}

async fn watch(notify: &Arc<dyn Notify>, id: &IntentId) {
    let reading = notify.watch(vec![id.clone()]).await.expect("a watch is answered");
    assert_eq!(reading.records.len(), 1);
}

/// Begins runs, has them watched, ends them, and expects that the end is hinted at: a hint may be lost, but not
/// always.
async fn is_hinted_at(on: &Fresh, end: impl AsyncFn(&Fresh, &semel::Permit)) {
    let Some(notify) = on.notify.clone() else { return };
    let mut hints = notify.hints();
    for round in 0..ROUNDS_MAX {
        let id = id(&format!("k{round}"));
        let permit = on.hold(&id).await;
        watch(&notify, &id).await;
        end(on, &permit).await;
        if heard(&mut hints, &id).await {
            return;
        }
    }
    panic!("no end is ever hinted at")
}

/// A completion is hinted at to who asked for it.
pub async fn a_completion_is_hinted_at(on: Fresh) {
    is_hinted_at(&on, async |on, permit| {
        assert_eq!(on.complete(permit, done(created())).await, Completed::Stored);
    })
    .await;
}

/// A release is hinted at: the next may claim.
pub async fn a_release_is_hinted_at(on: Fresh) {
    is_hinted_at(&on, async |on, permit| {
        let released = on.store.release(permit.id.clone(), clean(permit)).await.unwrap();
        assert_eq!(released.answer, ReleaseAnswer::Stored);
    })
    .await;
}

/// Whoever finds that a holder is lost tells those who wait for it.
pub async fn a_lost_holder_is_hinted_at_when_it_is_found(on: Fresh) {
    is_hinted_at(&on, async |on, permit| {
        on.after(LEASE * 2).await;
        let refusal = refused(on.claim(ask(&permit.id)).await);
        assert!(matches!(refusal, Refusal::Unknown { .. }), "{refusal:?}");
    })
    .await;
}

/// Where other processes share the records, the end of a run in one of them is hinted at in all.
pub async fn an_end_in_another_process_is_hinted_at(on: Fresh) {
    let Some(open) = on.second.clone().filter(|_| on.store.capabilities().shared) else { return };
    let other: Arc<dyn Store> = open().await;
    is_hinted_at(&on, async |_, permit| {
        let ended = other.complete(permit.clone(), done(created())).await.unwrap();
        assert_eq!(ended, Completed::Stored);
    })
    .await;
}

/// Of all who listen each hears of an end for which one of them asked.
pub async fn all_who_listen_are_hinted_at(on: Fresh) {
    let Some(notify) = on.notify.clone() else { return };
    let mut listening: Vec<_> = (0..3).map(|_| notify.hints()).collect();
    let mut told = [false; 3];
    for round in 0..ROUNDS_MAX {
        let id = id(&format!("k{round}"));
        let permit = on.hold(&id).await;
        watch(&notify, &id).await;
        assert_eq!(on.complete(&permit, done(created())).await, Completed::Stored);
        for (hints, told) in listening.iter_mut().zip(&mut told) {
            *told |= heard(hints, &id).await;
        }
        if told == [true; 3] {
            return;
        }
    }
    panic!("not all who listen are hinted at: {told:?}")
}

/// Nothing falls between a watch and an end: what the watch did not read as ended is hinted at after it.
pub async fn what_ended_before_the_watch_is_read_by_it(on: Fresh) {
    let Some(notify) = on.notify.clone() else { return };
    let id = id("k");
    let permit = on.hold(&id).await;
    assert_eq!(on.complete(&permit, done(created())).await, Completed::Stored);
    let reading = notify.watch(vec![id]).await.unwrap();
    let phase = reading.records[0].as_ref().map(|record| record.phase(reading.now));
    assert_eq!(phase, Some(Phase::Stored(State::Done)));
}

/// A watch answers as a read does, in the order asked, and leaves the records as they are: the holder goes on.
pub async fn a_watch_reads_as_a_read_does_and_changes_nothing(on: Fresh) {
    let Some(notify) = on.notify.clone() else { return };
    let ids = ["running", "absent", "done"].map(id).to_vec();
    let permit = on.hold(&ids[0]).await;
    on.finished(&ids[2]).await;
    let before = on.store.read(ids.clone()).await.unwrap();
    for _ in 0..2 {
        let watched = notify.watch(ids.clone()).await.unwrap();
        assert_eq!(watched.records, before.records);
        assert!(watched.now >= before.now, "the time is the store's");
    }
    assert_eq!(on.store.read(ids).await.unwrap().records, before.records);
    assert_eq!(on.complete(&permit, done(created())).await, Completed::Stored);
}

/// A watch of too many is refused whole; one of nothing tells the time.
pub async fn a_watch_over_the_bound_is_refused(on: Fresh) {
    let Some(notify) = on.notify.clone() else { return };
    let ids: Vec<_> = (0..=BATCH_MAX).map(|n| id(&format!("k{n}"))).collect();
    invalid(notify.watch(ids).await.map(|reading| reading.records.len()));
    let reading = notify.watch(Vec::new()).await.unwrap();
    assert!(reading.records.is_empty() && reading.now <= on.now().await);
}
