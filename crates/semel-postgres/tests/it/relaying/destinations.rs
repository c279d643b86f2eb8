//! Destinations that fare differently, and aggregates that do.

use std::{sync::Arc, time::Duration};

use semel::{
    outbox::{
        Destination, Lane, OutboxInspect, OutboxRetain, ParkedState,
        relay::{Relay, RelayDestination, RelayPolicy},
        store::ParkedFilter,
    },
    store::Actor,
};
use semel_testkit::receiver::{Receiver, Trouble};
use tokio::time::Instant;

use super::{
    Shop, child, copy,
    writers::{self, Writing},
};

const WRITING: Writing = Writing { writers: 4, aggregates: 20, pause: Duration::from_millis(5) };

async fn written(shop: &Shop, seconds: u64) {
    let writing = writers::write(shop, WRITING).await;
    // How long is written is the load of a test.
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    writers::end(shop, writing).await;
}

/// Of two destinations one is dead: the other has everything, and it is told that the dead one
/// holds events up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_destination_holds_up_nothing_but_its_own() {
    let shop = Shop::open(WRITING.aggregates).await;
    let dead = Receiver::listen().await;
    dead.trouble(Trouble::Away);
    let store = shop.store().await;
    let named = |name, receiver: &Receiver| {
        let publisher = child::publisher(receiver.address());
        RelayDestination::new(Destination::new(name).unwrap(), publisher)
    };
    let relay = Relay::builder(store.clone())
        .policy(child::policy())
        .destination(named("alive", &shop.receiver))
        .destination(named("dead", &dead))
        .start()
        .unwrap();
    written(&shop, 2).await;
    shop.until_all_arrived().await;
    shop.note_arrivals();
    let judgement = shop.deliveries.judge();
    assert_eq!((judgement.flaws, dead.count()), (vec![], 0));
    let health = relay.destinations();
    assert!(health[1].stats.turned_away > 0 && health[0].stats.turned_away == 0, "{health:?}");
    assert_eq!(health[1].stats.parked, 0);
    let why = until_held_up(&store).await;
    assert!(why.contains("dead"), "{why}");
    assert!(shop.number("SELECT count(*) FROM semel.outbox").await > 0);
    dead.mend().await;
    let all = shop.deliveries.committed_count();
    tokio::time::timeout(super::PATIENCE, dead.until(|arrived| arrived.len() >= all))
        .await
        .unwrap();
    let copies: Vec<_> = dead.arrived().iter().map(copy).collect();
    assert_eq!(shop.deliveries.judge_other(&copies).flaws, []);
    assert!(relay.close(Duration::from_secs(20)).await);
}

