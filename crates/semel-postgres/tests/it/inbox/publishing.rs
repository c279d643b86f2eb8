//! Events that a message causes: in its transaction, with their ids recorded.

use semel::{
    SystemClock,
    entropy::SystemEntropy,
    outbox::{Event, EventId, Lane},
};
use semel_postgres::inbox::{Ran, ReceiveAll};
use semel_testkit::servers::Major;

use super::desk::{Desk, delivery};

fn event(kind: &str) -> Event {
    let id = EventId::new(&SystemClock::new(), &SystemEntropy);
    Event::new(id, Lane::new("order", "7").unwrap(), kind, None).unwrap()
}

const CAUSED: &str = "SELECT count(*) FROM semel.outbox WHERE cause = 'message:queue:orders a'";

/// M73: the copy is told which events the first run published.
#[tokio::test]
async fn events_leave_once_with_the_effect_and_a_copy_is_told_their_ids() {
    for major in Major::ALL {
        let desk = Desk::new(major).await;
        let mut client = desk.connect().await;
        let mut recorded = Vec::new();
        for _ in 0..2 {
            let ran = desk
                .inbox
                .run(&mut client, &delivery("a"), async |mut handling| {
                    desk.act(&*handling, "a").await?;
                    handling.publish(event("Billed")).unwrap();
                    handling.publish(event("Sent")).unwrap();
                    Ok::<_, tokio_postgres::Error>(handling.finish(None, ()))
                })
                .await
                .unwrap();
            recorded.push(match ran {
                Ran::First((), recorded) | Ran::Duplicate(Some(recorded)) => recorded.events,
                other => panic!("{other:?}"),
            });
        }
        assert_eq!((recorded[0].len(), &recorded[0]), (2, &recorded[1]), "{major}");
        assert_eq!((desk.number(CAUSED).await, desk.effects(None).await), (2, 1));
    }
}

#[tokio::test]
async fn events_of_a_batch_are_recorded_by_message() {
    let desk = Desk::new(Major::V18).await;
    let mut client = desk.connect().await;
    let deliveries = [delivery("b"), delivery("a")];
    let mut other = desk.connect().await;
    let received =
        desk.inbox.receive_all(other.transaction().await.unwrap(), &deliveries).await.unwrap();
    let ReceiveAll::Some(mut batch) = received else { panic!("{received:?}") };
    let billed = batch.publish(1, event("Billed")).unwrap();
    assert!(batch.publish(2, event("Billed")).is_err());
    batch.done().await.unwrap().commit().await.unwrap();
    let ran = desk.handle(&mut client, &delivery("a"), None).await.unwrap();
    let Ran::Duplicate(Some(recorded)) = ran else { panic!("{ran:?}") };
    assert_eq!((recorded.events, desk.number(CAUSED).await), (vec![billed], 1));
}

#[tokio::test]
async fn nothing_leaves_of_an_effect_that_is_rolled_back() {
    let desk = Desk::new(Major::V18).await;
    let mut client = desk.connect().await;
    let failed = desk
        .inbox
        .run(&mut client, &delivery("a"), async |mut handling| {
            handling.publish(event("Billed")).unwrap();
            handling.batch_execute("SELECT 1 / 0").await?;
            Ok::<_, tokio_postgres::Error>(handling.finish(None, ()))
        })
        .await;
    assert!(failed.is_err());
    assert_eq!(desk.number("SELECT count(*) FROM semel.outbox").await, 0);
}
