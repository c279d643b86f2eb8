//! Trouble with the server: backends killed, statements cut off, restarts, standbys, and applications
//! that keep a transaction open.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use semel::{
    IntentId, Store, StoreErrorKind,
    store::{ClaimAnswer, Completed, ReleaseAnswer, Renewed, capability::Sweep},
};
use semel_postgres::PostgresStore;
use semel_testkit::servers::{Major, Postgres, failover_url};
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::{fixture::Fixture, words::*};

/// Sessions of the store that wait for a lock that a test holds.
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE application_name = current_setting('semel_test.store') AND wait_event_type = 'Lock'";

/// A schema whose tables a test can lock, and a store whose sessions it can tell.
struct Bench {
    fixture: Fixture,
    store: Arc<PostgresStore>,
    /// Locks tables.
    client: Client,
    /// Looks and kills.
    other: Client,
}

impl Bench {
    async fn new(options: &str) -> Self {
        let fixture = Fixture::new(Major::V18).await;
        let url = format!("{}?application_name={}{options}", fixture.url, fixture.schema);
        let fixture = fixture.by_way_of(url);
        let store = fixture.builder().answer_wait(Duration::from_millis(1_500)).open().await;
        let (client, other) = (fixture.connect().await, fixture.connect().await);
        let name = format!("SET semel_test.store = '{}'", fixture.schema);
        other.batch_execute(&name).await.unwrap();
        Self { store: Arc::new(store.unwrap()), client, other, fixture }
    }

    /// Makes every statement on the records wait.
    async fn lock(&self) {
        let lock = self.fixture.sql("BEGIN; LOCK TABLE semel.record IN ACCESS EXCLUSIVE MODE");
        self.client.batch_execute(&lock).await.unwrap();
    }

    async fn unlock(&self) {
        self.client.batch_execute("ROLLBACK").await.unwrap();
    }

    /// Kills the sessions of the store that wait, once there is one.
    async fn kill_waiting(&self) {
        until_count(&self.other, &format!("SELECT least(1, ({WAITING}))"), 1).await;
        let kill = WAITING.replace("count(*)", "count(pg_terminate_backend(pid))");
        self.other.query_one(&kill, &[]).await.unwrap();
    }

    /// Says what a verb was told while the table was locked, and `meanwhile` happened.
    async fn told<T: Send + 'static>(
        &self,
        verb: impl Future<Output = Result<T, semel::StoreError>> + Send + 'static,
        meanwhile: impl AsyncFnOnce(&Self),
    ) -> StoreErrorKind {
        self.lock().await;
        let asked = tokio::spawn(verb);
        meanwhile(self).await;
        let told =
            tokio::time::timeout(PATIENCE, asked).await.expect("a verb is answered").unwrap();
        self.unlock().await;
        told.err().expect("the table is locked").kind()
    }
}

#[tokio::test]
async fn a_backend_that_is_killed_at_any_statement_leaves_what_was_there() {
    let bench = Bench::new("").await;
    let kill = async |bench: &Bench| bench.kill_waiting().await;
    let held = hold(&bench.store, &id("held")).await;

    let (store, asked) = (Arc::clone(&bench.store), ask(&id("new")));
    let asks = vec![asked.clone()];
    let told = bench.told(async move { store.claim(asks).await }, kill).await;
    assert_eq!(told, StoreErrorKind::Unavailable);
    assert_eq!(granted(claim(&bench.store, &asked).await.unwrap()).token, asked.token);

    let (store, permit) = (Arc::clone(&bench.store), held.clone());
    let told = bench.told(async move { renew(&store, &permit).await }, kill).await;
    assert_eq!(told, StoreErrorKind::Unavailable);
    assert_eq!(renew(&bench.store, &held).await.unwrap(), Renewed::Held);

    let (store, permit) = (Arc::clone(&bench.store), held.clone());
    let told =
        bench.told(async move { store.release(permit.id.clone(), clean(&permit)).await }, kill);
    assert_eq!(told.await, StoreErrorKind::Unavailable);

    let (store, permit) = (Arc::clone(&bench.store), held.clone());
    let told = bench.told(async move { store.complete(permit, done(201)).await }, kill).await;
    assert_eq!(told, StoreErrorKind::Unavailable);
    assert_eq!(bench.store.complete(held.clone(), done(201)).await.unwrap(), Completed::Stored);

    let store = Arc::clone(&bench.store);
    let told = bench.told(async move { store.read(vec![id("held")]).await }, kill).await;
    assert_eq!(told, StoreErrorKind::Unavailable);

    let store = Arc::clone(&bench.store);
    let told = bench.told(async move { store.sweep(Default::default()).await }, kill).await;
    assert_eq!(told, StoreErrorKind::Unavailable);
    assert_eq!(replayed(claim(&bench.store, &ask(&id("held"))).await.unwrap()), 201);
}

