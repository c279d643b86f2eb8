//! The order of commits, as replication slots tell it.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use semel::outbox::{
    Destination, Lead, Leader, Led, OutboxInspect, OutboxStore, Park, ParkedState, Settle, Settled,
    Start, Window,
};
use semel_postgres::{PostgresStore, SlotOutbox};
use semel_testkit::{
    conformance::MoveTime as _,
    servers::{Major, Postgres},
};
use tokio::{sync::OnceCell, task::JoinHandle};

use crate::fixture::Fixture;

/// A schema in a server that all these tests share, which keeps what slots need.
pub(super) async fn logical() -> Fixture {
    static SERVER: OnceCell<Postgres> = OnceCell::const_new();
    let start = || {
        let builder = Postgres::builder(Major::V15).setting("wal_level", "logical");
        builder.setting("max_replication_slots", "300").start()
    };
    let server = SERVER.get_or_init(start).await;
    let fixture = Fixture::of_server(server);
    PostgresStore::migrate(&fixture.builder()).await.unwrap();
    fixture
}

fn destination() -> Destination {
    Destination::new("orders").unwrap()
}

async fn lead(outbox: &SlotOutbox) -> Leader {
    let lead = Lead {
        destination: destination(),
        owner: "a test".into(),
        lease: Duration::from_secs(60),
        start: Start::Earliest,
    };
    match outbox.lead(lead).await.unwrap() {
        Led::Leader(leader) => leader,
        Led::Follower { owner, .. } => panic!("{owner} leads"),
    }
}

async fn outbox(fixture: &Fixture) -> SlotOutbox {
    Arc::new(fixture.open().await).outbox_by_slots()
}

async fn publish(client: &tokio_postgres::Client, fixture: &Fixture, ids: &[&str]) {
    let publish = fixture.sql("SELECT semel.publish('order', $1, 'Placed', NULL)");
    for id in ids {
        client.execute(&publish, &[id]).await.unwrap();
    }
}

async fn read(outbox: &SlotOutbox, leader: &Leader) -> Window {
    outbox.read(leader.clone(), None, 1_000, 1 << 20).await.unwrap()
}

fn ids(window: &Window) -> Vec<&str> {
    window.events.iter().map(|placed| placed.event.lane.id()).collect()
}

/// Says that all of a window is done.
fn done(leader: &Leader, window: &Window) -> Settle {
    Settle {
        destination: leader.destination.clone(),
        epoch: leader.epoch,
        upto: window.pass.map(|pass| (pass, window.upto)),
        ends: window.ends,
        park: Vec::new(),
        unpark: Vec::new(),
    }
}

/// Where the slot of the destination is.
async fn confirmed(fixture: &Fixture, outbox: &SlotOutbox) -> String {
    let ask = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1";
    let name = outbox.slot_name(&destination());
    fixture.connect().await.query_one(ask, &[&name]).await.unwrap().get(0)
}

#[tokio::test]
async fn events_leave_in_the_order_of_their_commits() {
    let fixture = logical().await;
    let outbox = outbox(&fixture).await;
    let leader = lead(&outbox).await;
    let (slow, fast) = (fixture.connect().await, fixture.connect().await);
    slow.batch_execute("BEGIN").await.unwrap();
    publish(&slow, &fixture, &["a", "b"]).await;
    publish(&fast, &fixture, &["c"]).await;
    slow.batch_execute("COMMIT").await.unwrap();
    publish(&fast, &fixture, &["d"]).await;
    let window = read(&outbox, &leader).await;
    assert_eq!(ids(&window), ["c", "a", "b", "d"]);
    assert!(window.ends);
    assert_eq!(outbox.missed(), 0);
    let half = outbox.read(leader.clone(), None, 2, 1 << 20).await.unwrap();
    assert_eq!((ids(&half), half.ends), (vec!["c", "a"], false));
    let after = half.pass.map(|pass| (pass, half.upto));
    let rest = outbox.read(leader.clone(), after, 2, 1 << 20).await.unwrap();
    assert_eq!((ids(&rest), rest.ends), (vec!["b", "d"], true));
    assert_eq!(outbox.settle(done(&leader, &rest)).await.unwrap(), Settled::Stored);
    assert_eq!(read(&outbox, &leader).await.pass, None);
}

