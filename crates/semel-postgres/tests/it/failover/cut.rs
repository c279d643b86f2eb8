//! A connection ends at each piece that a client sends, before it arrives or before it is answered: who
//! asks again by the same key gets a definite answer, and there is one row and one record.

use std::{sync::Arc, time::Duration};

use semel::{Engine, Outcome, StoreErrorKind};
use semel_postgres::{
    PostgresStore,
    transact::{Guard, RunError, Started, Transact},
};
use semel_testkit::servers::{Major, Moment, Postgres, TcpProxy};
use sqlx::postgres::PgPoolOptions;

use super::{
    callers::{Atomic, BySqlx, Leased},
    crowd::{Asker, Crowd, call, id},
    pair::connect,
    verdict,
};
use crate::transact::pool::Pool;

/// A server behind a proxy.
struct Bench {
    server: Postgres,
    proxy: TcpProxy,
    url: String,
    crowd: Crowd,
}

impl Bench {
    async fn new() -> Self {
        let server = Postgres::builder(Major::V18).fsync(true).start().await;
        PostgresStore::migrate(&PostgresStore::builder(server.url())).await.unwrap();
        server.run_sql("CREATE TABLE ledger (key text NOT NULL)").await;
        let proxy = TcpProxy::start(server.address()).await;
        let url = proxy.through(&server.url());
        Self { server, proxy, url, crowd: Crowd::default() }
    }

    async fn leased(&self) -> Leased {
        let store = PostgresStore::builder(&self.url).open().await.unwrap();
        Leased {
            engine: Engine::builder(Arc::new(store)).build(),
            ledger: Pool::new(&self.server.url(), 1),
        }
    }

    async fn transact(&self) -> Transact {
        Transact::loader().load(&connect(&self.server).await).await.unwrap()
    }

    /// Has one intent done after the other, with an asker that never spoke to the server before, and
    /// loses one piece more each time, until none is left. Says how many there were.
    async fn lose_each<A: Asker>(&self, fresh: impl AsyncFn() -> A) -> usize {
        let mut pieces = 0;
        for nth in 1.. {
            let mut lost = false;
            for arrives in [false, true] {
                let asker = fresh().await;
                let moment = Moment::nth("", nth);
                let trap = match arrives {
                    true => self.proxy.swallow_replies_after(moment),
                    false => self.proxy.cut_before(moment),
                };
                let name = id(&format!("{}-{nth}-{arrives}", A::FORM));
                self.crowd.until_definite(&asker, &name, nth).await;
                lost |= trap.has_sprung();
                self.proxy.disarm();
            }
            if !lost {
                break;
            }
            pieces = nth;
        }
        pieces
    }

    /// Nothing is left unknown, lost or done twice, and each intent has one record.
    async fn judge(&self) {
        self.crowd.resolve_unknown(&self.leased().await, &self.server).await;
        assert_eq!(verdict::broken(&self.crowd, &self.server).await, []);
        let done = "SELECT count(*) FROM semel.record WHERE state = 'done'";
        let intents = self.crowd.history.ids().len();
        assert_eq!(self.server.run_sql(done).await, intents.to_string());
    }
}

#[tokio::test]
async fn a_leased_intent_survives_the_loss_of_each_piece() {
    let bench = Bench::new().await;
    let pieces = bench.lose_each(async || bench.leased().await).await;
    assert!(pieces >= 3, "it asks for the time, claims and completes: {pieces}");
    bench.judge().await;
}

#[tokio::test]
async fn a_run_survives_the_loss_of_each_piece() {
    let bench = Bench::new().await;
    let transact = bench.transact().await;
    let fresh = async || Atomic { transact: transact.clone(), pool: Pool::new(&bench.url, 1) };
    let pieces = bench.lose_each(fresh).await;
    assert!(pieces >= 5, "it connects, begins, claims, writes and commits: {pieces}");
    bench.judge().await;
}

#[tokio::test]
async fn a_run_of_sqlx_survives_the_loss_of_each_piece() {
    let bench = Bench::new().await;
    let transact = bench.transact().await;
    let fresh = async || {
        let options = PgPoolOptions::new().max_connections(1);
        let pool = options.acquire_timeout(Duration::from_secs(2)).connect_lazy(&bench.url);
        BySqlx { transact: transact.clone(), pool: pool.unwrap() }
    };
    let pieces = bench.lose_each(fresh).await;
    assert!(pieces >= 8, "each statement goes by itself: {pieces}");
    bench.judge().await;
}

/// The answer to a commit is lost, and then the server: what follows is no answer to what became of it.
#[tokio::test]
async fn a_run_that_cannot_find_out_what_became_of_its_commit_says_so() {
    let bench = Bench::new().await;
    let atomic = Atomic { transact: bench.transact().await, pool: Pool::new(&bench.url, 1) };
    bench.crowd.until_definite(&atomic, &id("connects"), 0).await;
    bench.proxy.refuse().await;
    for arrives in [false, true] {
        let trap = match arrives {
            true => bench.proxy.swallow_replies_after("COMMIT"),
            false => bench.proxy.cut_before("COMMIT"),
        };
        let intent = call(&id(&format!("commits-{arrives}")));
        let work = async |guard: Guard<Started<_>>| {
            guard.batch_execute("INSERT INTO ledger VALUES ('x')").await?;
            Ok::<_, tokio_postgres::Error>(guard.done(Outcome::new(201, ""), ()))
        };
        let ran = atomic.transact.run_on(&atomic.pool, &intent, work).await;
        let Err(RunError::Store(error)) = ran else { panic!("{ran:?}") };
        assert!(trap.has_sprung());
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        bench.proxy.accept().await;
        bench.crowd.until_definite(&atomic, &id("connects-again"), 0).await;
        bench.proxy.refuse().await;
    }
}
