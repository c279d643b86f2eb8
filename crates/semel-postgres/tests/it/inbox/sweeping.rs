//! Retention of what consumers had.

use std::time::Duration;

use semel::inbox::{InboxStore, InboxSweep};
use semel_testkit::{conformance::MoveTime, servers::Major};

use super::{
    desk::{Desk, delivery},
    parking::park,
};

const DAY: Duration = Duration::from_secs(86_400);

/// M70: what was ever parked is never forgotten, and the sweep waits for nobody.
#[tokio::test]
async fn a_sweep_leaves_what_was_parked_and_what_somebody_holds() {
    let desk = Desk::new(Major::V15).await;
    let time = desk.fixture.moved_time().await;
    let mut client = desk.connect().await;
    for id in ["held", "free"] {
        desk.handle(&mut client, &delivery(id), None).await.map(drop).unwrap();
    }
    desk.store.park(park(delivery("parked"))).await.unwrap();
    time.advance(1_000 * DAY).await;
    let lock =
        desk.fixture.sql("BEGIN; SELECT FROM semel.inbox WHERE message_id = 'held' FOR UPDATE");
    client.batch_execute(&lock).await.unwrap();
    assert_eq!(desk.store.sweep_inbox(10).await.unwrap().messages, 1);
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(desk.store.sweep_inbox(10).await.unwrap().messages, 1);
    assert_eq!(desk.number("SELECT count(*) FROM semel.inbox").await, 1);
}
