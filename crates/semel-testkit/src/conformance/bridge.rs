//! A look under the lock of a name: what runs behind a permit may have ended the run.

use std::sync::Arc;

use semel::{
    IntentId, Record, State,
    store::{
        Completed, ReleaseAnswer,
        capability::{Bridge, Looked},
    },
};

use super::{Fresh, verbs::*};

/// Looks until the lock was free; bounded, since nobody keeps it in these promises.
async fn seen(bridge: &Arc<dyn Bridge>, id: &IntentId) -> Option<Box<Record>> {
    for _ in 0..1_000 {
        match bridge.look(id.clone()).await.expect("a look is answered") {
            Looked::Busy => tokio::task::yield_now().await,
            Looked::Seen { record, .. } => return record,
        }
    }
    panic!("the lock of a name that nobody holds is never free");
}

/// Who declares the power has it, and who has it declares it.
pub async fn the_power_is_declared(on: Fresh) {
    assert_eq!(on.store.capabilities().bridge, on.bridge.is_some());
}

/// A look sees the record as it is committed, through all of its states, and the store's time.
pub async fn a_look_sees_what_is_committed(on: Fresh) {
    let Some(bridge) = on.bridge.clone() else { return };
    let id = id("k");
    assert_eq!(seen(&bridge, &id).await, None);
    let permit = on.hold(&id).await;
    let record = seen(&bridge, &id).await.expect("it was claimed");
    assert_eq!((record.state, record.permit()), (State::Running, permit.clone()));
    assert_eq!(on.complete(&permit, done(created())).await, Completed::Stored);
    let record = seen(&bridge, &id).await.expect("it was completed");
    assert_eq!((record.state, record.outcome.as_ref()), (State::Done, Some(&created())));
    assert_eq!(*record, on.kept(&id).await);
    let before = on.now().await;
    let Looked::Seen { now, .. } = bridge.look(id).await.unwrap() else {
        panic!("nobody holds the lock");
    };
    assert!(before <= now && now <= on.now().await, "the time is the store's");
}

/// A look changes nothing and keeps nothing: the holder goes on, and so do others.
pub async fn a_look_changes_nothing(on: Fresh) {
    let Some(bridge) = on.bridge.clone() else { return };
    let id = id("k");
    let permit = on.hold(&id).await;
    let before = on.kept(&id).await;
    for _ in 0..3 {
        seen(&bridge, &id).await;
    }
    assert_eq!(on.kept(&id).await, before);
    in_progress(on.claim(ask(&id)).await);
    assert_eq!(on.release(&id, clean(&permit)).await, ReleaseAnswer::Stored);
}

/// A look sees a renewed lease, and after a take-over the new holder.
pub async fn a_look_sees_who_holds_it_now(on: Fresh) {
    let Some(bridge) = on.bridge.clone() else { return };
    let id = id("k");
    let (old, new) = on.taken_over(&id).await;
    let record = seen(&bridge, &id).await.expect("it was claimed");
    assert_ne!(record.token, old.token);
    assert_eq!(record.permit(), new);
    on.after(LEASE / 2).await;
    on.renew(&new).await;
    assert_eq!(*seen(&bridge, &id).await.expect("it was claimed"), on.kept(&id).await);
}

/// Of a completion and many looks, no look sees anything between running and done, and none sees
/// running once one has seen done.
pub async fn looks_beside_a_completion_see_one_truth(on: Fresh) {
    let Some(bridge) = on.bridge.clone() else { return };
    let id = id("k");
    let permit = on.hold(&id).await;
    let looks: Vec<_> = (0..8)
        .map(|_| {
            let (bridge, id) = (Arc::clone(&bridge), id.clone());
            tokio::spawn(async move {
                let mut states = Vec::new();
                for _ in 0..20 {
                    states.push(seen(&bridge, &id).await.expect("it was claimed").state);
                    tokio::task::yield_now().await;
                }
                states
            })
        })
        .collect();
    assert_eq!(on.complete_when_free(&permit, done(created())).await, Completed::Stored);
    for look in looks {
        let states = look.await.unwrap();
        let from = states.iter().position(|state| *state == State::Done).unwrap_or(states.len());
        assert!(states[..from].iter().all(|state| *state == State::Running), "{states:?}");
        assert!(states[from..].iter().all(|state| *state == State::Done), "{states:?}");
    }
    assert_eq!(seen(&bridge, &id).await.unwrap().state, State::Done);
}
