//! Messages that are known by their positions in a log.

use std::sync::Arc;

use semel::inbox::{By, Handled, InboxPolicy, InboxStore, LogId, Park, ParkAnswer};
use semel_postgres::inbox::Ran;
use semel_testkit::servers::Major;

use super::desk::{Desk, at, consumer, delivery, is_first, policy};
use crate::transact::pool::Pool;

fn by_positions() -> InboxPolicy {
    InboxPolicy { by: By::Positions, ..policy() }
}

async fn next(desk: &Desk) -> Option<u64> {
    let log = LogId::new("a").unwrap();
    desk.store.positions(consumer(), vec![log]).await.unwrap()[0]
}

#[tokio::test]
async fn a_position_moves_with_the_effect_and_only_forward() {
    for major in Major::ALL {
        let desk = Desk::with(major, by_positions()).await;
        let mut client = desk.connect().await;
        assert_eq!(next(&desk).await, None);
        for offset in [3, 4, 9, 9, 3, 4] {
            desk.handle(&mut client, &at(offset), None).await.map(drop).unwrap();
        }
        assert_eq!((next(&desk).await, desk.effects(None).await), (Some(10), 3), "{major}");
        assert_eq!(desk.number("SELECT count(*) FROM semel.inbox_position").await, 1);
        assert_eq!(desk.number("SELECT count(*) FROM semel.inbox").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_owners_of_a_log_each_message_has_one_effect() {
    let desk = Arc::new(Desk::with(Major::V18, by_positions()).await);
    let owners = (0..2).map(|_| {
        let desk = Arc::clone(&desk);
        tokio::spawn(async move {
            let mut client = desk.connect().await;
            let mut firsts = 0;
            for offset in 0..100 {
                let ran = desk.handle(&mut client, &at(offset), None).await.unwrap();
                firsts += i64::from(is_first(&ran));
            }
            firsts
        })
    });
    let mut firsts = 0;
    for owner in owners.collect::<Vec<_>>() {
        firsts += owner.await.unwrap();
    }
    assert_eq!((firsts, desk.effects(None).await, next(&desk).await), (100, 100, Some(100)));
    assert_eq!(desk.number("SELECT count(DISTINCT message) FROM semel.effect").await, 100);
}

#[tokio::test]
async fn a_batch_that_another_owner_has_begun_is_done_from_there() {
    let desk = Desk::with(Major::V18, by_positions()).await;
    let pool = Pool::new(&desk.fixture.url, 2);
    let mut client = desk.connect().await;
    desk.handle(&mut client, &at(0), None).await.map(drop).unwrap();
    desk.handle(&mut client, &at(1), None).await.map(drop).unwrap();
    let deliveries: Vec<_> = (0..6).map(at).collect();
    for firsts in [4, 0] {
        let handled = desk
            .inbox
            .run_all_on(&pool, &deliveries, async |batch| {
                for at in batch.new_ones() {
                    desk.act(&*batch, deliveries[at].message.id()).await?;
                }
                Ok::<_, tokio_postgres::Error>(batch.finish())
            })
            .await
            .unwrap();
        let is_first = |handled: &&Handled| matches!(handled, Handled::First(_));
        assert_eq!(handled.iter().filter(is_first).count(), firsts);
    }
    assert_eq!((desk.effects(None).await, next(&desk).await), (6, Some(6)));
    let mixed = [at(7), at(6)];
    let refused = desk.inbox.receive_all(client.transaction().await.unwrap(), &mixed).await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn a_message_is_parked_and_its_position_moved_in_one_transaction() {
    let desk = Desk::with(Major::V18, by_positions()).await;
    let mut client = desk.connect().await;
    desk.handle(&mut client, &at(0), None).await.map(drop).unwrap();
    let park = |offset| Park {
        consumer: consumer(),
        fingerprint: at(offset).fingerprint(),
        delivery: at(offset),
        moves: true,
        attempts: 8,
        why: "cannot be read".into(),
    };
    assert_eq!(desk.store.park(park(1)).await.unwrap(), ParkAnswer::Parked);
    assert_eq!(next(&desk).await, Some(2));
    // A stale owner parks nothing: the message was passed.
    assert_eq!(desk.store.park(park(0)).await.unwrap(), ParkAnswer::Ended);
    assert_eq!(desk.number("SELECT count(*) FROM semel.inbox_parked").await, 1);
    let ran = desk.handle(&mut client, &at(1), None).await.unwrap();
    assert!(matches!(ran, Ran::Duplicate(None)), "{ran:?}");
    assert!(is_first(&desk.handle(&mut client, &at(2), None).await.unwrap()));
}

#[tokio::test]
async fn a_message_without_a_position_and_an_answer_that_nothing_keeps_are_refused() {
    let desk = Desk::with(Major::V18, by_positions()).await;
    let mut client = desk.connect().await;
    assert!(desk.handle(&mut client, &delivery("a"), None).await.is_err());
    assert!(desk.handle(&mut client, &at(0), Some("paid")).await.is_err());
    assert_eq!((desk.effects(None).await, next(&desk).await), (0, None));
}
