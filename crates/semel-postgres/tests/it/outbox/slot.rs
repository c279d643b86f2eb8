//! The order of commits, as replication slots tell it.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use semel::outbox::{
    Destination, Lead, Leader, Led, OutboxInspect, OutboxStore, Park, ParkedState, Settle, Settled,
    Start, Window,
};
use semel_postgres::{PostgresStore, SlotOutbox};
use semel_testkit::{
    conformance::MoveTime as _,
    servers::{Major, Postgres},
};
use tokio::sync::OnceCell;

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
    publish(&client, &fixture, &["last"]).await;
    let window = read(&second, &leader).await;
    assert_eq!(ids(&window), many);
    second.settle(done(&leader, &window)).await.unwrap();
    assert_eq!(second.missed(), 100);
    let window = read(&second, &leader).await;
    assert_eq!(ids(&window), ["last"]);
    assert_eq!(second.missed(), 100);
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
