//! A primary that is killed under load: with a replica waited for, nothing that was acknowledged is lost, and nobody
//! is granted twice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use semel::{
    IntentId, State, Store,
    store::{ClaimAnswer, Completed},
};
use semel_redis::RedisStore;
use semel_testkit::servers::{Redis, RedisCluster, RedisKind, Sentinels};

use crate::{
    fixture::{Fixture, until},
    words::*,
};

const CALLERS: usize = 8;

/// Callers in pairs that want the same intents, until they are told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    callers: Vec<tokio::task::JoinHandle<Vec<(IntentId, bool)>>>,
}

impl Load {
    fn start(store: &Arc<RedisStore>) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let caller = |caller: usize| {
            let (store, stop, done) = (Arc::clone(store), Arc::clone(&stop), Arc::clone(&done));
            tokio::spawn(async move {
                let mut told = Vec::new();
                let mut number = 0;
                while !stop.load(Ordering::Acquire) {
                    let id = id(&format!("k{}-{number}", caller / 2));
                    let is_holder = run(&store, &id).await;
                    told.push((id, is_holder));
                    done.fetch_add(1, Ordering::AcqRel);
                    number += 1;
                }
                told
            })
        };
        let callers = (0..CALLERS).map(caller).collect();
        Self { stop, done, callers }
    }

    /// Waits until so many more intents were settled.
    async fn go_on(&self, intents: usize) {
        let wanted = self.done.load(Ordering::Acquire) + intents;
        let reached = || async {
            if self.done.load(Ordering::Acquire) >= wanted { Ok(()) } else { Err("not yet") }
        };
        until(reached).await;
    }

    /// Stops, and judges: what somebody ended is there, and nobody else held it.
    async fn judge(self, store: &RedisStore) -> usize {
        self.stop.store(true, Ordering::Release);
        let mut ended = Vec::new();
        for caller in self.callers {
            let told = caller.await.unwrap();
            ended.extend(told.into_iter().filter(|(_, is_holder)| *is_holder).map(|(id, _)| id));
        }
        let count = ended.len();
        ended.sort();
        ended.dedup();
        assert_eq!(ended.len(), count, "an intent was held twice");
        for ids in ended.chunks(500) {
            let read = until(|| store.read(ids.to_vec())).await;
            for (id, record) in ids.iter().zip(read.records) {
                let state = record.map(|record| record.state);
                assert_eq!(state, Some(State::Done), "{id} was acknowledged and is lost");
            }
        }
        count
    }
}

/// Claims and ends an intent, asking again by the same token while nobody knows; says whether it was held.
async fn run(store: &RedisStore, id: &IntentId) -> bool {
    let asked = ask(id);
    match until(|| claim(store, &asked)).await {
        ClaimAnswer::Granted { permit, .. } => {
            let completed = until(|| store.complete(permit.clone(), done("paid"))).await;
            assert_ne!(completed, Completed::Stale, "a holder was overtaken within its lease");
            true
        }
        ClaimAnswer::Refused(_) | ClaimAnswer::Replay(_) => false,
        other => panic!("{other:?}"),
    }
}

/// M34: the store goes to whoever was promoted, and takes the old primary for none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promotion_by_sentinels_loses_nothing_and_the_old_primary_grants_nothing() {
    let kind = RedisKind::Redis7;
    let mut primary = Redis::builder(kind).start().await;
    let replica = || Redis::builder(kind).replica_of(primary.address()).start();
    let (_one, _two) = tokio::join!(replica(), replica());
    let sentinels = Sentinels::watch(kind, &primary, 2).await;
    let hosts: Vec<_> = sentinels.addresses().iter().map(ToString::to_string).collect();
    let url = format!("redis://{}/0?sentinel={}", hosts.join(","), Sentinels::NAME);
    let fixture = Fixture::of(url, Vec::new(), false);
    let waiting = |builder: semel_redis::RedisBuilder| {
        builder.wait_replicas(1).wait_for(Duration::from_secs(2))
    };
    let store = Arc::new(waiting(fixture.builder()).open().await.unwrap());
    let direct = RedisStore::builder(&primary.url()).prefix(fixture.prefix.as_str());
    let stubborn = waiting(direct).open().await.unwrap();

    let load = Load::start(&store);
    load.go_on(200).await;
    primary.kill();
    sentinels.promoted(primary.address()).await;
    load.go_on(200).await;

    // It takes itself for the primary until the sentinels tell it otherwise.
    primary.restart().await;
    let mut asked = 0;
    while primary.is_primary().await {
        let answer = claim(&stubborn, &ask(&id(&format!("old-{asked}")))).await;
        assert!(answer.is_err(), "the old primary granted: {answer:?}");
        asked += 1;
    }
    load.go_on(100).await;
    let count = load.judge(&store).await;
    assert!(count > 200, "{count} intents are too few to say anything");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promotion_in_a_cluster_loses_nothing() {
    let mut cluster = RedisCluster::start(RedisKind::Valkey9).await;
    let fixture = Fixture::of_cluster(&cluster);
    let store = Arc::new(fixture.builder().wait_for(Duration::from_secs(2)).open().await.unwrap());
    let load = Load::start(&store);
    load.go_on(200).await;
    cluster.node(0).kill();
    cluster.until_whole().await;
    // The promoted one has no replica before the old primary is back as one.
    cluster.node(0).restart().await;
    load.go_on(200).await;
    let count = load.judge(&store).await;
    assert!(count > 200, "{count} intents are too few to say anything");
}
