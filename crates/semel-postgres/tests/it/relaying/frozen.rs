//! Two relays, of which the one that leads is frozen past its lease and goes on.

use std::time::Duration;

use semel_testkit::servers::{TcpProxy, Towards};
use tokio::time::Instant;

use super::{
    PATIENCE, Shop,
    child::Child,
    run_for,
    writers::{self, Writing},
};

const WRITING: Writing = Writing { writers: 8, aggregates: 50, pause: Duration::from_millis(5) };
const EPOCH: &str = "SELECT max(epoch) FROM semel.outbox_cursor WHERE destination = 'receiver'";

/// M16: a leader that froze past its lease finds that another leads: what it had in hand is settled
/// by the other alone, and what arrives twice has one id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_froze_settles_nothing() {
    let shop = Shop::open(WRITING.aggregates).await;
    let until = Instant::now() + run_for(15);
    let writing = writers::write(&shop, WRITING).await;
    let (mut leader, mut other) = (Child::start(&shop), Child::start(&shop));
    let (mut freezes, mut late) = (0, 0);
    while freezes < 2 || Instant::now() < until {
        let either = Instant::now() + Duration::from_secs(60);
        while !leader.said().leading {
            assert!(Instant::now() < either, "nobody leads");
            // Polled with the deadline above.
            tokio::time::sleep(Duration::from_millis(10)).await;
            std::mem::swap(&mut leader, &mut other);
        }
        let epoch = shop.number(EPOCH).await;
        shop.until_more_arrive(20).await;
        leader.process.freeze();
        let before = leader.said();
        other.until("taken over", |said| said.leading).await;
        assert!(shop.number(EPOCH).await > epoch);
        // The new leader is past what the frozen one had in hand.
        shop.until_more_arrive(20).await;
        leader.process.signal("CONT");
        leader.until("overtaken", |said| said.lost > before.lost && !said.leading).await;
        late += leader.said().late - before.late;
        freezes += 1;
        std::mem::swap(&mut leader, &mut other);
    }
    writers::end(&shop, writing).await;
    shop.until_all_arrived().await;
    shop.note_arrivals();
    let judgement = shop.deliveries.judge();
    println!("{freezes} freezes, {late} settlements refused: {judgement}");
    assert_eq!(judgement.flaws, []);
}

/// The last row of the cursor, but for what a lease changes.
const CURSOR: &str =
    "SELECT concat_ws(' ', seq, epoch, pass, is_open, settled) FROM semel.outbox_cursor
    WHERE destination = 'receiver' ORDER BY seq DESC LIMIT 1";

/// M16, M20: a settlement that was on its way when its leader froze, and reaches the database when
/// another leads, is refused by its epoch: it moves nothing, and nothing is lost or out of order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settlement_of_a_leader_that_froze_is_refused_by_its_epoch() {
    let shop = Shop::open(WRITING.aggregates).await;
    let way = TcpProxy::start(shop.server.address()).await;
    let frozen = Child::start_by(&shop, &way.through(&shop.server.url()));
    frozen.until("leading", |said| said.leading).await;
    let other = Child::start(&shop);
    let writing = writers::write(&shop, WRITING).await;
    shop.until_more_arrive(50).await;
    let before = shop.number(EPOCH).await;
    let mut on_its_way = way.hold_from("outbox_settle");
    tokio::time::timeout(PATIENCE, on_its_way.sprung()).await.expect("it settles");
    frozen.process.freeze();
    other.until("taken over", |said| said.leading).await;
    shop.until_more_arrive(50).await;
    // Nobody else moves the cursor while what was on its way arrives.
    other.process.freeze();
    let cursor = shop.server.run_sql(CURSOR).await;
    let now = shop.server.run_sql("SELECT clock_timestamp()").await;
    way.let_go(Towards::Server);
    let left = format!(
        "SELECT 1 - least(1, count(*)) FROM pg_stat_activity WHERE state = 'idle'
            AND query LIKE '%outbox_settle%' AND state_change > '{}'",
        now.trim()
    );
    shop.until_none(&left).await;
    assert_eq!(shop.server.run_sql(CURSOR).await, cursor, "it was settled");
    assert!(shop.number(EPOCH).await > before);
    frozen.process.signal("CONT");
    frozen.until("overtaken", |said| said.lost > 0).await;
    other.process.signal("CONT");
    writers::end(&shop, writing).await;
    shop.until_all_arrived().await;
    shop.note_arrivals();
    let judgement = shop.deliveries.judge();
    println!("{judgement}");
    assert_eq!(judgement.flaws, []);
}