/// Of two destinations one is dead: the other keeps its pace, and it is told which one keeps which
/// partition, since when; when it is there again, partitions are dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_destination_costs_the_other_no_time_and_is_told_of() {
    let shop = Shop::open(WRITING.aggregates).await;
    let dead = Receiver::listen().await;
    let store = shop.store().await;
    let named = |name, receiver: &Receiver| {
        let publisher = child::publisher(receiver.address());
        RelayDestination::new(Destination::new(name).unwrap(), publisher)
    };
    let mut policy = child::policy();
    (policy.keep_for, policy.retain_every) =
        (Duration::from_millis(100), Duration::from_millis(20));
    policy.oldest_max = Duration::from_secs(1);
    let relay = Relay::builder(store.clone())
        .policy(policy)
        .retain(store.clone())
        .destination(named("alive", &shop.receiver))
        .destination(named("dead", &dead))
        .start()
        .unwrap();
    let with_both = pace(&shop).await;
    dead.trouble(Trouble::Away);
    let with_one = pace(&shop).await;
    println!("from commit to arrival with both {with_both:?}, with one {with_one:?}");
    assert!(with_one < with_both * 3 + Duration::from_millis(20), "{with_one:?}, {with_both:?}");
    let deadline = Instant::now() + super::PATIENCE;
    let why = loop {
        let told = relay.retention_held_up().filter(|why| why.contains("dead"));
        let unready = relay.unready().iter().any(|why| why.to_string().contains("for dead wait"));
        if let (Some(why), true) = (told, unready) {
            break why;
        }
        assert!(
            Instant::now() < deadline,
            "{:?}, {:?}",
            relay.retention_held_up(),
            relay.unready()
        );
        // Polled with the deadline above.
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(why.contains("the partition outbox_p") && why.contains("since 20"), "{why}");
    let dropped = relay.dropped();
    dead.mend().await;
    while relay.dropped() == dropped || relay.retention_held_up().is_some() {
        assert!(Instant::now() < deadline, "{:?}", relay.retention_held_up());
        // Polled with the deadline above.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(relay.close(Duration::from_secs(20)).await);
}

/// How long an event takes from its commit to its arrival: the median of some, one after the other.
async fn pace(shop: &Shop) -> Duration {
    let client = super::connect(&shop.server.url()).await;
    let publish = "SELECT semel.publish('order', '1', 'Changed', '\\x31'::bytea)";
    let mut took = Vec::new();
    for _ in 0..40 {
        let before = shop.receiver.count();
        let began = Instant::now();
        client.batch_execute(publish).await.unwrap();
        let arrives = shop.receiver.until(|arrived| arrived.len() > before);
        tokio::time::timeout(super::PATIENCE, arrives).await.expect("it arrives");
        took.push(began.elapsed());
    }
    took.sort_unstable();
    took[took.len() / 2]
}

/// M40: an event that is refused for its own sake parks its aggregate, in order, and nobody else's;
/// when an operator says so the aggregate goes on where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poisoned_aggregate_waits_in_order_and_others_flow() {
    let shop = Shop::open(WRITING.aggregates).await;
    let poisoned = Lane::new("order", "7").unwrap();
    shop.receiver.refuse(&poisoned, true);
    let store = shop.store().await;
    let mut policy: RelayPolicy = child::policy();
    (policy.attempts_max, policy.failing_for) = (3, Duration::ZERO);
    policy.retry_first = Duration::from_millis(10);
    let destination =
        RelayDestination::new(child::destination(), child::publisher(shop.receiver.address()));
    let relay = Relay::builder(store.clone()).policy(policy).destination(destination).start();
    let relay = relay.unwrap();
    written(&shop, 2).await;
    let waiting = "SELECT count(*) FROM semel.outbox WHERE aggregateid = '7'";
    let waiting = usize::try_from(shop.number(waiting).await).unwrap();
    let others = shop.deliveries.committed_count() - waiting;
    tokio::time::timeout(super::PATIENCE, shop.receiver.until(|now| now.len() >= others))
        .await
        .expect("others flow");
    let filter = ParkedFilter { lane: Some(poisoned.clone()), limit: 10_000, ..Default::default() };
    let parked = until_parked(&store, &filter, waiting).await;
    assert!(parked.is_sorted_by(|one, next| one.placed.pos < next.placed.pos));
    assert_eq!(parked[0].state, ParkedState::Failed);
    assert!(parked[1..].iter().all(|row| row.state == ParkedState::Behind));
    assert!(!shop.receiver.arrived().iter().any(|arrived| arrived.lane == poisoned));
    shop.receiver.refuse(&poisoned, false);
    let actor = Actor { name: "ada".into(), note: "the receiver was mended".into() };
    let marked = store.mark(child::destination(), vec![parked[0].seq], ParkedState::Retry, actor);
    assert_eq!(marked.await.unwrap(), 1);
    shop.until_all_arrived().await;
    shop.note_arrivals();
    assert_eq!(shop.deliveries.judge().flaws, []);
    assert!(relay.close(Duration::from_secs(20)).await);
    assert_eq!(shop.number("SELECT count(*) FROM semel.outbox_parked").await, 0);
}

/// Does steps of retention until one says what holds events up.
async fn until_held_up(store: &Arc<semel_postgres::PostgresStore>) -> Box<str> {
    for _ in 0..100 {
        if let Some(why) = store.retain(Duration::ZERO).await.unwrap().held_up {
            return why;
        }
    }
    panic!("nothing is ever held up")
}

async fn until_parked(
    store: &Arc<semel_postgres::PostgresStore>,
    filter: &ParkedFilter,
    wanted: usize,
) -> Vec<semel::outbox::Parked> {
    let deadline = Instant::now() + super::PATIENCE;
    loop {
        let parked = store.parked(filter.clone()).await.unwrap();
        if parked.len() == wanted {
            return parked;
        }
        assert!(Instant::now() < deadline, "{} of {wanted} are parked", parked.len());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
