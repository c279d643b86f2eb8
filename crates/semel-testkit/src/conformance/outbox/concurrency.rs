//! Races: whoever comes at once, there is one truth.

use std::{collections::BTreeMap, sync::Arc};

use semel::outbox::{EventId, Lane, Led, Settle, Settled};
use tokio::sync::Mutex;

use super::{FreshOutbox, verbs::*};

/// M26: of 8 that ask at once one leads, round after round, each under a larger epoch.
pub async fn one_of_8_leads(on: FreshOutbox) {
    let mut last = None;
    for _ in 0..10 {
        let asks: Vec<_> = (0..8)
            .map(|n| {
                let store = Arc::clone(&on.store);
                let ask = lead(&kafka(), &format!("relay {n}"));
                tokio::spawn(async move { store.lead(ask).await.expect("an answer") })
            })
            .collect();
        let mut leaders = Vec::new();
        for ask in asks {
            if let Led::Leader(leader) = ask.await.unwrap() {
                leaders.push(leader);
            }
        }
        assert_eq!(leaders.len(), 1, "{leaders:?}");
        assert!(last < Some(leaders[0].epoch), "{last:?} came before {leaders:?}");
        last = Some(leaders[0].epoch);
        on.after(LEASE + INSTANT).await;
    }
}

/// Of a settlement and a take-over at once: either the settlement counts, or the new leader reads again.
pub async fn a_settlement_and_a_take_over_agree(on: FreshOutbox) {
    let mut leader = on.lead("first").await;
    for _ in 0..20 {
        let told = events(2);
        on.commit(&told).await;
        let rest = on.some(&leader).await;
        on.after(LEASE + INSTANT).await;
        let settle = Settle {
            upto: Some((rest.pass, rest.upto)),
            ends: true,
            park: vec![failed(&rest.placed[0])],
            ..settlement(&leader)
        };
        let before = on.parked().await.len();
        let (settled, new) =
            tokio::join!(on.store.settle(settle), on.store.lead(lead(&kafka(), "another")));
        let Led::Leader(new) = new.unwrap() else { panic!("a lapsed leader is taken over") };
        let parked = on.parked().await.len() - before;
        match settled.unwrap() {
            Settled::Stored => {
                assert_eq!(parked, 1);
                assert!(on.rest(&new).await.is_none());
            }
            Settled::Stale => {
                assert_eq!(parked, 0);
                assert_eq!(ids(&on.drain(&new).await), ids_of(&told));
            }
        }
        leader = new;
    }
}

/// A renewal and a take-over do not both win.
pub async fn a_renewal_and_a_take_over_do_not_both_win(on: FreshOutbox) {
    let mut leader = on.lead("first").await;
    for _ in 0..20 {
        on.after(LEASE + INSTANT).await;
        let renewal = on.store.renew(leader.clone(), LEASE);
        let ask = on.store.lead(lead(&kafka(), "another"));
        let (renewed, asked) = tokio::join!(renewal, ask);
        match (renewed.unwrap(), asked.unwrap()) {
            (Settled::Stored, Led::Follower { .. }) => {}
            (Settled::Stale, Led::Leader(new)) => leader = new,
            both => panic!("both won, or nobody did: {both:?}"),
        }
        assert_eq!(on.store.renew(leader.clone(), LEASE).await.unwrap(), Settled::Stored);
    }
}

/// Copies of one settlement at once park each row once.
pub async fn copies_of_one_settlement_are_one(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.commit(&events(3)).await;
    let rest = on.some(&leader).await;
    let settle = Settle {
        upto: Some((rest.pass, rest.upto)),
        ends: true,
        park: rest.placed.iter().map(failed).collect(),
        ..settlement(&leader)
    };
    let copies: Vec<_> = (0..8)
        .map(|_| {
            let (store, settle) = (Arc::clone(&on.store), settle.clone());
            tokio::spawn(async move { store.settle(settle).await.expect("an answer") })
        })
        .collect();
    for copy in copies {
        copy.await.unwrap();
    }
    assert_eq!(parked_ids(&on.parked().await), ids(&rest.placed));
    assert!(on.rest(&leader).await.is_none());
}

/// One writer's part of [`nothing_is_lost_or_reordered_under_load`]: it locks an aggregate, appends, and
/// commits or rolls back before it lets go. Returns what it committed.
async fn write(on: &FreshOutbox, lanes: &[Mutex<Vec<EventId>>], writer: usize) {
    for round in 0..25 {
        let at = (writer * 7 + round * 3) % lanes.len();
        let mut committed = lanes[at].lock().await;
        let mut transaction = on.producer.begin().await;
        let told: Vec<_> =
            (0..=round % 3).map(|n| event(&format!("{at}"), &format!("{n}"))).collect();
        transaction.append(told.clone()).await.unwrap();
        if round % 7 == 6 {
            transaction.roll_back().await;
        } else {
            transaction.commit().await;
            committed.extend(ids_of(&told));
        }
    }
}

/// While 8 write on 10 aggregates, each locked before it is appended to, all that was committed is read,
/// once and in order per aggregate, and nothing else.
pub async fn nothing_is_lost_or_reordered_under_load(on: FreshOutbox) {
    let on = Arc::new(on);
    let leader = on.lead("first").await;
    let lanes: Arc<Vec<_>> = Arc::new((0..10).map(|_| Mutex::new(Vec::new())).collect());
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (on, lanes) = (Arc::clone(&on), Arc::clone(&lanes));
            tokio::spawn(async move { write(&on, &lanes, writer).await })
        })
        .collect();
    let mut read: BTreeMap<Lane, Vec<EventId>> = BTreeMap::new();
    let mut note = |placed: Vec<semel::outbox::Placed>| {
        for placed in placed {
            read.entry(placed.event.lane.clone()).or_default().push(placed.event.id);
        }
    };
    while writers.iter().any(|writer| !writer.is_finished()) {
        note(on.drain(&leader).await);
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    note(on.drain(&leader).await);
    for (at, lane_committed) in lanes.iter().enumerate() {
        let committed = lane_committed.lock().await;
        assert!(!committed.is_empty());
        assert_eq!(read.remove(&lane(&format!("{at}"))).unwrap_or_default(), *committed);
    }
    assert!(read.is_empty(), "{read:?}");
}
