//! `kill -9` of the primary under load; the synchronous standby takes over and the clients go on.
//!
//! `SEMEL_FAILOVERS` says how often, `SEMEL_SEED` when.

use std::{sync::Arc, time::Duration};

use semel::Engine;
use semel_postgres::{PostgresStore, transact::Transact};
use semel_testkit::{SeededEntropy, history::Broken, servers::Major};
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;

use super::{
    callers::{Atomic, BySqlx, Leased},
    cluster::Cluster,
    crowd::Crowd,
    pair::{Pair, connect},
    verdict,
};
use crate::transact::pool::Pool;

const FAILOVERS: usize = 1;

fn failovers() -> usize {
    let often = std::env::var("SEMEL_FAILOVERS");
    often.map_or(FAILOVERS, |often| often.parse().expect("a number of failovers"))
}

async fn leased(cluster: &Cluster) -> Leased {
    let builder = PostgresStore::builder(cluster.url()).answer_wait(Duration::from_secs(2));
    let engine = Engine::builder(Arc::new(builder.open().await.unwrap())).build();
    Leased { engine, ledger: Pool::new(&cluster.url(), 6) }
}

async fn atomic(cluster: &Cluster) -> Atomic {
    let client = connect(&cluster.primary).await;
    let transact = Transact::loader().load(&client).await.unwrap();
    Atomic { transact, pool: Pool::new(&cluster.url(), 6) }
}

async fn by_sqlx(cluster: &Cluster) -> BySqlx {
    let options = PgPoolOptions::new().max_connections(4).acquire_timeout(Duration::from_secs(2));
    let pool = options.connect(&cluster.moving_url()).await.unwrap();
    BySqlx { transact: Transact::loader().load_sqlx(&pool).await.unwrap(), pool }
}

/// Nothing acknowledged is lost, nothing is done twice, and all that was told is replayed by the new
/// primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_takes_no_acknowledgement_along_and_no_intent_is_done_twice() {
    let mut cluster = Cluster::start(Major::V18).await;
    let (leased, atomic) = (Arc::new(leased(&cluster).await), Arc::new(atomic(&cluster).await));
    let by_sqlx = Arc::new(by_sqlx(&cluster).await);
    let (crowd, mut sent) = (Arc::new(Crowd::default()), JoinSet::new());
    crowd.send(6, &leased, &mut sent);
    crowd.send(6, &atomic, &mut sent);
    crowd.send(4, &by_sqlx, &mut sent);
    let chance = SeededEntropy::printed();
    for _ in 0..failovers() {
        let some = 50 + usize::try_from(chance.below(300)).unwrap();
        crowd.until_told(some).await;
        cluster.fail_over().await;
    }
    crowd.until_told(100).await;
    crowd.over(sent).await;

    let unknown = crowd.resolve_unknown(&leased, &cluster.primary).await;
    println!(
        "{} failovers: {} intents, {} final answers in {} tries, {} were unknown",
        failovers(),
        crowd.history.ids().len(),
        crowd.acknowledged(),
        crowd.tries(),
        unknown
    );
    assert_eq!(verdict::broken(&crowd, &cluster.primary).await, []);
}

/// The count can fail: where commits wait for nobody, what only the dead primary had is missed.
#[tokio::test]
async fn the_count_finds_what_a_standby_that_nobody_waited_for_never_had() {
    let mut pair = Pair::start(Major::V18).await;
    pair.old.commits_wait_for_nobody().await;
    pair.isolate().await;
    let transact = Transact::loader().load(&connect(&pair.old).await).await.unwrap();
    let atomic = Arc::new(Atomic { transact, pool: Pool::new(&pair.old.url(), 2) });
    let (crowd, mut sent) = (Arc::new(Crowd::default()), JoinSet::new());
    crowd.send(2, &atomic, &mut sent);
    crowd.until_told(10).await;
    crowd.over(sent).await;
    assert_eq!(verdict::broken(&crowd, &pair.old).await, []);
    pair.old.kill();
    pair.new.promote().await;
    let broken = verdict::broken(&crowd, &pair.new).await;
    assert!(broken.iter().any(|broken| matches!(broken, Broken::Lost(_))), "{broken:?}");
}
