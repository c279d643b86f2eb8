//! What a store declares about itself holds, and what it does not declare it does not have.

use std::sync::Arc;

use semel::{
    Store,
    store::{Completed, Durability},
};

use super::{Fresh, verbs::*};

/// A store has a name, and keeps bodies of a stated size that no outcome exceeds.
pub async fn capabilities_are_stated(on: Fresh) {
    let capabilities = on.store.capabilities();
    assert!(!capabilities.name.is_empty());
    assert!((1..=semel::Outcome::BODY_MAX).contains(&capabilities.body_max));
    assert_eq!(capabilities, on.store.capabilities());
}

/// What a durable store acknowledged is there after it was closed and opened; a volatile store says
/// so, and is: what it acknowledged is gone.
pub async fn what_was_acknowledged_survives_as_declared(mut on: Fresh) {
    let durability = on.store.capabilities().durability;
    let Some(reopen) = on.reopen.clone() else {
        assert_eq!(durability, Durability::Volatile, "a durable store can be opened again");
        return;
    };
    let (finished, held) = (id("done"), id("running"));
    on.finished(&finished).await;
    let permit = on.hold(&held).await;
    let (record, before) = (on.kept(&finished).await, on.now().await);
    // The declared store is dropped before its records are opened again.
    on.store = Arc::new(semel::store::memory::MemoryStore::new());
    on.inspect = Arc::new(semel::store::memory::MemoryStore::new());
    (on.bridge, on.mover, on.notify, on.sweep) = (None, None, None, None);
    on.store = reopen().await;
    assert!(on.now().await >= before, "time went back over a restart");
    match durability {
        Durability::Durable => {
            assert_eq!(on.kept(&finished).await, record);
            assert_eq!(replayed(on.claim(ask(&finished)).await), created());
            in_progress(on.claim(ask(&held)).await);
            assert_eq!(on.complete(&permit, done(created())).await, Completed::Stored);
        }
        Durability::Volatile => {
            assert_eq!(on.record(&finished).await, None);
            assert_eq!(on.complete(&permit, done(created())).await, Completed::Stale);
        }
    }
}

async fn second(on: &Fresh) -> Option<Arc<dyn Store>> {
    match &on.second {
        Some(open) => Some(open().await),
        None => {
            assert!(!on.store.capabilities().shared, "a shared store can be opened twice");
            None
        }
    }
}

/// A shared store is one for all who opened it; a private one is shown to be private.
pub async fn records_are_shared_as_declared(on: Fresh) {
    let Some(second) = second(&on).await else { return };
    let id = id("k");
    let permit = on.hold(&id).await;
    let answer = second.claim(vec![ask(&id)]).await.unwrap().remove(0).answer;
    if on.store.capabilities().shared {
        in_progress(answer);
        assert_eq!(second.complete(permit, done(created())).await.unwrap(), Completed::Stored);
        assert_eq!(replayed(on.claim(ask(&id)).await), created());
    } else {
        assert_ne!(granted(answer).0, permit);
        in_progress(on.claim(ask(&id)).await);
    }
}

/// C10: of callers through two handles on a shared store, one wins each key.
pub async fn one_of_two_handles_wins_each_key(on: Fresh) {
    let Some(second) = second(&on).await else { return };
    if !on.store.capabilities().shared {
        return;
    }
    let on = Arc::new(on);
    let tasks: Vec<_> = (0..200)
        .flat_map(|n| [(n, Arc::clone(&on.store)), (n, Arc::clone(&second))])
        .map(|(n, store)| {
            let asked = ask(&id(&format!("k{n}")));
            tokio::spawn(async move { store.claim(vec![asked]).await.unwrap().remove(0).answer })
        })
        .collect();
    let mut won = 0;
    for task in tasks {
        match task.await.unwrap() {
            semel::store::ClaimAnswer::Granted { .. } => won += 1,
            other => in_progress(other),
        }
    }
    assert_eq!(won, 200);
}
