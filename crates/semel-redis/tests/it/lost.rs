//! Lost acknowledgements and lost requests: whoever asks again by the same token is told the truth.

use semel::{
    State, Store, StoreErrorKind,
    store::{
        ClaimAnswer, Completed, ReleaseAnswer, Renew, Renewed,
        capability::{Counts, Inspect},
    },
};
use semel_redis::RedisStore;
use semel_testkit::servers::{Redis, RedisKind, TcpProxy};

use crate::{fixture::Fixture, words::*};

/// A store behind a proxy.
struct Bench {
    proxy: TcpProxy,
    store: RedisStore,
}

impl Bench {
    async fn new() -> Self {
        let server = Redis::shared(RedisKind::Redis7).await;
        let mut fixture = Fixture::of_server(server);
        let proxy = TcpProxy::start(server.address()).await;
        fixture.url = proxy.through(&fixture.url);
        let store = fixture.builder().open().await.unwrap();
        // From now on the server knows the scripts.
        finished(&store, &id("first")).await;
        let permit = hold(&store, &id("second")).await;
        store.renew(vec![Renew::of(&permit, LEASE)]).await.unwrap();
        store.release(id("second"), given_back(&permit, "early")).await.unwrap();
        Self { proxy, store }
    }

    async fn counts(&self) -> Counts {
        self.store.counts().await.unwrap()
    }
}

fn unavailable<T: std::fmt::Debug>(answer: Result<T, semel::StoreError>) {
    fails(answer, StoreErrorKind::Unavailable, &["nobody knows"]);
}

/// C80, C19: the driver repeats nothing by itself, and a repeat by the caller is recognised.
#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_the_callers() {
    let bench = Bench::new().await;
    let mut asked = ask(&id("k"));
    asked.claimed_by = Some("request-lost".into());
    let mut trap = bench.proxy.swallow_replies_after("request-lost");
    unavailable(claim(&bench.store, &asked).await);
    trap.sprung().await;
    let again = claim(&bench.store, &asked).await.unwrap();
    let ClaimAnswer::Granted { permit, grant: None } = again else { panic!("{again:?}") };
    assert_eq!(permit.token, asked.token);
    assert_eq!(bench.counts().await.running, 1);
    in_progress(&claim(&bench.store, &ask(&id("k"))).await.unwrap());
}

#[tokio::test]
async fn a_claim_that_was_lost_on_its_way_is_granted_when_it_is_asked_again() {
    let bench = Bench::new().await;
    let mut asked = ask(&id("k"));
    asked.claimed_by = Some("request-lost".into());
    let mut trap = bench.proxy.cut_before("request-lost");
    unavailable(claim(&bench.store, &asked).await);
    trap.sprung().await;
    assert_eq!(bench.counts().await.running, 0);
    let again = claim(&bench.store, &asked).await.unwrap();
    assert!(matches!(again, ClaimAnswer::Granted { grant: Some(_), .. }), "{again:?}");
}

/// C80: one effect, whichever way the acknowledgement of its end was lost.
#[tokio::test]
async fn an_end_whose_answer_was_lost_is_stored_once() {
    let bench = Bench::new().await;
    let permit = hold(&bench.store, &id("k")).await;
    let mut trap = bench.proxy.swallow_replies_after("paid-and-lost");
    unavailable(bench.store.complete(permit.clone(), done("paid-and-lost")).await);
    trap.sprung().await;
    let again = bench.store.complete(permit, done("paid-twice")).await.unwrap();
    let Completed::Already(record) = again else { panic!("{again:?}") };
    assert_eq!(record.outcome, done("paid-and-lost").outcome);
    let counts = bench.counts().await;
    assert_eq!((counts.running, counts.done), (0, 2));
    assert_eq!(bench.store.audit(None, 10).await.unwrap(), []);
}

/// C80: a release is done once.
#[tokio::test]
async fn a_release_whose_answer_was_lost_is_done_once() {
    let bench = Bench::new().await;
    let permit = hold(&bench.store, &id("k")).await;
    let given = given_back(&permit, "lost-on-its-way");
    let mut trap = bench.proxy.swallow_replies_after("lost-on-its-way");
    unavailable(bench.store.release(id("k"), given.clone()).await);
    trap.sprung().await;
    let again = bench.store.release(id("k"), given.clone()).await.unwrap();
    assert_eq!(again.answer, ReleaseAnswer::Already);
    let next = hold(&bench.store, &id("k")).await;
    let late = bench.store.release(id("k"), given).await.unwrap();
    assert_eq!(late.answer, ReleaseAnswer::NotHeld);
    assert_eq!(bench.store.renew(vec![Renew::of(&next, LEASE)]).await.unwrap(), [Renewed::Held]);
}

#[tokio::test]
async fn a_renewal_whose_answer_was_lost_leaves_the_holder() {
    let bench = Bench::new().await;
    let permit = hold(&bench.store, &id("renewed-and-lost")).await;
    let renewal = vec![Renew::of(&permit, LEASE)];
    let mut trap = bench.proxy.swallow_replies_after("renewed-and-lost");
    unavailable(bench.store.renew(renewal.clone()).await);
    trap.sprung().await;
    assert_eq!(bench.store.renew(renewal).await.unwrap(), [Renewed::Held]);
}

/// In a batch somebody's claim may be done: nobody is told that nothing was.
#[tokio::test]
async fn a_batch_of_which_one_answer_was_lost_is_told_as_unknown_and_recognised() {
    let bench = Bench::new().await;
    let mut asks: Vec<_> = (0..20).map(|n| ask(&id(&format!("k{n}")))).collect();
    asks[10].claimed_by = Some("request-lost".into());
    let mut trap = bench.proxy.swallow_replies_after("request-lost");
    let told = bench.store.claim(asks.clone()).await.unwrap_err();
    assert!(!told.kind().is_definite(), "{told:?}");
    trap.sprung().await;
    for claimed in bench.store.claim(asks).await.unwrap() {
        granted(claimed.answer);
    }
    assert_eq!(bench.counts().await.running, 20);
}

/// Requests that are on their way when everything is cut are answered, and those that follow are served.
#[tokio::test]
async fn callers_on_a_connection_that_is_cut_are_told_and_the_next_are_served() {
    let bench = Bench::new().await;
    for round in 0..5 {
        let asks: Vec<_> = (0..50).map(|n| ask(&id(&format!("k{round}-{n}")))).collect();
        let claims = asks.iter().map(|ask| claim(&bench.store, ask));
        let (answers, ()) = tokio::join!(futures_util::future::join_all(claims), bench.proxy.cut());
        for (ask, answer) in asks.iter().zip(answers) {
            let again = claim(&bench.store, ask).await.unwrap();
            let ClaimAnswer::Granted { grant, .. } = again else { panic!("{again:?}") };
            assert!(answer.is_err() || grant.is_none(), "granted twice");
        }
    }
    assert_eq!(bench.counts().await.running, 250);
    let kept = bench.store.read(vec![id("k0-0")]).await.unwrap().records.remove(0).unwrap();
    assert_eq!(kept.state, State::Running);
}
