//! What is committed is read, late or not; what is not, holds nobody up.

use std::collections::HashSet;

use semel::outbox::{Led, OutboxStore, Start};
use semel_testkit::servers::Major;

use super::steps::*;
use crate::fixture::Fixture;

/// M01, M04, M14: a transaction that drew its position first and commits last is neither lost nor waited
/// for, nor sent twice, also by a reader that opens anew in between.
#[tokio::test]
async fn a_slow_transaction_is_neither_lost_nor_waited_for() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let leader = lead(&fixture.open().await, "kafka").await;
        let (slow, quick) = (fixture.connect().await, fixture.connect().await);
        run(&slow, &fixture, &format!("BEGIN; {}", publish("1", "slow"))).await;
        run(&quick, &fixture, &publish("2", "quick")).await;
        assert_eq!(told(&drain(&fixture.open().await, &leader, 10).await), ["quick"]);
        run(&slow, &fixture, "COMMIT").await;
        assert_eq!(told(&drain(&fixture.open().await, &leader, 10).await), ["slow"]);
        assert!(drain(&fixture.open().await, &leader, 10).await.is_empty());
    }
}

/// A transaction that began last and has not ended has an id above all that a snapshot tells of.
#[tokio::test]
async fn the_newest_transaction_is_not_lost_either() {
    let fixture = Fixture::new(Major::V15).await;
    let store = fixture.open().await;
    let leader = lead(&store, "kafka").await;
    let (slow, quick) = (fixture.connect().await, fixture.connect().await);
    run(&quick, &fixture, &publish("2", "quick")).await;
    // Nothing ends between this and the snapshot.
    run(&slow, &fixture, &format!("BEGIN; {}", publish("1", "slow"))).await;
    assert_eq!(told(&drain(&store, &leader, 10).await), ["quick"]);
    run(&slow, &fixture, &format!("{} COMMIT", publish("1", "slow too"))).await;
    assert_eq!(told(&drain(&store, &leader, 10).await), ["slow", "slow too"]);
}

/// M05: two destinations that read by windows of different sizes get the same.
#[tokio::test]
async fn two_destinations_with_windows_of_their_own_get_the_same() {
    let fixture = Fixture::new(Major::V17).await;
    let store = fixture.open().await;
    let (one, other) = (lead(&store, "kafka").await, lead(&store, "webhooks").await);
    let (slow, quick) = (fixture.connect().await, fixture.connect().await);
    let (mut of_one, mut of_other) = (Vec::new(), Vec::new());
    for round in 0..4 {
        run(&slow, &fixture, &format!("BEGIN; {}", publish("1", &format!("slow {round}")))).await;
        for n in 0..5 {
            run(&quick, &fixture, &publish("2", &format!("{round} {n}"))).await;
        }
        of_one.extend(told(&drain(&store, &one, 1).await));
        if round % 2 == 0 {
            of_other.extend(told(&drain(&store, &other, 3).await));
        }
        run(&slow, &fixture, "COMMIT").await;
    }
    of_one.extend(told(&drain(&store, &one, 1).await));
    of_other.extend(told(&drain(&store, &other, 3).await));
    assert_eq!(of_one.len(), 24);
    of_one.sort();
    of_other.sort();
    assert_eq!(of_one, of_other);
}

/// What was rolled back to a savepoint never leaves; the rest of its transaction does.
#[tokio::test]
async fn a_rolled_back_savepoint_never_leaves() {
    let fixture = Fixture::new(Major::V18).await;
    let store = fixture.open().await;
    let leader = lead(&store, "kafka").await;
    let client = fixture.connect().await;
    let statements = format!(
        "BEGIN; {} SAVEPOINT a; {} ROLLBACK TO a; {} SAVEPOINT b; {} RELEASE b; COMMIT;
        BEGIN; {} ROLLBACK",
        publish("1", "first"),
        publish("1", "undone"),
        publish("1", "second"),
        publish("1", "third"),
        publish("1", "rolled back"),
    );
    run(&client, &fixture, &statements).await;
    assert_eq!(told(&drain(&store, &leader, 10).await), ["first", "second", "third"]);
}

