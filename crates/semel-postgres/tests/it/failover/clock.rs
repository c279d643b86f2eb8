//! A standby with another clock takes over: leases begin again or end early, and fences only grow.

use std::sync::Arc;

use semel::{
    Begun, Engine, Permit, Refusal, State, Store,
    decide::Grant,
    store::{ClaimAnswer, Completed, Renewed, capability::Sweep},
};
use semel_postgres::{
    PostgresStore,
    transact::{Ran, Transact},
};
use semel_testkit::servers::{Major, Postgres, failover_url};
use tokio_postgres::Error;

use super::{
    crowd,
    pair::{Pair, connect},
};
use crate::{
    transact::shop::{call, paid},
    words::*,
};

/// The primary dies; what takes over is ahead of it, or behind.
struct After {
    server: Postgres,
    store: PostgresStore,
}

impl After {
    async fn of(mut pair: Pair, ahead_s: i64) -> Self {
        pair.old.kill();
        pair.new.promote().await;
        let store = PostgresStore::builder(pair.new.url()).open().await.unwrap();
        let after = Self { server: pair.new, store };
        after.set_clock(ahead_s).await;
        after
    }

    /// Sets the clock so many seconds ahead of this machine's.
    async fn set_clock(&self, ahead_s: i64) {
        let body = format!("extract(epoch FROM clock_timestamp() + interval '{ahead_s} s')");
        self.server
            .run_sql(&format!(
                "CREATE OR REPLACE FUNCTION semel.now_us() RETURNS bigint
                LANGUAGE sql VOLATILE PARALLEL SAFE
                AS $$ SELECT ({body} * 1000000)::bigint $$"
            ))
            .await;
    }

    /// Whether a lease was renewed later than now.
    async fn has_future_lease(&self) -> bool {
        let future = "SELECT count(*) FROM semel.seen WHERE renewed_at_us > semel.now_us()";
        self.server.run_sql(future).await != "0"
    }
}

const HOUR: i64 = 3_600;

/// A holder that renewed its lease on a primary that is about to die.
async fn renewed(pair: &Pair) -> Permit {
    let store = PostgresStore::builder(pair.old.url()).open().await.unwrap();
    let permit = hold(&store, &id("k")).await;
    assert_eq!(renew(&store, &permit).await.unwrap(), Renewed::Held);
    permit
}

/// Checks what comes after a first claim, by whichever form, has met a lease of the future.
async fn begins_again(first: impl AsyncFnOnce(&After)) {
    let pair = Pair::start(Major::V18).await;
    let held = renewed(&pair).await;
    let after = After::of(pair, -HOUR).await;
    assert!(after.has_future_lease().await);
    first(&after).await;
    assert!(!after.has_future_lease().await, "the lease begins again now");
    assert_eq!(renew(&after.store, &held).await.unwrap(), Renewed::Held, "and is its holder's");

    after.set_clock(-HOUR + 31).await;
    let taken = claim(&after.store, &rerun(&id("k"))).await.unwrap();
    let ClaimAnswer::Granted { permit, grant: Some(Grant::TakenOver { .. }) } = taken else {
        panic!("{taken:?}")
    };
    assert!(permit.fence > held.fence, "fences grow under a clock that is behind");
    assert_eq!(after.store.complete(held, done(201)).await.unwrap(), Completed::Stale);
    assert_eq!(after.store.complete(permit, done(202)).await.unwrap(), Completed::Stored);
}

#[tokio::test]
async fn a_lease_renewed_in_the_future_begins_again_with_a_leased_claim() {
    begins_again(async |after| {
        in_progress(&claim(&after.store, &rerun(&id("k"))).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_lease_renewed_in_the_future_begins_again_with_a_claim_in_a_transaction() {
    begins_again(async |after| {
        let mut client = connect(&after.server).await;
        let transact = Transact::loader().load(&client).await.unwrap();
        let mut asked = call("k");
        (asked.id, asked.policy) = (id("k"), crowd::call(&id("k")).policy);
        let run =
            transact.run(&mut client, &asked, async |guard| Ok::<_, Error>(guard.done(paid(), ())));
        let ran = run.await.unwrap();
        assert!(matches!(ran, Ran::Refused(Refusal::InProgress { .. })), "{ran:?}");
    })
    .await;
}

#[tokio::test]
async fn a_holder_that_a_clock_ahead_takes_for_lost_still_says_what_it_did() {
    let pair = Pair::start(Major::V18).await;
    let held = renewed(&pair).await;
    let after = After::of(pair, HOUR).await;
    let store = &after.store;
    let claimed = claim(store, &ask(&id("k"))).await.unwrap();
    let is_unknown = matches!(claimed, ClaimAnswer::Refused(Refusal::Unknown { .. }));
    assert!(is_unknown, "nobody runs it again by guess: {claimed:?}");
    assert_eq!(store.complete(held, done(201)).await.unwrap(), Completed::Stored);
    assert_eq!(replayed(claim(store, &ask(&id("k"))).await.unwrap()), 201);
}

#[tokio::test]
async fn a_fence_stays_below_all_that_come_after_a_sweep_whatever_the_clock() {
    let pair = Pair::start(Major::V18).await;
    let held = renewed(&pair).await;
    let after = After::of(pair, 0).await;
    assert_eq!(after.store.complete(held.clone(), done(201)).await.unwrap(), Completed::Stored);
    after.set_clock(3 * HOUR).await;
    while after.store.sweep(Default::default()).await.unwrap().more {}
    let reading = after.store.read(vec![id("k")]).await.unwrap();
    assert!(reading.records[0].is_none(), "it is swept");
    after.set_clock(-HOUR).await;
    let again = hold(&after.store, &id("k")).await;
    assert!(again.fence > held.fence, "{:?} came after {:?}", again.fence, held.fence);
}

/// The engine's own idea of the store's time, by which a claim may come too late, is put right.
#[tokio::test]
async fn an_engine_goes_on_by_the_new_clock() {
    for ahead_s in [-HOUR, HOUR] {
        let pair = Pair::start(Major::V18).await;
        let url = failover_url(&[&pair.old, &pair.new], "postgres");
        let store = PostgresStore::builder(url).open().await.unwrap();
        let engine = Engine::builder(Arc::new(store)).build();
        let run = async |key| match engine.begin(crowd::call(&id(key))).await {
            Ok(Begun::Run(holder)) => {
                holder.start().await.unwrap();
                drop(holder.complete(paid()).await.unwrap());
                true
            }
            Err(error) if error.is_retryable() => false,
            other => panic!("{other:?}"),
        };
        assert!(run("before").await);
        let after = After::of(pair, ahead_s).await;
        let deadline = std::time::Instant::now() + PATIENCE;
        while !run("after").await {
            assert!(std::time::Instant::now() < deadline, "the engine does not go on");
        }
        let status = engine.status(id("after")).await.unwrap();
        assert_eq!(status.record.unwrap().state, State::Done);
        drop(after);
    }
}
