//! The great run: 24 writers, a relay that is killed again and again, and nothing is lost, invented or
//! out of order. Ten minutes and more are asked for by `SEMEL_TEST_SECONDS`.

use std::time::Duration;

use tokio::{sync::watch, time::Instant};

use super::{
    Shop, baselines,
    child::Child,
    run_for,
    writers::{self, Writing},
};

const WRITING: Writing = Writing { writers: 24, aggregates: 200, pause: Duration::from_millis(10) };

/// M01, M02, M04, M32: while a relay is killed over and over, what was delivered is what was
/// committed, each event of an aggregate first after those before it; two other ways to read the
/// same table do not hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_killed_what_was_committed_is_delivered_in_order() {
    let shop = Shop::open(WRITING.aggregates).await;
    let run = run_for(30);
    let kill_every = if run > Duration::from_secs(60) { 20 } else { 6 };
    let until = Instant::now() + run;
    let (stop, stopped) = watch::channel(false);
    let behind = baselines::behind_the_last(&shop, stopped.clone());
    let below = baselines::below_the_oldest_open(&shop, stopped);
    let writing = writers::write(&shop, WRITING).await;
    let (mut child, mut kills) = (Child::start(&shop), 0);
    while Instant::now() + Duration::from_secs(kill_every) < until {
        // How often it is killed is the trouble that the run is made of.
        tokio::time::sleep(Duration::from_secs(kill_every)).await;
        child.process.kill();
        kills += 1;
        child = Child::start(&shop);
    }
    tokio::time::sleep_until(until).await;
    writers::end(&shop, writing).await;
    stop.send_replace(true);
    shop.until_all_arrived().await;
    child.process.kill();
    shop.note_arrivals();
    let judgement = shop.deliveries.judge();
    println!("{kills} kills: {judgement}");
    let (behind, below) = (behind.await.unwrap(), below.await.unwrap());
    let by_position = shop.deliveries.judge_other(&behind.copies);
    println!("id > last: {by_position}");
    let by_watermark = shop.deliveries.judge_other(&below.copies);
    println!("below the oldest open, stalled for {:?}: {by_watermark}", below.stalled);
    assert_eq!(judgement.flaws, []);
    assert_eq!(judgement.delivered, judgement.committed);
    assert!(kills > 1 && judgement.committed > 1_000, "{judgement}");
    assert!(by_position.lost() > 0, "a cursor over positions loses what commits late");
    assert!(by_watermark.inverted() > 0, "a watermark goes by the order in which ids were drawn");
    assert!(below.stalled > Duration::from_secs(1), "a watermark waits for whoever is open");
}