/// M97: what was received and not settled comes again.
#[tokio::test]
async fn a_slot_is_confirmed_only_after_what_it_told_is_settled() {
    let fixture = logical().await;
    let first = outbox(&fixture).await;
    let leader = lead(&first).await;
    let client = fixture.connect().await;
    publish(&client, &fixture, &["a", "b"]).await;
    let before = confirmed(&fixture, &first).await;
    let window = read(&first, &leader).await;
    assert_eq!(ids(&window), ["a", "b"]);
    // Gone after it read, and before it settled: it comes again.
    first.resign(leader).await.unwrap();
    drop(first);
    let second = outbox(&fixture).await;
    assert_eq!(confirmed(&fixture, &second).await, before);
    let leader = lead(&second).await;
    let again = read(&second, &leader).await;
    let events =
        |window: &Window| window.events.iter().map(|placed| placed.event.id).collect::<Vec<_>>();
    assert_eq!(events(&again), events(&window));
    assert_eq!(second.settle(done(&leader, &again)).await.unwrap(), Settled::Stored);
    assert_ne!(confirmed(&fixture, &second).await, before);
    // Settled and not confirmed by the slot: it does not come again either.
    publish(&client, &fixture, &["c"]).await;
    assert_eq!(ids(&read(&second, &leader).await), ["c"]);
}

