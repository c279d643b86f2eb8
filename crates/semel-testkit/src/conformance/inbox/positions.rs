//! Messages that are known by their positions in a log.

use semel::inbox::{Handled, InboxPolicy, Park, ParkAnswer};

use super::{FreshInbox, verbs::*};

fn moving(offset: u64) -> Park {
    Park { moves: true, ..parking(at(offset)) }
}

/// A position moves with the effect, and only forward: nothing of a message is kept but that.
pub async fn a_position_moves_with_the_effect_and_only_forward(on: FreshInbox) {
    assert_eq!(on.next("a").await, None);
    for (offset, runs) in [(3, true), (4, true), (9, true), (9, false), (3, false), (4, false)] {
        let handled = on.run_by(by_positions(), &at(offset)).await;
        assert_eq!(is_first(&handled), runs, "{offset}");
        assert!(runs || handled == Handled::Duplicate(None), "nothing is recorded: {handled:?}");
    }
    assert_eq!((on.next("a").await, on.effects().await, on.remembered().await), (Some(10), 3, 0));
}

/// A run that fails leaves the position where it was.
pub async fn a_position_stays_where_its_effect_failed(on: FreshInbox) {
    on.run_by(by_positions(), &at(0)).await;
    assert!(on.try_handle(by_positions(), &at(1), failing()).await.is_err());
    assert_eq!(on.next("a").await, Some(1));
    assert!(is_first(&on.run_by(by_positions(), &at(1)).await));
    assert_eq!(on.effects().await, 2);
}

/// Positions are of one consumer and one log.
pub async fn logs_and_consumers_share_no_positions(on: FreshInbox) {
    let mailing = InboxPolicy { consumer: consumer("mailing"), ..by_positions() };
    for _ in 0..2 {
        for name in ["a", "b", "A"] {
            on.run_by(by_positions(), &within(name, 7)).await;
            on.run_by(mailing.clone(), &within(name, 5)).await;
        }
    }
    assert_eq!(on.effects().await, 6);
    let logs = ["b", "none", "a", "b"].map(log).to_vec();
    let next = on.store.positions(billing(), logs.clone()).await.unwrap();
    assert_eq!(next, [Some(8), None, Some(8), Some(8)], "in the order asked for");
    let next = on.store.positions(consumer("mailing"), logs).await.unwrap();
    assert_eq!(next, [Some(6), None, Some(6), Some(6)]);
}

/// Offsets are numbers of any size that logs have.
pub async fn a_large_offset_is_kept(on: FreshInbox) {
    let far = (1 << 62) + 1;
    on.run_by(by_positions(), &at(far)).await;
    assert_eq!(on.next("a").await, Some(far + 1));
    assert!(!is_first(&on.run_by(by_positions(), &at(far)).await));
    assert!(is_first(&on.run_by(by_positions(), &at(far + 1)).await));
}

/// A batch that another owner has begun is done from where that one is.
pub async fn a_batch_that_another_owner_has_begun_is_done_from_there(on: FreshInbox) {
    on.run_by(by_positions(), &at(0)).await;
    on.run_by(by_positions(), &at(1)).await;
    for new in [4, 0] {
        let handled = on.batch(by_positions(), (0..6).map(at).collect()).await.unwrap();
        assert_eq!(firsts(&handled), new);
        assert!(handled[..2].iter().all(|handled| *handled == Handled::Duplicate(None)));
    }
    assert_eq!((on.effects().await, on.next("a").await), (6, Some(6)));
}

/// A batch that fails leaves its log where it was.
pub async fn a_batch_that_fails_moves_nothing(on: FreshInbox) {
    on.run_by(by_positions(), &at(0)).await;
    let batch: Vec<_> = (0..4).map(at).collect();
    let failed = on.worker.batch(by_positions(), batch, vec![failing(); 4]).await;
    assert!(failed.is_err());
    assert_eq!((on.effects().await, on.next("a").await), (1, Some(1)));
}

/// A batch is of one log and in its order, or there are messages that nobody would miss.
pub async fn a_batch_out_of_order_or_of_two_logs_is_refused(on: FreshInbox) {
    for batch in [
        vec![at(7), at(6)],
        vec![at(7), at(7)],
        vec![at(7), within("b", 8)],
        vec![at(7), delivery("a 8")],
    ] {
        assert!(on.batch(by_positions(), batch).await.is_err());
    }
    assert_eq!((on.effects().await, on.next("a").await), (0, None));
}

/// A message is parked and its position moved in one step; whoever is behind the log parks nothing.
pub async fn a_message_is_parked_and_its_position_moved_at_once(on: FreshInbox) {
    on.run_by(by_positions(), &at(0)).await;
    assert_eq!(on.park_as(moving(1)).await, ParkAnswer::Parked);
    assert_eq!(on.next("a").await, Some(2));
    assert_eq!(on.park_as(moving(0)).await, ParkAnswer::Ended, "it was passed");
    assert_eq!(parked_ids(&on.parked().await), ["a 1"]);
    assert_eq!(on.run_by(by_positions(), &at(1)).await, Handled::Duplicate(None));
    assert!(is_first(&on.run_by(by_positions(), &at(2)).await));
    assert_eq!(on.effects().await, 2);
}

/// A parked message is run again under its id, and the log stays where it is.
pub async fn a_parked_message_of_a_log_is_run_again_by_its_id(on: FreshInbox) {
    assert_eq!(on.park_as(moving(0)).await, ParkAnswer::Parked);
    on.run_by(by_positions(), &at(1)).await;
    assert!(on.mark("a 0", semel::inbox::Mark::Retry).await);
    let again = on.due().await[0].delivery();
    for _ in 0..2 {
        on.try_handle(by_positions(), &again, answering("paid")).await.unwrap();
    }
    assert_eq!((on.effects_of("a 0").await, on.effects().await), (1, 2));
    assert_eq!(on.next("a").await, Some(2));
}

/// A message without a position, and an answer that nothing would keep, are refused.
pub async fn what_positions_cannot_keep_is_refused(on: FreshInbox) {
    let unplaced = on.try_handle(by_positions(), &delivery("a"), Default::default()).await;
    assert!(unplaced.is_err());
    assert!(on.try_handle(by_positions(), &at(0), answering("paid")).await.is_err());
    refused(on.store.park(Park { moves: true, ..parking(delivery("a")) }).await);
    assert_eq!((on.effects().await, on.next("a").await), (0, None));
}
