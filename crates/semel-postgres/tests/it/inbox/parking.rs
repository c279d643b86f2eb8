//! What only this store promises beside the transactions of the effects.

use semel::inbox::{Delivery, InboxStore, Park};
use semel_testkit::servers::Major;

use super::desk::{Desk, consumer, delivery};

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