/// M95: a slot that was made anew is compared with the table, and what it lost is read there.
#[tokio::test]
async fn what_a_slot_lost_is_read_from_the_table_and_told() {
    let fixture = logical().await;
    let first = outbox(&fixture).await;
    let leader = lead(&first).await;
    let client = fixture.connect().await;
    let many: Vec<String> = (0..100).map(|number| format!("order-{number:03}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    publish(&client, &fixture, &many).await;
    first.forget_slot(&destination()).await.unwrap();
    // Without a slot nothing waits: the table has them.
    assert_eq!(ids(&read(&first, &leader).await), many);
    first.resign(leader).await.unwrap();
    // The next leader makes it anew, behind all that waits.
    let second = outbox(&fixture).await;
    let leader = lead(&second).await;
    let window = read(&second, &leader).await;
    assert_eq!(ids(&window), many);
    // Only now it is certain that the slot is there: what comes earlier may be lost with the others.
    publish(&client, &fixture, &["last"]).await;
    second.settle(done(&leader, &window)).await.unwrap();
    assert_eq!(second.missed(), 100);
    let window = read(&second, &leader).await;
    assert_eq!(ids(&window), ["last"]);
    assert_eq!(second.missed(), 100);
}

/// M95: a slot that is lost again and again while others append loses nothing, and repeats nothing that
/// was settled.
#[tokio::test(flavor = "multi_thread")]
async fn slots_lost_under_load_lose_and_repeat_nothing() {
    const EACH: usize = 150;
    const LOSSES: usize = 2;
    let fixture = logical().await;
    let outbox = outbox(&fixture).await;
    let (lost, appended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let (fixture, lost, appended) = (fixture.clone(), lost.clone(), appended.clone());
            tokio::spawn(async move {
                let client = fixture.connect().await;
                let under_load = |number| number < EACH || lost.load(Relaxed) <= LOSSES;
                for number in (0..).take_while(|number| under_load(*number)) {
                    // Some are open for a while, so that commits come in another order than positions.
                    client.batch_execute("BEGIN").await.unwrap();
                    publish(&client, &fixture, &[&format!("{writer}-{number}")]).await;
                    if number % 10 == writer {
                        client.query_one("SELECT pg_sleep(0.02)", &[]).await.unwrap();
                    }
                    client.batch_execute("COMMIT").await.unwrap();
                    appended.fetch_add(1, Relaxed);
                }
            })
        })
        .collect();
    let mut seen = Vec::new();
    let is_over =
        |seen: usize| writers.iter().all(JoinHandle::is_finished) && seen >= appended.load(Relaxed);
    while !is_over(seen.len()) {
        let leader = lead(&outbox).await;
        for _ in 0..3 {
            let window = read(&outbox, &leader).await;
            seen.extend(ids(&window).into_iter().map(str::to_owned));
            if window.pass.is_some() {
                assert_eq!(outbox.settle(done(&leader, &window)).await.unwrap(), Settled::Stored);
            }
        }
        outbox.forget_slot(&destination()).await.unwrap();
        let losses = lost.fetch_add(1, Relaxed);
        outbox.resign(leader).await.unwrap();
        assert!(losses < 10_000, "{} of {appended:?} came", seen.len());
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let distinct: HashSet<_> = seen.iter().collect();
    assert_eq!((seen.len(), distinct.len()), (appended.load(Relaxed), seen.len()));
    assert!(outbox.missed() > 0, "{lost:?} slots, none missed anything");
}

#[tokio::test]
async fn what_is_parked_is_the_event_that_was_read_there() {
    let fixture = logical().await;
    let outbox = outbox(&fixture).await;
    let leader = lead(&outbox).await;
    let (slow, fast) = (fixture.connect().await, fixture.connect().await);
    slow.batch_execute("BEGIN").await.unwrap();
    publish(&slow, &fixture, &["slow"]).await;
    publish(&fast, &fixture, &["fast"]).await;
    slow.batch_execute("COMMIT").await.unwrap();
    let window = read(&outbox, &leader).await;
    assert_eq!(ids(&window), ["fast", "slow"]);
    let mut settle = done(&leader, &window);
    settle.park.push(Park {
        placed: window.events[0].clone(),
        state: ParkedState::Failed,
        attempts: 3,
        why: "it was refused".into(),
    });
    assert_eq!(outbox.settle(settle).await.unwrap(), Settled::Stored);
    let store = fixture.open().await;
    let parked = OutboxInspect::parked(
        &store,
        semel::outbox::store::ParkedFilter { limit: 10, ..Default::default() },
    );
    let parked = parked.await.unwrap();
    assert_eq!(parked.len(), 1);
    assert_eq!(parked[0].placed.event.id, window.events[0].event.id);
}

#[tokio::test]
async fn a_server_that_keeps_nothing_for_slots_is_read_by_positions() {
    let fixture = Fixture::new(Major::V17).await;
    let outbox = outbox(&fixture).await;
    let leader = lead(&outbox).await;
    let client = fixture.connect().await;
    publish(&client, &fixture, &["a", "b"]).await;
    let window = read(&outbox, &leader).await;
    assert_eq!(ids(&window), ["a", "b"]);
    assert_eq!(outbox.settle(done(&leader, &window)).await.unwrap(), Settled::Stored);
}

#[tokio::test]
async fn a_backlog_too_long_to_order_is_read_whole() {
    let fixture = logical().await;
    let outbox = outbox(&fixture).await;
    let leader = lead(&outbox).await;
    let client = fixture.connect().await;
    let many = i64::try_from(SlotOutbox::ORDERED_MAX).unwrap() + 100;
    let insert = "INSERT INTO semel.outbox (aggregatetype, aggregateid, type)
        SELECT 'order', n::text, 'Placed' FROM generate_series(1, $1::bigint) AS n";
    client.execute(&fixture.sql(insert), &[&many]).await.unwrap();
    let (mut after, mut seen) = (None, HashSet::new());
    loop {
        let window = outbox.read(leader.clone(), after, 10_000, 64 << 20).await.unwrap();
        seen.extend(window.events.iter().map(|placed| placed.event.id));
        // What is left becomes short enough to be ordered on the way: the pass goes on as it began.
        assert_eq!(outbox.settle(done(&leader, &window)).await.unwrap(), Settled::Stored);
        if window.ends {
            break;
        }
        after = window.pass.map(|pass| (pass, window.upto));
    }
    assert_eq!(i64::try_from(seen.len()).unwrap(), many);
    assert_eq!(read(&outbox, &leader).await.pass, None);
}

#[tokio::test]
async fn an_idle_slot_gives_the_log_back_that_others_write() {
    let fixture = logical().await;
    let time = fixture.moved_time().await;
    let outbox = outbox(&fixture).await;
    let leader = lead(&outbox).await;
    let client = fixture.connect().await;
    publish(&client, &fixture, &["a"]).await;
    let window = read(&outbox, &leader).await;
    outbox.settle(done(&leader, &window)).await.unwrap();
    // One that has appended and is still open: the slot stays before it.
    let open = fixture.connect().await;
    open.batch_execute("BEGIN").await.unwrap();
    publish(&open, &fixture, &["late"]).await;
    let place = "SELECT pg_current_wal_lsn()::text";
    let other = "CREATE TABLE semel.other AS SELECT generate_series(1, 1000) AS n";
    client.batch_execute(&fixture.sql(other)).await.unwrap();
    let written: String = client.query_one(place, &[]).await.unwrap().get(0);
    let passed = format!(
        "SELECT confirmed_flush_lsn >= '{written}' FROM pg_replication_slots WHERE slot_name = '{}'",
        outbox.slot_name(&destination())
    );
    let deadline = Instant::now() + Duration::from_secs(60);
    while !client.query_one(&passed, &[]).await.unwrap().get::<_, bool>(0) {
        assert!(Instant::now() < deadline, "the slot stays behind {written}");
        time.advance(Duration::from_secs(11)).await;
        assert_eq!(read(&outbox, &leader).await.pass, None);
    }
    open.batch_execute("COMMIT").await.unwrap();
    assert_eq!(ids(&read(&outbox, &leader).await), ["late"]);
    assert_eq!(outbox.missed(), 0);
}

/// Says whether the slot of the destination is there.
async fn is_there(fixture: &Fixture, outbox: &SlotOutbox) -> bool {
    let there = "SELECT EXISTS (
        SELECT FROM pg_replication_slots WHERE slot_name = $1 AND confirmed_flush_lsn IS NOT NULL
    )";
    let name = outbox.slot_name(&destination());
    fixture.connect().await.query_one(there, &[&name]).await.unwrap().get(0)
}

/// Publishes in one order and commits in another, and returns the order of commits.
async fn publish_crossed(fixture: &Fixture) -> [&'static str; 2] {
    let (slow, fast) = (fixture.connect().await, fixture.connect().await);
    slow.batch_execute("BEGIN").await.unwrap();
    publish(&slow, fixture, &["slow"]).await;
    publish(&fast, fixture, &["fast"]).await;
    slow.batch_execute("COMMIT").await.unwrap();
    ["fast", "slow"]
}

/// M95: a slot that is dropped under its leader is made anew by that leader, and the order of commits with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_is_dropped_under_its_leader_is_made_anew() {
    let fixture = logical().await;
    let time = fixture.moved_time().await;
    let outbox = outbox(&fixture).await;
    let leader = lead(&outbox).await;
    let client = fixture.connect().await;
    let settle = async |window: &Window| {
        assert_eq!(outbox.settle(done(&leader, window)).await.unwrap(), Settled::Stored);
    };
    // While events flow, and while none does.
    for flows in [true, false] {
        outbox.forget_slot(&destination()).await.unwrap();
        if flows {
            publish(&client, &fixture, &["a"]).await;
            let window = read(&outbox, &leader).await;
            assert_eq!(ids(&window), ["a"]);
            settle(&window).await;
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_there(&fixture, &outbox).await {
            assert!(Instant::now() < deadline, "nobody makes the slot anew");
            if !flows {
                time.advance(Duration::from_secs(11)).await;
                assert_eq!(read(&outbox, &leader).await.pass, None);
            }
        }
        let in_order = publish_crossed(&fixture).await;
        let window = read(&outbox, &leader).await;
        assert_eq!(ids(&window), in_order, "{flows}");
        settle(&window).await;
    }
    assert_eq!(outbox.missed(), 0);
}

/// A slot that another session reads is no reason to stop.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_another_session_reads_holds_nothing_up() {
    let fixture = logical().await;
    let outbox = outbox(&fixture).await;
    let leader = lead(&outbox).await;
    let client = fixture.connect().await;
    publish(&client, &fixture, &["a", "b"]).await;
    let name = outbox.slot_name(&destination());
    // Reads ever on what it is told, as pg_recvlogical does.
    let other = fixture.connect().await;
    let publication = format!("{}_other", fixture.schema);
    let publish_all = format!("CREATE PUBLICATION \"{publication}\" FOR TABLE semel.outbox");
    client.batch_execute(&fixture.sql(&publish_all)).await.unwrap();
    let keeps = format!(
        "SELECT pg_sleep(600) FROM pg_logical_slot_peek_binary_changes('{name}', NULL, NULL,
         'proto_version', '1', 'publication_names', '{publication}')"
    );
    let cancel = other.cancel_token();
    let keeping = tokio::spawn(async move { other.batch_execute(&keeps).await });
    let used = "SELECT active FROM pg_replication_slots WHERE slot_name = $1";
    let deadline = Instant::now() + Duration::from_secs(60);
    while !client.query_one(used, &[&name]).await.unwrap().get::<_, bool>(0)
        && !keeping.is_finished()
    {
        assert!(Instant::now() < deadline, "nobody reads the slot");
    }
    let window = read(&outbox, &leader).await;
    assert_eq!(ids(&window), ["a", "b"]);
    cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
    keeping.await.unwrap().unwrap_err();
    assert_eq!(outbox.settle(done(&leader, &window)).await.unwrap(), Settled::Stored);
    let in_order = publish_crossed(&fixture).await;
    assert_eq!(ids(&read(&outbox, &leader).await), in_order);
}