#[tokio::test]
async fn a_server_that_does_not_answer_in_time_is_not_waited_for() {
    let bench = Bench::new("").await;
    let (store, asked) = (Arc::clone(&bench.store), ask(&id("k")));
    let asks = vec![asked.clone()];
    let cancelled = async |bench: &Bench| {
        until_count(&bench.other, WAITING, 1).await;
        // Nobody waits on the server any more either: the statement does not claim later.
        until_count(&bench.other, WAITING, 0).await;
    };
    let told = bench.told(async move { store.claim(asks).await }, cancelled).await;
    assert_eq!(told, StoreErrorKind::Unavailable);
    assert!(bench.store.read(vec![id("k")]).await.unwrap().records[0].is_none());
    assert_eq!(granted(claim(&bench.store, &asked).await.unwrap()).token, asked.token);
}

#[tokio::test]
async fn time_outs_of_the_server_write_nothing_and_say_so() {
    for options in ["&options=-c%20statement_timeout%3D100", "&options=-c%20lock_timeout%3D50"] {
        let bench = Bench::new(options).await;
        let (store, asked) = (Arc::clone(&bench.store), ask(&id("k")));
        let asks = vec![asked.clone()];
        let told = bench.told(async move { store.claim(asks).await }, async |_: &Bench| {}).await;
        assert_eq!(told, StoreErrorKind::Busy, "{options}");
        assert_eq!(granted(claim(&bench.store, &asked).await.unwrap()).token, asked.token);
    }
}

#[tokio::test]
async fn an_open_transaction_on_one_key_keeps_nobody_from_the_others() {
    let bench = Bench::new("").await;
    let lock = "BEGIN; SELECT pg_advisory_xact_lock(semel.lock_hash('acme', 'pay', 'open', ''));
        INSERT INTO semel.record (tenant, operation, key, state, token, fence, plan, digest,
            renewed_at_us, lease_us, created_at_us, claimed_at_us, replay_until_us,
            remember_until_us)
        VALUES ('acme', 'pay', 'open', 'done', sha256('t')::bytea, 1, '', '', 0, 0, 0, 0, 0, 0)";
    let lock = lock.replace("sha256('t')::bytea", "substr(sha256('t'), 1, 16)");
    let lock = lock.replace("1, '', ''", "1, substr(sha256('p'), 1, 8), sha256('d')");
    bench.client.batch_execute(&bench.fixture.sql(&lock)).await.unwrap();
    let mut callers = JoinSet::new();
    for caller in 0..64 {
        let store = Arc::clone(&bench.store);
        callers.spawn(async move {
            for round in 0..4 {
                in_progress(&claim(&store, &ask(&id("open"))).await.unwrap());
                let permit = hold(&store, &id(&format!("{caller}-{round}"))).await;
                assert_eq!(renew(&store, &permit).await.unwrap(), Renewed::Held);
                assert_eq!(store.complete(permit, done(201)).await.unwrap(), Completed::Stored);
            }
            assert!(store.read(vec![id("open")]).await.unwrap().records[0].is_none());
        });
    }
    let all = tokio::time::timeout(PATIENCE, callers.join_all()).await;
    all.expect("nobody waits for the open transaction");
    bench.unlock().await;
    hold(&bench.store, &id("open")).await;
}

#[tokio::test]
async fn an_end_and_a_renewal_behind_an_open_transaction_are_busy() {
    let bench = Bench::new("").await;
    let permit = hold(&bench.store, &id("k")).await;
    let lock = "BEGIN; SELECT pg_advisory_xact_lock(semel.lock_hash('acme', 'pay', 'k', ''))";
    bench.client.batch_execute(&bench.fixture.sql(lock)).await.unwrap();
    let (store, held) = (&bench.store, &permit);
    let (ended, released, renewed) = tokio::join!(
        store.complete(held.clone(), done(201)),
        store.release(held.id.clone(), clean(held)),
        renew(store, held),
    );
    assert_eq!(ended.unwrap_err().kind(), StoreErrorKind::Busy);
    assert_eq!(released.unwrap_err().kind(), StoreErrorKind::Busy);
    assert_eq!(renewed.unwrap(), Renewed::Busy);
    bench.unlock().await;
    let released = store.release(held.id.clone(), clean(held)).await.unwrap();
    assert_eq!(released.answer, ReleaseAnswer::Stored);
}

