//! Messages that are known by their positions in a log.

use semel::inbox::{By, Handled, InboxPolicy, InboxStore, LogId, Park, ParkAnswer};
use semel_sqlite::inbox::Ran;

use super::{Desk, act, at, consumer, delivery, is_first, park, policy};

fn desk() -> Desk {
    Desk::with(InboxPolicy { by: By::Positions, ..policy() })
}

async fn next(desk: &Desk) -> Option<u64> {
    let log = LogId::new("orders/0").unwrap();
    desk.store.positions(consumer(), vec![log]).await.unwrap()[0]
}

#[tokio::test]
async fn a_position_moves_with_the_effect_and_only_forward() {
    let mut desk = desk();
    assert_eq!(next(&desk).await, None);
    for offset in [3, 4, 9, 9, 3, 4] {
        desk.handle(&at(offset), None).map(drop).unwrap();
    }
    assert_eq!((next(&desk).await, desk.effects()), (Some(10), 3));
    assert_eq!(desk.number("SELECT count(*) FROM semel_inbox"), 0);
}

#[tokio::test]
async fn a_batch_that_another_owner_has_begun_is_done_from_there() {
    let mut desk = desk();
    desk.handle(&at(0), None).map(drop).unwrap();
    desk.handle(&at(1), None).map(drop).unwrap();
    let deliveries: Vec<_> = (0..6).map(at).collect();
    for firsts in [4, 0] {
        let handled = desk.inbox.run_all(&mut desk.conn, &deliveries, |batch| {
            let mut new = batch.new_ones();
            new.try_for_each(|at| act(batch, deliveries[at].message.id()))
        });
        let is_first = |handled: &&Handled| matches!(handled, Handled::First(_));
        assert_eq!(handled.unwrap().iter().filter(is_first).count(), firsts);
    }
    assert_eq!((desk.effects(), next(&desk).await), (6, Some(6)));
    let inbox = desk.inbox.clone();
    assert!(inbox.receive_all(desk.begin(), &[at(7), at(6)]).is_err());
}

#[tokio::test]
async fn a_message_is_parked_and_its_position_moved_in_one_transaction() {
    let mut desk = desk();
    desk.handle(&at(0), None).map(drop).unwrap();
    let moving = |offset| Park { moves: true, ..park(at(offset)) };
    assert_eq!(desk.store.park(moving(1)).await.unwrap(), ParkAnswer::Parked);
    assert_eq!(next(&desk).await, Some(2));
    // A stale owner parks nothing: the message was passed.
    assert_eq!(desk.store.park(moving(0)).await.unwrap(), ParkAnswer::Ended);
    assert_eq!(desk.number("SELECT count(*) FROM semel_inbox_parked"), 1);
    let ran = desk.handle(&at(1), None).unwrap();
    assert!(matches!(ran, Ran::Duplicate(None)), "{ran:?}");
    assert!(is_first(&desk.handle(&at(2), None).unwrap()));
}

#[tokio::test]
async fn a_message_without_a_position_and_an_answer_that_nothing_keeps_are_refused() {
    let mut desk = desk();
    assert!(desk.handle(&delivery("a"), None).is_err());
    assert!(desk.handle(&at(0), Some("paid")).is_err());
    assert_eq!((desk.effects(), next(&desk).await), (0, None));
}
