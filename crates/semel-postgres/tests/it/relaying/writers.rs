//! Writers of an application: each transaction writes an aggregate and appends an event of it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use semel::{
    SystemClock,
    entropy::SystemEntropy,
    outbox::{Event, EventId, Lane},
};
use semel_postgres::transact::Transact;
use semel_testkit::Deliveries;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use super::{Shop, connect, setting};

/// How writers write.
#[derive(Clone, Copy)]
pub(super) struct Writing {
    pub(super) writers: usize,
    pub(super) aggregates: usize,
    /// How long each pauses between two transactions.
    pub(super) pause: Duration,
}

/// Draws numbers that only depend on the seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// How a transaction goes: half of them touch another table first, one in 500 stays open for 2 s with
/// all that it locked, so many of a hundred are rolled back.
struct Course {
    aggregate: i32,
    other_first: bool,
    stays_open: bool,
    rolls_back: bool,
}

impl Course {
    fn draw(dice: &mut Dice, aggregates: usize, rolled_back: u64) -> Self {
        Self {
            aggregate: i32::try_from(dice.below(aggregates as u64)).unwrap(),
            other_first: dice.below(2) == 0,
            stays_open: dice.below(500) == 0,
            rolls_back: dice.below(100) < rolled_back,
        }
    }
}

/// Starts writers that go on until the shop is closed. `SEMEL_TEST_WRITERS` says how many, and
/// `SEMEL_TEST_ROLLED_BACK` how many of a hundred transactions are rolled back.
pub(super) async fn write(shop: &Shop, writing: Writing) -> Vec<JoinHandle<()>> {
    let url = shop.server.url();
    let transact = Transact::loader().load(&connect(&url).await).await.unwrap();
    let seed = u64::from(std::process::id());
    let writers = setting("SEMEL_TEST_WRITERS", writing.writers as u64);
    let rolled_back = setting("SEMEL_TEST_ROLLED_BACK", 5);
    println!("seed {seed}, {writers} writers, {rolled_back} of 100 rolled back");
    let writer = |n: u64| {
        let (url, transact, closed) = (url.clone(), transact.clone(), shop.closed.clone());
        let deliveries = Arc::clone(&shop.deliveries);
        tokio::spawn(async move {
            let mut client = connect(&url).await;
            let mut dice = Dice(seed.wrapping_mul(1_000) + n);
            while !closed.is_cancelled() {
                let course = Course::draw(&mut dice, writing.aggregates, rolled_back);
                transaction(&mut client, &transact, &deliveries, course).await;
                // The writers' pace: a load of the test, which nothing waits for.
                tokio::time::sleep(writing.pause).await;
            }
        })
    };
    (0..writers).map(writer).collect()
}

async fn transaction(
    client: &mut Client,
    transact: &Transact,
    deliveries: &Deliveries,
    course: Course,
) {
    let mut tx = client.transaction().await.unwrap();
    if course.other_first {
        tx.execute("INSERT INTO other (writer) VALUES ($1)", &[&course.aggregate]).await.unwrap();
    }
    let number = "UPDATE aggregate SET number = number + 1 WHERE id = $1 RETURNING number";
    let number: i64 = tx.query_one(number, &[&course.aggregate]).await.unwrap().get(0);
    let id = EventId::new(&SystemClock::new(), &SystemEntropy);
    let lane = Lane::new("order", course.aggregate.to_string()).unwrap();
    deliveries.appended(id, &lane, u64::try_from(number).unwrap());
    let event = Event::new(id, lane, "Changed", Some(Bytes::from(number.to_string()))).unwrap();
    transact.publish(&mut tx, vec![event]).await.unwrap();
    if course.stays_open {
        // That it stays open for a while is what makes its commit late.
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    if course.rolls_back {
        tx.rollback().await.unwrap();
        deliveries.rolled_back(id);
    } else {
        tx.commit().await.unwrap();
        deliveries.committed(id);
    }
}

/// Closes the shop, and waits until every writer has ended.
pub(super) async fn end(shop: &Shop, writers: Vec<JoinHandle<()>>) {
    shop.closed.cancel();
    for writer in writers {
        writer.await.unwrap();
    }
}