/// Callers who claim and complete one intent after another, and ask again when they were not told.
struct Load {
    callers: JoinSet<Vec<IntentId>>,
    acknowledged: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Load {
    fn start(store: &Arc<PostgresStore>, callers: usize) -> Self {
        let (count, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let caller = |caller| {
            let (store, count, stop) = (Arc::clone(store), Arc::clone(&count), Arc::clone(&stop));
            async move {
                let mut acknowledged = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let asked = ask(&id(&format!("{caller}-{}", acknowledged.len())));
                    let permit = granted(until_answered(|| claim(&store, &asked)).await);
                    let ended = until_answered(|| store.complete(permit.clone(), done(201))).await;
                    assert_ne!(ended, Completed::Stale, "nobody else had the permit");
                    acknowledged.push(asked.id);
                    count.fetch_add(1, Ordering::Relaxed);
                }
                acknowledged
            }
        };
        let callers = (0..callers).map(caller).collect();
        Self { callers, acknowledged: count, stop }
    }

    /// Waits until they were told of a hundred more.
    async fn until_it_goes_on(&self) {
        let before = self.acknowledged.load(Ordering::Relaxed);
        let deadline = Instant::now() + PATIENCE;
        while self.acknowledged.load(Ordering::Relaxed) < before + 100 {
            assert!(Instant::now() < deadline, "the callers do not go on");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Stops them, and returns what they were told is stored.
    async fn stop(self) -> Vec<IntentId> {
        self.stop.store(true, Ordering::Relaxed);
        self.callers.join_all().await.concat()
    }
}

/// A server of the test's own, with a store on it.
async fn private(server: &Postgres) -> PostgresStore {
    PostgresStore::builder(server.url()).open().await.unwrap()
}

#[tokio::test]
async fn a_server_that_is_restarted_under_load_loses_nothing_and_doubles_nothing() {
    let mut server = Postgres::start(Major::V18).await;
    let store = Arc::new(private(&server).await);
    let load = Load::start(&store, 16);
    for _ in 0..2 {
        load.until_it_goes_on().await;
        server.kill();
        server.restart().await;
    }
    load.until_it_goes_on().await;
    let acknowledged = load.stop().await;
    for id in acknowledged {
        assert_eq!(replayed(claim(&store, &ask(&id)).await.unwrap()), 201);
    }
}

/// S05
#[tokio::test]
async fn what_was_answered_is_on_disk_even_where_the_role_does_not_wait_for_it() {
    let mut server = Postgres::builder(Major::V18)
        .setting("synchronous_commit", "off")
        .setting("wal_writer_delay", "10s")
        .start()
        .await;
    let store = private(&server).await;
    let asked = ask(&id("k"));
    let permit = granted(claim(&store, &asked).await.unwrap());
    lose_power(&mut server).await;
    let again = until_answered(|| claim(&store, &asked)).await;
    assert!(matches!(again, ClaimAnswer::Granted { permit: kept, grant: None } if kept == permit));
    assert_eq!(store.complete(permit, done(201)).await.unwrap(), Completed::Stored);
    lose_power(&mut server).await;
    let other = ask(&id("k"));
    assert_eq!(replayed(until_answered(|| claim(&store, &other)).await), 201);
    let permit = hold(&store, &id("released")).await;
    let released = store.release(permit.id.clone(), clean(&permit)).await.unwrap();
    assert_eq!(released.answer, ReleaseAnswer::Stored);
    lose_power(&mut server).await;
    let again = until_answered(|| store.release(permit.id.clone(), clean(&permit))).await;
    assert_eq!(again.answer, ReleaseAnswer::Already);
}

/// Whatever a server has not given to the system is lost.
async fn lose_power(server: &mut Postgres) {
    server.kill();
    server.restart().await;
}

#[tokio::test]
async fn a_standby_alone_is_refused_and_beside_its_primary_passed_over() {
    let primary = Postgres::start(Major::V18).await;
    drop(private(&primary).await);
    let standby = primary.standby("b").await;
    primary.until_caught_up(&standby).await;
    let error = PostgresStore::builder(standby.url()).open().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::ReadOnly);
    assert!(error.to_string().contains("connect to the primary"), "{error}");
    let url = failover_url(&[&standby, &primary], "postgres");
    let store = PostgresStore::builder(url).open().await.unwrap();
    hold(&store, &id("k")).await;
}

#[tokio::test]
async fn a_promoted_standby_is_found_and_nothing_acknowledged_is_lost() {
    let mut primary = Postgres::start(Major::V18).await;
    let url = primary.url();
    drop(PostgresStore::builder(url).open().await.unwrap());
    let standby = primary.standby("b").await;
    primary.commits_wait_for("b").await;
    let url = failover_url(&[&primary, &standby], "postgres");
    let store = Arc::new(PostgresStore::builder(url).open().await.unwrap());
    let load = Load::start(&store, 8);
    load.until_it_goes_on().await;
    primary.kill();
    standby.promote().await;
    load.until_it_goes_on().await;
    for id in load.stop().await {
        assert_eq!(replayed(claim(&store, &ask(&id)).await.unwrap()), 201);
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_harms_nobody_in_its_batch() {
    let fixture = Fixture::new(Major::V15).await;
    let (client, store) = (fixture.connect().await, fixture.open().await);
    hold(&store, &id("bad")).await;
    let tampered = "UPDATE semel.record SET takeovers = -1 WHERE key = 'bad'";
    client.batch_execute(&fixture.sql(tampered)).await.unwrap();
    let bad = ask(&id("bad"));
    let others: Vec<_> = (0..64).map(|n| ask(&id(&format!("k{n}")))).collect();
    let beside = futures_util::future::join_all(others.iter().map(|ask| claim(&store, ask)));
    let (bad, beside) = tokio::join!(claim(&store, &bad), beside);
    assert_eq!(bad.unwrap_err().kind(), StoreErrorKind::Damaged);
    for answer in beside {
        granted(answer.unwrap());
    }
}
