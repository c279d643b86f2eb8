//! Attempts and parked messages, beside the transactions of the effects.

use bytes::Bytes;
use semel::{
    Timestamp,
    inbox::{
        Delivery, InboxInspect, InboxStore, Mark, Park, ParkAnswer, ParkedState, Standing, Uncount,
    },
    store::Actor,
};
use semel_postgres::inbox::Ran;
use semel_testkit::servers::Major;

use super::desk::{Desk, consumer, delivery, is_first, message};

pub(super) fn park(delivery: Delivery) -> Park {
    Park {
        consumer: consumer(),
        fingerprint: delivery.fingerprint(),
        delivery,
        moves: false,
        attempts: 8,
        why: "cannot be read".into(),
    }
}

pub(super) fn actor() -> Actor {
    Actor { name: "ada".into(), note: "the schema is fixed".into() }
}

/// M67: what has come to an end is not counted any more.
#[tokio::test]
async fn attempts_are_counted_given_back_and_forgotten() {
    for major in Major::ALL {
        let desk = Desk::new(major).await;
        let (store, names) = (&desk.store, vec![message("b"), message("a"), message("b")]);
        let counts = async |messages| -> Vec<u32> {
            let counted = store.attempts(consumer(), messages).await.unwrap();
            counted.iter().map(|attempts| attempts.count).collect()
        };
        assert_eq!(counts(names.clone()).await, [0, 0, 0]);
        store.count(consumer(), names.clone()).await.unwrap();
        let counted = store.count(consumer(), vec![message("a")]).await.unwrap();
        assert_eq!((counted[0].count, counts(names.clone()).await), (2, vec![1, 2, 1]));
        assert!(counted[0].first_at < counted[0].now);
        store.uncount(consumer(), names.clone(), Uncount::GivenBack).await.unwrap();
        assert_eq!(counts(names.clone()).await, [0, 1, 0]);
        store.uncount(consumer(), names.clone(), Uncount::Ended).await.unwrap();
        assert_eq!(desk.number("SELECT count(*) FROM semel.inbox_attempt").await, 0, "{major}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_of_crossing_batches_are_all_counted() {
    let desk = std::sync::Arc::new(Desk::new(Major::V18).await);
    let counters = (0..8_usize).map(|turn| {
        let desk = std::sync::Arc::clone(&desk);
        tokio::spawn(async move {
            let mut names: Vec<_> = (0..50).map(|n| message(&format!("m{n}"))).collect();
            names.rotate_left(turn * 7);
            desk.store.count(consumer(), names).await.unwrap();
        })
    });
    for counter in counters.collect::<Vec<_>>() {
        counter.await.unwrap();
    }
    assert_eq!(desk.number("SELECT min(count) FROM semel.inbox_attempt").await, 8);
}

#[tokio::test]
async fn a_parked_message_keeps_all_that_was_delivered() {
    let desk = Desk::new(Major::V17).await;
    let mut sent = super::desk::at(7);
    sent.headers.push(("trace".into(), Bytes::from_static(b"\x00\xff")));
    sent.key = Some(Bytes::from_static(b"order-7"));
    sent.sent_at = Some(Timestamp::from_micros(1_700_000_000_000_000));
    desk.store.count(consumer(), vec![sent.message.clone()]).await.unwrap();
    assert_eq!(desk.store.park(park(sent.clone())).await.unwrap(), ParkAnswer::Parked);
    let state = desk.store.message(consumer(), sent.message.clone()).await.unwrap();
    let parked = state.parked.unwrap();
    let mut again = parked.delivery();
    assert!(again.parked);
    (again.parked, again.receipt, again.redelivered) = (false, sent.receipt, sent.redelivered);
    assert_eq!((again, parked.state, parked.attempts), (sent, ParkedState::Failed, 8));
    assert_eq!(state.recorded.unwrap().standing, Standing::Parked);
    assert_eq!(state.attempts, None, "M67: they go with the parking");
}

/// M47: what is parked is not run, and nothing behind it waits.
#[tokio::test]
async fn a_copy_of_a_parked_message_is_not_run() {
    let desk = Desk::new(Major::V18).await;
    let mut client = desk.connect().await;
    desk.store.park(park(delivery("a"))).await.unwrap();
    let ran = desk.handle(&mut client, &delivery("a"), None).await.unwrap();
    let Ran::Duplicate(Some(recorded)) = ran else { panic!("{ran:?}") };
    assert_eq!(recorded.standing, Standing::Parked);
    assert!(is_first(&desk.handle(&mut client, &delivery("b"), None).await.unwrap()));
    assert_eq!(desk.effects(None).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_parking_and_an_effect_one_is_committed() {
    let desk = std::sync::Arc::new(Desk::new(Major::V18).await);
    for round in 0..20 {
        let id = format!("m{round}");
        let (other, copy) = (std::sync::Arc::clone(&desk), delivery(&id));
        let parking = tokio::spawn(async move { other.store.park(park(copy)).await.unwrap() });
        let mut client = desk.connect().await;
        let ran = desk.handle(&mut client, &delivery(&id), None).await.unwrap();
        let parked = parking.await.unwrap() == ParkAnswer::Parked;
        assert_ne!(parked, is_first(&ran), "{ran:?}");
        assert_eq!(desk.effects(Some(&id)).await, i64::from(!parked));
    }
}

/// M70, M80: an operator runs a dead letter again under its own id, once; afterwards it is known for ever.
#[tokio::test]
async fn a_parked_message_is_run_again_once_under_its_own_id() {
    let desk = Desk::new(Major::V18).await;
    let time = desk.fixture.moved_time().await;
    let mut client = desk.connect().await;
    desk.store.park(park(delivery("a"))).await.unwrap();
    assert_eq!(desk.store.due(consumer(), 10).await.unwrap(), []);
    assert!(desk.store.mark(consumer(), message("a"), Mark::Retry, actor()).await.unwrap());
    let due = desk.store.due(consumer(), 10).await.unwrap();
    let again = due[0].delivery();
    let ran = desk.handle(&mut client, &again, Some("paid")).await.unwrap();
    assert!(is_first(&ran), "{ran:?}");
    // Its copy stays until whoever ran it says that it is done with: what it recorded may still be unsent.
    assert_eq!(desk.store.due(consumer(), 10).await.unwrap().len(), 1);
    for copy in [again, delivery("a")] {
        let ran = desk.handle(&mut client, &copy, None).await.unwrap();
        assert!(matches!(ran, Ran::Duplicate(Some(_))), "{ran:?}");
    }
    desk.store.uncount(consumer(), vec![message("a")], Uncount::Ended).await.unwrap();
    assert_eq!(desk.store.due(consumer(), 10).await.unwrap(), []);
    assert_eq!(desk.number("SELECT count(*) FROM semel.inbox_parked").await, 0);
    semel_testkit::conformance::MoveTime::advance(
        &*time,
        std::time::Duration::from_secs(50 * 365 * 86_400),
    )
    .await;
    semel::inbox::InboxSweep::sweep_inbox(&desk.store, 100).await.unwrap();
    let ran = desk.handle(&mut client, &delivery("a"), None).await.unwrap();
    assert!(matches!(ran, Ran::Duplicate(Some(_))), "{ran:?}");
    assert_eq!(desk.effects(None).await, 1);
}

#[tokio::test]
async fn a_run_again_that_fails_waits_for_an_operator_again() {
    let desk = Desk::new(Major::V18).await;
    desk.store.park(park(delivery("a"))).await.unwrap();
    desk.store.mark(consumer(), message("a"), Mark::Retry, actor()).await.unwrap();
    let again = desk.store.due(consumer(), 10).await.unwrap()[0].delivery();
    let failed = Park { attempts: 9, why: "still not".into(), ..park(again) };
    assert_eq!(desk.store.park(failed).await.unwrap(), ParkAnswer::Parked);
    assert_eq!(desk.store.due(consumer(), 10).await.unwrap(), []);
    let parked = desk.store.message(consumer(), message("a")).await.unwrap().parked.unwrap();
    assert_eq!(
        (parked.attempts, &*parked.why, parked.state),
        (9, "still not", ParkedState::Failed)
    );
}

#[tokio::test]
async fn a_parking_does_not_wait_for_an_open_transaction() {
    let desk = Desk::new(Major::V18).await;
    let mut client = desk.connect().await;
    let received = desk.inbox.receive(client.transaction().await.unwrap(), &delivery("a")).await;
    let Ok(semel_postgres::inbox::Receive::First(handling)) = received else { panic!() };
    let busy = desk.store.park(park(delivery("a"))).await.unwrap_err();
    assert_eq!(busy.kind(), semel::StoreErrorKind::Busy, "{busy}");
    drop(handling);
}

/// M76: without its unique key the table would let copies pass that come at one instant.
#[tokio::test]
async fn a_lost_unique_key_is_found_before_anything_is_consumed() {
    for (lost, table) in [("inbox_pkey", "inbox"), ("inbox_position_pkey", "inbox_position")] {
        let desk = Desk::new(Major::V15).await;
        desk.store.check().await.unwrap();
        let client = desk.connect().await;
        let drop = format!("ALTER TABLE semel.{table} DROP CONSTRAINT {lost}");
        client.batch_execute(&desk.fixture.sql(&drop)).await.unwrap();
        // Neither a part of the key nor a part of the rows will do.
        let partial = "CREATE UNIQUE INDEX ON semel.inbox (consumer, source, message_id)
            WHERE standing = 'done';
            CREATE UNIQUE INDEX ON semel.inbox (consumer, source, message_id, received_at_us);
            CREATE INDEX ON semel.inbox_position (consumer, log)";
        client.batch_execute(&desk.fixture.sql(partial)).await.unwrap();
        let error = desk.store.check().await.unwrap_err();
        assert_eq!(error.kind(), semel::StoreErrorKind::Damaged, "{error}");
    }
}
