//! A part of the keys that moves from one node of a cluster to another, while callers go on.

use semel::{
    State, Store, StoreError, StoreErrorKind,
    store::{ClaimAnswer, Completed, Renew, Renewed},
};
use semel_testkit::servers::{RedisCluster, RedisKind};

use crate::{
    fixture::{Fixture, tags},
    words::*,
};

/// A move of a slot from the first node to the second, step by step.
struct Moving<'a> {
    cluster: &'a RedisCluster,
    slot: String,
}

impl Moving<'_> {
    async fn say(&self, node: usize, words: &[&str]) {
        let said = self.cluster.nodes()[node].ask(words).await;
        assert_eq!(said, "OK", "{words:?}");
    }

    async fn begin(&self) {
        let ids = (self.id(0).await, self.id(1).await);
        self.say(1, &["CLUSTER", "SETSLOT", &self.slot, "IMPORTING", &ids.0]).await;
        self.say(0, &["CLUSTER", "SETSLOT", &self.slot, "MIGRATING", &ids.1]).await;
    }

    async fn id(&self, node: usize) -> String {
        self.cluster.nodes()[node].ask(&["CLUSTER", "MYID"]).await
    }

    /// The keys that the first node still has.
    async fn keys(&self) -> Vec<String> {
        let words = ["CLUSTER", "GETKEYSINSLOT", &self.slot, "1000"];
        let keys = self.cluster.nodes()[0].ask(&words).await;
        keys.lines().map(str::to_owned).collect()
    }

    async fn hand_over(&self, keys: &[String]) {
        let port = self.cluster.nodes()[1].address().port().to_string();
        for key in keys {
            let words = ["MIGRATE", "127.0.0.1", &port, key, "0", "5000"];
            self.say(0, &words).await;
        }
    }

    async fn end(&self) {
        let id = self.id(1).await;
        for node in [1, 0, 2] {
            self.say(node, &["CLUSTER", "SETSLOT", &self.slot, "NODE", &id]).await;
        }
    }
}

#[tokio::test]
async fn records_that_move_to_another_node_are_found_wherever_they_are() {
    let cluster = RedisCluster::start(RedisKind::Redis7).await;
    let fixture = Fixture::of_cluster(&cluster);
    let store = fixture.builder().open().await.unwrap();
    let (slot, _) = tags(&fixture.prefix)[0].clone();
    let moving = Moving { cluster: &cluster, slot: slot.to_string() };
    let mut ids = Vec::new();
    for n in 0.. {
        let id = id(&format!("k{n}"));
        if fixture.slot_of(&id) == slot {
            ids.push(id);
        }
        if ids.len() == 3 {
            break;
        }
    }
    finished(&store, &ids[0]).await;
    let held = hold(&store, &ids[1]).await;

    // From now on there is a key to count answers as writes by.
    store.read(vec![ids[1].clone()]).await.unwrap();

    moving.begin().await;
    told_or_busy(claim(&store, &ask(&ids[0])).await);
    let keys = moving.keys().await;
    assert!(keys.len() >= 6, "{keys:?}");
    let (first, rest) = keys.split_at(keys.len() / 2);
    moving.hand_over(first).await;
    // Half of it is there: nobody can serve it, and nothing is written by halves.
    told_or_busy(claim(&store, &ask(&ids[0])).await);
    fails(claim(&store, &ask(&ids[2])).await, StoreErrorKind::Busy, &["moving"]);
    moving.hand_over(rest).await;
    // All of it is there, and the slot is not: the first node sends on whoever asks for what is stored. What is new
    // waits, since it may still be on its way.
    let renewal = Renew::of(&held, LEASE);
    assert_eq!(store.renew(vec![renewal]).await.unwrap(), [Renewed::Held]);
    let read = store.read(vec![ids[0].clone()]).await.unwrap();
    assert_eq!(read.records[0].as_ref().map(|record| record.state), Some(State::Done));
    fails(claim(&store, &ask(&ids[2])).await, StoreErrorKind::Busy, &["moving"]);
    moving.end().await;
    assert_eq!(store.complete(held, done("paid")).await.unwrap(), Completed::Stored);
    for id in &ids[..2] {
        let replay = claim(&store, &ask(id)).await.unwrap();
        assert!(matches!(replay, ClaimAnswer::Replay(_)), "{replay:?}");
    }
    granted(claim(&store, &ask(&ids[2])).await.unwrap());
    let read = store.read(ids).await.unwrap();
    assert_eq!(read.records.iter().flatten().count(), 3);
}

/// What is stored is replayed, or the caller is told to try again.
fn told_or_busy(answer: Result<ClaimAnswer, StoreError>) {
    match answer {
        Ok(answer) => assert!(matches!(answer, ClaimAnswer::Replay(_)), "{answer:?}"),
        Err(error) => assert_eq!(error.kind(), StoreErrorKind::Busy, "{error:?}"),
    }
}