/// M10, M11: a prepared transaction that is left open, and one that writes in another database, hold
/// nothing up but their own events.
#[tokio::test]
async fn what_is_left_open_holds_up_its_own_events_alone() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let store = fixture.open().await;
        let leader = lead(&store, "kafka").await;
        let (client, name) = (fixture.connect().await, format!("{}_open", fixture.schema));
        let prepare = format!("BEGIN; {} PREPARE TRANSACTION '{name}'", publish("1", "prepared"));
        run(&client, &fixture, &prepare).await;
        let elsewhere = fixture.server.database(&format!("{}_else", fixture.schema)).await;
        let (other, connection) =
            tokio_postgres::connect(&elsewhere, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        other.batch_execute("BEGIN; CREATE TABLE written (id int)").await.unwrap();
        for n in 0..3 {
            run(&client, &fixture, &publish("1", &n.to_string())).await;
            assert_eq!(told(&drain(&store, &leader, 10).await), [n.to_string()]);
        }
        run(&client, &fixture, &format!("COMMIT PREPARED '{name}'")).await;
        assert_eq!(told(&drain(&store, &leader, 10).await), ["prepared"]);
        other.batch_execute("ROLLBACK").await.unwrap();
    }
}

/// A destination that begins now gets what commits from now on, and nothing from before.
#[tokio::test]
async fn a_destination_that_begins_now_gets_what_commits_later() {
    let fixture = Fixture::new(Major::V15).await;
    let store = fixture.open().await;
    let (slow, quick) = (fixture.connect().await, fixture.connect().await);
    run(&quick, &fixture, &publish("1", "before")).await;
    run(&slow, &fixture, &format!("BEGIN; {}", publish("1", "open"))).await;
    let Led::Leader(leader) = store.lead(ask("kafka", Start::Now)).await.unwrap() else {
        panic!("nobody else leads")
    };
    assert_eq!(told(&drain(&store, &leader, 10).await), [""; 0]);
    run(&slow, &fixture, "COMMIT").await;
    run(&quick, &fixture, &publish("1", "after")).await;
    let mut all = told(&drain(&store, &leader, 10).await);
    all.sort();
    assert_eq!(all, ["after", "open"]);
}

/// Rows that an application wrote past the bounds are handed out as what they are, and others flow.
#[tokio::test]
async fn a_row_past_the_bounds_stops_nobody() {
    let fixture = Fixture::new(Major::V17).await;
    let store = fixture.open().await;
    let leader = lead(&store, "kafka").await;
    let client = fixture.connect().await;
    let insert =
        "INSERT INTO semel.outbox (aggregatetype, aggregateid, type, payload, headers) VALUES
        ('order', '1', 'Placed', 'good', '{\"a\": 1}'),
        ('order', '', 'Placed', 'bad', NULL),
        ('order', '1', E'a\\nb', 'bad', NULL),
        ('order', '1', 'Placed', 'bad', '[\"a\"]'),
        ('order', '1', 'Placed', decode(repeat('00', 1048577), 'hex'), NULL),
        ('order', repeat('x', 10000), 'Placed', 'bad', NULL),
        ('', '1', 'Placed', 'bad', NULL),
        ('order', '1', 'Placed', 'good', '[[\"a\", \"b\"]]')";
    run(&client, &fixture, insert).await;
    let placed = drain(&store, &leader, 10).await;
    let readable: Vec<_> = placed.iter().map(|placed| placed.unreadable.is_none()).collect();
    assert_eq!(readable, [true, false, false, false, false, false, false, true]);
    // By the type of its aggregate a destination is chosen: it is kept where it can be told.
    let kinds: Vec<_> = placed.iter().map(|placed| placed.event.lane.kind()).collect();
    assert_eq!(kinds[..6], ["order"; 6]);
    assert!(placed[6].is_of_no_kind() && !placed[1].is_of_no_kind());
    let lanes: HashSet<_> = placed[5..7].iter().map(|placed| &placed.event.lane).collect();
    assert!(!lanes.contains(&placed[0].event.lane) && lanes.len() == 2, "{lanes:?}");
    let header = |at: usize| (&*placed[at].event.headers[0].0, &*placed[at].event.headers[0].1);
    assert_eq!((header(0), header(7)), (("a", "1"), ("a", "b")));
}
