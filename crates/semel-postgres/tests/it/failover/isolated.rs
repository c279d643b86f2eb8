//! A primary that was cut off and does not know that its standby took over: since its commits wait for
//! that standby, it acknowledges nothing, whatever is asked how often, also after a restart.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use semel::{Permit, State, Store, StoreErrorKind, decide::Ask, store::Completed};
use semel_postgres::{
    PostgresStore,
    transact::{Guard, Lent, Ran, Started, Transact, Worked},
};
use semel_testkit::servers::{Major, failover_url};
use tokio::time::timeout;

use super::pair::{Pair, connect, impatient};
use crate::{
    transact::{
        pool::Pool,
        shop::{call, paid},
    },
    words::*,
};

/// Longer than a commit that waits for nobody takes.
const A_WHILE: Duration = Duration::from_millis(400);

/// What a store was asked while its server was cut off.
struct Asked {
    claim: Ask,
    held: Permit,
}

impl Asked {
    /// Holds an intent, and has a connection ready for each of two lanes.
    async fn before(store: &PostgresStore) -> Self {
        let held = id("held");
        let (held, read) = tokio::join!(hold(store, &held), store.read(vec![]));
        read.unwrap();
        Self { claim: ask(&id("k")), held }
    }

    /// Asks by the same tokens as ever: nothing may be said to be done.
    async fn again(&self, store: &PostgresStore) {
        let ended = store.complete(self.held.clone(), done(201));
        let (claimed, ended) = tokio::join!(claim(store, &self.claim), ended);
        match claimed {
            Ok(answer) => in_progress(&answer),
            Err(error) => assert_eq!(error.kind(), StoreErrorKind::Unavailable),
        }
        let kind = ended.expect_err("no completion is acknowledged").kind();
        assert!(matches!(kind, StoreErrorKind::Busy | StoreErrorKind::Unavailable));
    }

    /// The standby that took over decides by itself.
    async fn decided_by(self, store: &PostgresStore) {
        let other = hold(store, &self.claim.id).await;
        assert_ne!(other.token, self.claim.token);
        assert_eq!(store.complete(self.held, done(202)).await.unwrap(), Completed::Stored);
    }
}

async fn isolated(major: Major) {
    let pair = Pair::start(major).await;
    let other = impatient(&pair.old.url()).open().await.unwrap();
    let store = impatient(&pair.old.url()).open().await.unwrap();
    let asked = Asked::before(&store).await;
    store.complete(hold(&store, &id("before")).await, done(201)).await.unwrap();
    pair.isolate_and_promote().await;
    assert_eq!(replayed(claim(&store, &ask(&id("before"))).await.unwrap()), 201);
    asked.again(&store).await;
    asked.again(&store).await;
    // Nor does another process see it, whose connection is from before.
    let seen = other.read(vec![asked.claim.id.clone(), asked.held.id.clone()]).await.unwrap();
    let states: Vec<_> = seen.records.iter().map(|seen| Some(seen.as_ref()?.state)).collect();
    assert_eq!(states, [None, Some(State::Running)]);
    asked.decided_by(&PostgresStore::builder(pair.new.url()).open().await.unwrap()).await;
}

#[tokio::test]
async fn an_isolated_primary_grants_and_ends_nothing_15() {
    isolated(Major::V15).await;
}

#[tokio::test]
async fn an_isolated_primary_grants_and_ends_nothing_18() {
    isolated(Major::V18).await;
}

/// After its restart it sees what it committed and nobody was told: it must not be told later either.
#[tokio::test]
async fn a_primary_that_comes_back_alone_says_nothing_of_what_it_alone_knows() {
    let mut pair = Pair::start(Major::V18).await;
    let store = impatient(&pair.old.url()).open().await.unwrap();
    let asked = Asked::before(&store).await;
    pair.isolate_and_promote().await;
    asked.again(&store).await;
    pair.old.kill();
    pair.old.restart().await;
    let alone = pair.old.run_sql("SELECT count(*) FROM semel.record WHERE state = 'done'").await;
    assert_eq!(alone, "1", "the completion is there, and nobody was told");
    let error = impatient(&pair.old.url()).open().await.unwrap_err();
    assert!(error.to_string().contains("standbys that its commits wait for"), "{error}");
    asked.again(&store).await;
    asked.decided_by(&PostgresStore::builder(pair.new.url()).open().await.unwrap()).await;
}

