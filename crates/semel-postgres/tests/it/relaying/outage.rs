//! A destination that is away for long while the application goes on.

use std::time::Duration;

use semel_testkit::receiver::Trouble;

use super::{
    Shop,
    child::Child,
    run_for,
    writers::{self, Writing},
};

const WRITING: Writing = Writing { writers: 8, aggregates: 100, pause: Duration::from_millis(20) };
/// What a relay may have in memory, of which most is the program itself.
const MEMORY_MAX_KIB: u64 = 200 * 1024;
/// What spent an attempt, or waits for an operator. A lane whose last send nobody can say of may be set
/// aside: it goes on by itself.
const SPENT: &str =
    "SELECT count(*) FROM semel.outbox_parked WHERE attempts > 0 OR state <> 'behind'";

/// M38, M43: a destination that is away under load spends no attempt and no memory: nothing waits for an
/// operator, and all of it is delivered when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_spends_no_attempt_and_no_memory() {
    let shop = Shop::open(WRITING.aggregates).await;
    let run = run_for(30);
    let child = Child::start(&shop);
    let writing = writers::write(&shop, WRITING).await;
    shop.until_more_arrive(50).await;
    shop.receiver.trouble(Trouble::Away);
    child.until("turned away", |said| said.turned_away > 0).await;
    // How long it stays away is the load of this test.
    tokio::time::sleep(run).await;
    writers::end(&shop, writing).await;
    let committed = shop.deliveries.committed_count();
    let (said, memory) = (child.said(), child.memory());
    println!("{committed} committed by its return, {memory} KiB, {said:?}");
    assert!(shop.receiver.count() < committed, "it was away");
    assert_eq!(said.refused, 0);
    assert!(said.in_hand <= 10_000 && memory < MEMORY_MAX_KIB, "{memory} KiB, {said:?}");
    assert_eq!(shop.number(SPENT).await, 0);
    shop.receiver.mend().await;
    shop.until_all_arrived().await;
    // What was set aside goes when its arrival is settled, which comes after it.
    shop.until_none("SELECT count(*) FROM semel.outbox_parked").await;
    shop.note_arrivals();
    let judgement = shop.deliveries.judge();
    println!("{judgement}");
    assert_eq!(judgement.flaws, []);
}
