//! Settling: all or nothing, by the current leader, of the current pass.

use semel::outbox::{Settle, Settled, store::Pos};

use super::{FreshOutbox, verbs::*};

/// A settlement moves what is read next, inside its pass.
pub async fn a_settlement_moves_what_is_read(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = events(5);
    on.commit(&told).await;
    let first = on.some(&leader).await;
    let upto = Some((first.pass, first.placed[2].pos));
    on.stored(Settle { upto, ..settlement(&leader) }).await;
    let rest = on.some(&leader).await;
    assert_eq!(rest.pass, first.pass);
    assert_eq!(ids(&rest.placed), ids_of(&told[3..]));
}

/// A pass whose end was settled is closed for good.
pub async fn an_end_closes_the_pass(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.commit(&events(2)).await;
    let first = on.some(&leader).await;
    on.end(&leader, &first).await;
    assert!(on.rest(&leader).await.is_none());
    let next = events(1);
    on.commit(&next).await;
    let second = on.some(&leader).await;
    assert_ne!(second.pass, first.pass);
    assert_eq!(ids(&second.placed), ids_of(&next));
}

/// A settlement repeated after a lost answer changes nothing more.
pub async fn a_settlement_repeated_changes_nothing_more(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = events(6);
    on.commit(&told).await;
    let first = on.some(&leader).await;
    let part = Settle {
        upto: Some((first.pass, first.placed[2].pos)),
        park: vec![failed(&first.placed[0]), behind(&first.placed[2])],
        ..settlement(&leader)
    };
    let whole = Settle {
        upto: Some((first.pass, first.upto)),
        ends: true,
        park: vec![failed(&first.placed[3])],
        ..settlement(&leader)
    };
    on.stored(part.clone()).await;
    on.settle(part).await;
    assert_eq!(ids(&on.some(&leader).await.placed), ids_of(&told[3..]));
    assert_eq!(on.parked().await.len(), 2);
    on.stored(whole.clone()).await;
    on.settle(whole.clone()).await;
    assert_eq!(on.parked().await.len(), 3);
    let next = events(2);
    on.commit(&next).await;
    let second = on.some(&leader).await;
    on.settle(whole).await;
    assert_eq!(ids(&second.placed), ids_of(&next));
    assert_eq!(ids(&on.some(&leader).await.placed), ids_of(&next), "an old end closed a new pass");
    assert_eq!(on.parked().await.len(), 3);
}

/// A settlement that comes late does not take the cursor back.
pub async fn a_late_settlement_takes_nothing_back(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = events(5);
    on.commit(&told).await;
    let first = on.some(&leader).await;
    let upto = |at: usize| Some((first.pass, first.placed[at].pos));
    on.stored(Settle { upto: upto(3), ..settlement(&leader) }).await;
    on.settle(Settle { upto: upto(1), ..settlement(&leader) }).await;
    assert_eq!(ids(&on.some(&leader).await.placed), ids_of(&told[4..]));
}

/// M20, M25: whoever was overtaken settles nothing: not the cursor, not a parked row.
pub async fn an_overtaken_leader_settles_nothing(on: FreshOutbox) {
    let old = on.lead("first").await;
    let parked = on.park_lane(&old, "parked", 2).await;
    let told = events(3);
    on.commit(&told).await;
    let first = on.some(&old).await;
    let new = on.overtaken(&old).await;
    let late = Settle {
        upto: Some((first.pass, first.upto)),
        ends: true,
        park: vec![failed(&first.placed[0])],
        unpark: vec![semel::outbox::store::Unpark::Sent { seq: parked[0].seq }],
        ..settlement(&old)
    };
    assert_eq!(on.settle(late.clone()).await, Settled::Stale);
    assert_eq!(on.parked().await, parked);
    let again = on.some(&new).await;
    assert_eq!((again.pass, &again.placed), (first.pass, &first.placed));
    on.end(&new, &again).await;
    assert_eq!(on.settle(late).await, Settled::Stale);
    assert_eq!(on.parked().await, parked);
}

/// A leader whose lease is over settles for as long as nobody took over.
pub async fn a_lapsed_leader_settles_if_nobody_took_over(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.commit(&events(2)).await;
    let first = on.some(&leader).await;
    on.after(LEASE * 2).await;
    on.end(&leader, &first).await;
    assert!(on.rest(&leader).await.is_none());
}

/// A settlement of a pass that is closed parks nothing and moves nothing.
pub async fn a_closed_pass_is_not_settled_again(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.commit(&events(2)).await;
    let first = on.some(&leader).await;
    on.end(&leader, &first).await;
    let next = events(3);
    on.commit(&next).await;
    let second = on.some(&leader).await;
    let stale = Settle {
        upto: Some((first.pass, Pos(u64::from(u32::MAX)))),
        park: vec![failed(&second.placed[0])],
        ..settlement(&leader)
    };
    assert_eq!(on.settle(stale).await, Settled::Stale);
    assert_eq!(on.parked().await, []);
    assert_eq!(ids(&on.some(&leader).await.placed), ids_of(&next));
}

/// An epoch that nobody has settles nothing, and neither does a destination that nobody led.
pub async fn a_foreign_epoch_settles_nothing(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.commit(&events(2)).await;
    let first = on.some(&leader).await;
    let whole = Settle { upto: Some((first.pass, first.upto)), ends: true, ..settlement(&leader) };
    let epoch = semel::outbox::Epoch(leader.epoch.0 + 1);
    assert_eq!(on.settle(Settle { epoch, ..whole.clone() }).await, Settled::Stale);
    let destination = destination("nobody");
    assert_eq!(on.settle(Settle { destination, ..whole }).await, Settled::Stale);
    assert_eq!(on.some(&leader).await.placed, first.placed);
}