/// A store that names both goes to the one that can acknowledge, even if the other is named first.
#[tokio::test]
async fn a_store_that_names_both_leaves_an_isolated_primary() {
    let pair = Pair::start(Major::V18).await;
    let both = failover_url(&[&pair.old, &pair.new], "postgres");
    let store = impatient(&both).open().await.unwrap();
    let held = hold(&store, &id("held")).await;
    pair.isolate_and_promote().await;
    let ended = until_answered(|| store.complete(held.clone(), done(201))).await;
    assert_eq!(ended, Completed::Stored);
    let told = pair.new.run_sql("SELECT state FROM semel.record").await;
    assert_eq!(told, "done", "the standby that took over has it");
}

/// Writes a row into the ledger, inside a run.
async fn book<L: Lent>(
    guard: Guard<Started<L>>,
    row: &str,
) -> Result<Worked<Started<L>, ()>, tokio_postgres::Error> {
    guard.execute("INSERT INTO ledger VALUES ($1)", &[&row]).await?;
    Ok(guard.done(paid(), ()))
}

#[tokio::test]
async fn a_transaction_on_an_isolated_primary_is_neither_acknowledged_nor_replayed() {
    let pair = Pair::start(Major::V18).await;
    let transact = Transact::loader().load(&connect(&pair.old).await).await.unwrap();
    pair.isolate_and_promote().await;
    let intent = call("k");
    let run = async |server, row| {
        let mut client = connect(server).await;
        let run = transact.run(&mut client, &intent, |guard| book(guard, row));
        timeout(A_WHILE, run).await.map(|ran| ran.unwrap())
    };
    let ran = run(&pair.old, "old").await;
    assert!(ran.is_err(), "a commit was acknowledged: {ran:?}");
    let ran = run(&pair.old, "old again").await;
    assert!(matches!(ran, Ok(Ran::Refused(_))), "{ran:?}");
    let ran = run(&pair.new, "new").await;
    assert!(matches!(ran, Ok(Ran::Done(()))), "{ran:?}");
    assert_eq!(pair.new.run_sql("TABLE ledger").await, "new");
}

/// An operator ends a session whose commit waits for the standby, which lets all see what the standby
/// does not have: the run finds its own record, and does not take that for its acknowledgement.
#[tokio::test]
async fn a_run_whose_session_was_ended_while_it_waited_for_the_standby_is_not_acknowledged() {
    let pair = Pair::start(Major::V18).await;
    let transact = Transact::loader().load(&connect(&pair.old).await).await.unwrap();
    pair.isolate_and_promote().await;
    let (pool, intent) = (Pool::new(&pair.old.url(), 1), call("k"));
    let run = transact.run_on(&pool, &intent, |guard| book(guard, "old"));
    let operator = connect(&pair.old).await;
    let end = async {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        until_count(&operator, waits, 1).await;
        let kill = waits.replace("count(*)", "count(pg_terminate_backend(pid, 10000))");
        operator.query_one(&kill, &[]).await.unwrap();
        until_count(&operator, "SELECT count(*) FROM ledger", 1).await;
        // It is seen, and the run looks for it.
        until_count(&operator, waits, 1).await;
    };
    tokio::select! {
        ran = run => panic!("a commit was acknowledged, or given up: {ran:?}"),
        () = end => {}
    }
}

/// A key that is busy is still its holder's, where it is an open transaction that makes it so. Here it is
/// the renewal itself, which was not answered and never will be: the holder's time is running out.
#[tokio::test]
async fn a_renewal_that_was_not_answered_does_not_make_the_next_one_held() {
    let pair = Pair::start(Major::V18).await;
    let store = Arc::new(impatient(&pair.old.url()).open().await.unwrap());
    let Asked { held, .. } = Asked::before(&store).await;
    store.complete(hold(&store, &id("before")).await, done(201)).await.unwrap();
    pair.isolate_and_promote().await;
    let (others, stop) = (Arc::clone(&store), Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop);
    // Replays keep a connection in use meanwhile, on which nothing has to wait.
    let replays = tokio::spawn(async move {
        while !stopped.load(Ordering::Relaxed) {
            if let Ok(answer) = claim(&others, &ask(&id("before"))).await {
                assert_eq!(replayed(answer), 201);
            }
            tokio::task::yield_now().await;
        }
    });
    for _ in 0..3 {
        let renewed = renew(&store, &held).await;
        assert!(renewed.is_err(), "{renewed:?}");
    }
    stop.store(true, Ordering::Relaxed);
    replays.await.unwrap();
}
