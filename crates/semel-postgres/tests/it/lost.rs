//! Lost acknowledgements and lost requests: whoever asks again by the same token is told the truth.

use semel::{
    Permit, State, Store, StoreErrorKind,
    decide::Resolution,
    store::{ClaimAnswer, Completed, ReleaseAnswer, Renewed, capability::Inspect},
};
use semel_postgres::PostgresStore;
use semel_testkit::{
    conformance::MoveTime,
    servers::{Major, TcpProxy},
};
use tokio_postgres::Client;

use crate::{fixture::Fixture, words::*};

/// A store behind a proxy, and somebody who looks at its records.
struct Bench {
    fixture: Fixture,
    proxy: TcpProxy,
    store: PostgresStore,
    client: Client,
}

impl Bench {
    async fn new() -> Self {
        let fixture = Fixture::new(Major::V18).await;
        let proxy = TcpProxy::start(fixture.server.address()).await;
        let fixture = fixture.clone().by_way_of(proxy.through(&fixture.url));
        let store = fixture.open().await;
        let client = fixture.connect().await;
        Self { fixture, proxy, store, client }
    }

    /// How many records there are in a state.
    async fn count(&self, state: State) -> i64 {
        let sql = self.fixture.sql("SELECT count(*) FROM semel.record WHERE state = $1");
        self.client.query_one(&sql, &[&state.as_str()]).await.unwrap().get(0)
    }

    async fn lost(&self, key: &str) -> Permit {
        let permit = hold(&self.store, &id(key)).await;
        assert_eq!(self.store.complete(permit.clone(), doubt()).await.unwrap(), Completed::Stored);
        permit
    }
}

/// What stands in the statements of each verb, and nowhere else.
const CLAIM: &str = "claim_leases";
const COMPLETE: &str = "complete_leases";
const RENEW: &str = "renew_leases";
const LOCK: &str = "FROM unnest($1::bigint[])";
/// The end of the text tells it from READ COMMITTED.
const COMMIT: &str = "COMMIT\0";
const LOOK: &str = "m.floor, m.oldest";

fn unavailable<T: std::fmt::Debug>(answer: Result<T, semel::StoreError>) {
    assert_eq!(answer.unwrap_err().kind(), StoreErrorKind::Unavailable);
}

/// C80: the store repeats nothing by itself, and a repeat by the caller is recognised.
#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_the_callers() {
    let bench = Bench::new().await;
    let asked = ask(&id("k"));
    let mut trap = bench.proxy.swallow_replies_after(CLAIM);
    unavailable(claim(&bench.store, &asked).await);
    trap.sprung().await;
    let again = claim(&bench.store, &asked).await.unwrap();
    let ClaimAnswer::Granted { permit, grant: None } = again else { panic!("{again:?}") };
    assert_eq!(permit.token, asked.token);
    assert_eq!(bench.count(State::Running).await, 1);
    in_progress(&claim(&bench.store, &ask(&id("k"))).await.unwrap());
}

#[tokio::test]
async fn a_claim_that_was_lost_on_its_way_is_granted_when_it_is_asked_again() {
    let bench = Bench::new().await;
    let asked = ask(&id("k"));
    let mut trap = bench.proxy.cut_before(CLAIM);
    unavailable(claim(&bench.store, &asked).await);
    trap.sprung().await;
    assert_eq!(bench.count(State::Running).await, 0, "the store sends nothing twice");
    assert_eq!(granted(claim(&bench.store, &asked).await.unwrap()).token, asked.token);
}

#[tokio::test]
async fn a_take_over_whose_commit_was_not_answered_is_the_callers() {
    let bench = Bench::new().await;
    let time = bench.fixture.moved_time().await;
    hold(&bench.store, &id("k")).await;
    time.advance(LEASE).await;
    let asked = rerun(&id("k"));
    let mut trap = bench.proxy.swallow_replies_after(COMMIT);
    unavailable(claim(&bench.store, &asked).await);
    trap.sprung().await;
    assert_eq!(granted(claim(&bench.store, &asked).await.unwrap()).token, asked.token);
    let reading = bench.store.read(vec![id("k")]).await.unwrap();
    assert_eq!(reading.records[0].as_ref().unwrap().takeovers, 1);
}