/// A slot is let go on no further than the log was on disk when it was read: a commit that reaches the disk
/// right behind would be skipped.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_is_let_go_on_skips_nothing_that_commits_meanwhile() {
    const ROUNDS: usize = 60;
    const EACH: usize = 6;
    let fixture = logical().await;
    let time = fixture.moved_time().await;
    let outbox = outbox(&fixture).await;
    let leader = lead(&outbox).await;
    let writers = ["off", "off", "on"].map(async |durably| {
        let client = fixture.connect().await;
        client.batch_execute(&format!("SET synchronous_commit = {durably}")).await.unwrap();
        client
    });
    let writers = join_all(writers).await;
    let mut seen = 0;
    for round in 1..=ROUNDS {
        time.advance(Duration::from_secs(11)).await;
        // Nothing waits, and so the slot is let go on.
        assert_eq!(read(&outbox, &leader).await.pass, None);
        let appends = writers.iter().map(async |client| {
            for _ in 0..EACH {
                publish(client, &fixture, &["meanwhile"]).await;
            }
        });
        join_all(appends).await;
        while seen < round * 3 * EACH {
            let window = read(&outbox, &leader).await;
            seen += window.events.len();
            assert_eq!(outbox.settle(done(&leader, &window)).await.unwrap(), Settled::Stored);
        }
    }
    assert_eq!((seen, outbox.missed()), (ROUNDS * 3 * EACH, 0));
}

#[tokio::test]
async fn a_slot_that_is_not_read_any_more_is_dropped_by_who_leads_without() {
    let fixture = logical().await;
    let by_slots = outbox(&fixture).await;
    let leader = lead(&by_slots).await;
    let slots = async || -> i64 {
        let count = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1";
        let name = by_slots.slot_name(&destination());
        fixture.connect().await.query_one(count, &[&name]).await.unwrap().get(0)
    };
    let by_table = fixture.open().await;
    let ask = || Lead {
        destination: destination(),
        owner: "another".into(),
        lease: Duration::from_secs(60),
        start: Start::Earliest,
    };
    assert!(matches!(by_table.lead(ask()).await.unwrap(), Led::Follower { .. }));
    assert_eq!(slots().await, 1, "its leader reads it");
    by_slots.resign(leader).await.unwrap();
    assert!(matches!(by_table.lead(ask()).await.unwrap(), Led::Leader(_)));
    assert_eq!(slots().await, 0);
}
