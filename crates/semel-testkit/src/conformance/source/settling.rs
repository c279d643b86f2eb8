//! Settling: what was acknowledged is done with, and nothing else is.

use std::time::Duration;

use semel::inbox::{Acked, Receipt, Redelivered, Settlement};

use super::{FreshSource, ids, sorted};

/// What was acknowledged does not come again once its source has closed.
pub async fn what_was_acked_does_not_come_again(on: FreshSource) {
    on.send(12, 4).await;
    let mut member = on.open().await;
    let came = member.take(12).await;
    member.ack(&came).await;
    member.close().await;
    on.nothing_is_left().await;
}

/// In whatever order it was acknowledged.
pub async fn the_order_of_acks_is_nothing_to_it(on: FreshSource) {
    on.send(12, 4).await;
    let mut member = on.open().await;
    let mut came = member.take(12).await;
    came.reverse();
    for ack in came.chunks(5) {
        member.ack(ack).await;
    }
    member.close().await;
    on.nothing_is_left().await;
}

/// What was received and not acknowledged comes again when its source has closed.
pub async fn what_was_not_acked_comes_again(on: FreshSource) {
    let sent = on.send(6, 4).await;
    let mut first = on.open().await;
    assert_eq!(sorted(&ids(&first.take(6).await)), sorted(&sent));
    first.close().await;
    let mut second = on.open().await;
    let came = second.take(6).await;
    assert_eq!(sorted(&ids(&came)), sorted(&sent));
    second.ack(&came).await;
    second.close().await;
    on.nothing_is_left().await;
}

/// M97: a source that is dropped, as by a crash, has acknowledged nothing by that.
pub async fn a_dropped_source_acknowledges_nothing(on: FreshSource) {
    let sent = on.send(6, 4).await;
    let mut first = on.open().await;
    first.take(6).await;
    drop(first);
    let mut second = on.open().await;
    assert_eq!(sorted(&ids(&second.take(6).await)), sorted(&sent));
    second.close().await;
}

/// What was not even received when its source closed comes to the next.
pub async fn what_was_not_received_is_not_lost(on: FreshSource) {
    let sent = on.send(9, 1).await;
    let mut first = on.open().await;
    let came = first.take(3).await;
    first.ack(&came).await;
    first.close().await;
    let mut second = on.open().await;
    assert_eq!(ids(&second.take(6).await), sent[3..]);
    second.close().await;
}

/// What is wanted again comes again, and is not said to be new.
pub async fn what_is_wanted_again_comes_again(on: FreshSource) {
    let sent = on.send(1, 1).await;
    let mut member = on.open().await;
    for _ in 0..3 {
        let came = member.take(1).await;
        assert_eq!(ids(&came), sent);
        let again = vec![(came[0].receipt, Settlement::Again(Duration::ZERO))];
        assert_eq!(member.settle(again).await, [Acked::Confirmed]);
    }
    let came = member.take(1).await;
    assert_ne!(came[0].redelivered, Redelivered::No);
    member.ack(&came).await;
    member.close().await;
    on.nothing_is_left().await;
}

/// A settlement of nothing is answered, and a receipt that nobody was given settles nothing.
pub async fn a_foreign_receipt_settles_nothing(on: FreshSource) {
    let sent = on.send(2, 1).await;
    let mut member = on.open().await;
    assert_eq!(member.settle(Vec::new()).await, []);
    let came = member.take(2).await;
    let foreign = Receipt(u64::MAX - 7);
    assert_eq!(member.settle(vec![(foreign, Settlement::Ack)]).await, [Acked::Lost]);
    member.close().await;
    let mut second = on.open().await;
    assert_eq!(ids(&second.take(came.len()).await), sent);
    second.close().await;
}

/// What one consumer has acknowledged is done with for the whole group.
pub async fn members_share_what_there_is(on: FreshSource) {
    on.send(6, 4).await;
    let mut first = on.open().await;
    let came = first.take(6).await;
    first.ack(&came).await;
    first.close().await;
    let later = on.send(6, 4).await;
    let mut second = on.open().await;
    let came = second.take(6).await;
    assert_eq!(sorted(&ids(&came)), sorted(&later));
    second.ack(&came).await;
    second.close().await;
    on.nothing_is_left().await;
}