/// C80.
#[tokio::test]
async fn a_completion_whose_answer_was_lost_is_stored_once() {
    let bench = Bench::new().await;
    let permit = hold(&bench.store, &id("k")).await;
    let mut trap = bench.proxy.swallow_replies_after(COMPLETE);
    unavailable(bench.store.complete(permit.clone(), done(201)).await);
    trap.sprung().await;
    let again = bench.store.complete(permit, done(201)).await.unwrap();
    assert!(matches!(again, Completed::Already(record) if record.state == State::Done));
    assert_eq!(replayed(claim(&bench.store, &ask(&id("k"))).await.unwrap()), 201);
}

#[tokio::test]
async fn a_completion_that_was_lost_on_its_way_leaves_the_holder() {
    let bench = Bench::new().await;
    let permit = hold(&bench.store, &id("k")).await;
    let mut trap = bench.proxy.cut_before(COMPLETE);
    unavailable(bench.store.complete(permit.clone(), done(201)).await);
    trap.sprung().await;
    assert_eq!(bench.count(State::Running).await, 1);
    assert_eq!(bench.store.complete(permit, done(201)).await.unwrap(), Completed::Stored);
}

#[tokio::test]
async fn a_doubt_whose_commit_was_not_answered_is_stored_once() {
    let bench = Bench::new().await;
    let permit = hold(&bench.store, &id("k")).await;
    let mut trap = bench.proxy.swallow_replies_after(COMMIT);
    unavailable(bench.store.complete(permit.clone(), doubt()).await);
    trap.sprung().await;
    let again = bench.store.complete(permit, doubt()).await.unwrap();
    assert!(matches!(again, Completed::Already(record) if record.state == State::Unknown));
}

#[tokio::test]
async fn a_renewal_whose_answer_was_lost_can_be_repeated() {
    let bench = Bench::new().await;
    let permit = hold(&bench.store, &id("k")).await;
    for trap in [bench.proxy.swallow_replies_after(RENEW), bench.proxy.cut_before(RENEW)] {
        unavailable(renew(&bench.store, &permit).await);
        assert!(trap.has_sprung());
    }
    assert_eq!(renew(&bench.store, &permit).await.unwrap(), Renewed::Held);
}

#[tokio::test]
async fn a_release_whose_commit_was_not_answered_is_done_once() {
    let bench = Bench::new().await;
    for (lost, then) in [
        (COMMIT, ReleaseAnswer::Already),
        (LOCK, ReleaseAnswer::Stored),
        (LOOK, ReleaseAnswer::Stored),
    ] {
        let permit = hold(&bench.store, &id(&format!("k{}", lost.len()))).await;
        let mut trap = bench.proxy.swallow_replies_after(lost);
        unavailable(bench.store.release(permit.id.clone(), clean(&permit)).await);
        trap.sprung().await;
        let again = bench.store.release(permit.id.clone(), clean(&permit)).await.unwrap();
        assert_eq!(again.answer, then, "{lost}");
    }
}

#[tokio::test]
async fn a_resolution_whose_commit_was_not_answered_is_stored_and_audited_once() {
    let bench = Bench::new().await;
    let permit = bench.lost("k").await;
    let (ask, name) = (not_done(&permit), permit.id.clone());
    let mut trap = bench.proxy.swallow_replies_after(COMMIT);
    unavailable(bench.store.resolve(name.clone(), ask.clone(), actor()).await);
    trap.sprung().await;
    let again = bench.store.resolve(name.clone(), ask, actor()).await.unwrap();
    assert_eq!(again, Resolution::Already);
    assert_eq!(bench.store.audit(Some(name), 10).await.unwrap().len(), 1);
}
