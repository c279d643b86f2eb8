//! Two relays, of which the one that leads is frozen past its lease and goes on.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    Shop,
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
