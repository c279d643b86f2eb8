//! What is kept outlives the process.

use semel::inbox::{ParkAnswer, Standing};

use super::{FreshInbox, verbs::*};

/// Drops everything but what the inbox lies on, and opens it again.
async fn reopened(on: FreshInbox) -> Option<(FreshInbox, impl Sized)> {
    let FreshInbox { guard, time, reopen, .. } = on;
    Some((reopen?().await, (guard, time)))
}

/// M73: what was had, counted, parked and passed is known to the next process, with what was recorded.
pub async fn what_was_had_is_known_to_the_next_process(on: FreshInbox) {
    let recorded = first(on.answer(&delivery("a"), "paid").await);
    on.run_by(by_positions(), &at(4)).await;
    on.count(&["b"]).await;
    on.again("c").await;
    assert_eq!(on.park(delivery("d")).await, ParkAnswer::Parked);
    let (parked, audit) = (on.parked().await, on.audit().await);
    let Some((on, _kept)) = reopened(on).await else { return };
    on.store.check().await.unwrap();
    assert_eq!(copy(on.answer(&delivery("a"), "other").await), recorded);
    assert!(!is_first(&on.run_by(by_positions(), &at(4)).await));
    assert_eq!((on.next("a").await, counts(&on.attempts(&["b"]).await)), (Some(5), vec![1]));
    assert_eq!((parked_ids(&on.due().await), on.parked().await), (vec!["c"], parked));
    assert_eq!((on.audit().await, on.effects().await), (audit, 2));
    assert_eq!(copy(on.handle(&delivery("d")).await).standing, Standing::Parked);
    let again = on.due().await[0].delivery();
    first(on.handle(&again).await);
}
