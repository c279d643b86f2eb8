//! Cancellation: a verb whose future is dropped at any point leaves an outbox in which the repeat gets
//! the right answer.

use semel::outbox::{
    Led, ParkedState, Settle, Settled,
    store::{EventFilter, LeftOut},
};

use super::{
    super::cancel::{POLLS_MAX, cut},
    FreshOutbox,
    verbs::*,
};

/// Of whoever asked to lead and was cut off, another knows when its lease ends.
pub async fn a_lead_cut_anywhere_is_taken_over(on: FreshOutbox) {
    for polls in 0..POLLS_MAX {
        let name = destination(&format!("d{polls}"));
        let through = cut(polls, on.store.lead(lead(&name, "cut"))).await.is_some();
        let first = on.store.lead(lead(&name, "second")).await.unwrap();
        if through {
            assert!(matches!(first, Led::Follower { .. }));
        }
        on.after(LEASE + INSTANT).await;
        let leader = match on.store.lead(lead(&name, "third")).await.unwrap() {
            Led::Leader(leader) => leader,
            // What was cut off may still have happened just now, and only once.
            Led::Follower { owner, .. } => {
                assert!(!through && &*owner == "cut", "{owner} leads, cut at {polls}");
                on.after(LEASE + INSTANT).await;
                on.lead_to(&name, "third").await
            }
        };
        if let Led::Leader(first) = first {
            assert!(leader.epoch > first.epoch);
        }
        assert_eq!(on.store.renew(leader, LEASE).await.unwrap(), Settled::Stored);
        if through {
            return;
        }
    }
    panic!("a lead is never ready")
}

/// A renewal that was cut off leaves its leader leading.
pub async fn a_renewal_cut_anywhere_leaves_the_leader(on: FreshOutbox) {
    let leader = on.lead("first").await;
    for polls in 0..POLLS_MAX {
        let through = cut(polls, on.store.renew(leader.clone(), LEASE)).await.is_some();
        assert_eq!(on.store.renew(leader.clone(), LEASE).await.unwrap(), Settled::Stored);
        follows(&*on.store, lead(&kafka(), "second")).await;
        if through {
            return;
        }
    }
    panic!("a renewal is never ready")
}

/// A leadership whose giving up was cut off is free at the latest when it is given up again.
pub async fn a_resignation_cut_anywhere_is_done_by_its_repeat(on: FreshOutbox) {
    for polls in 0..POLLS_MAX {
        let leader = on.lead("first").await;
        let through = cut(polls, on.store.resign(leader.clone())).await.is_some();
        on.store.resign(leader.clone()).await.unwrap();
        let new = on.lead("second").await;
        assert!(new.epoch > leader.epoch);
        on.store.resign(new).await.unwrap();
        if through {
            return;
        }
    }
    panic!("a resignation is never ready")
}

/// A read that was cut off has opened one pass or none: its repeat reads all of it.
pub async fn a_read_cut_anywhere_is_repeated(on: FreshOutbox) {
    let leader = on.lead("first").await;
    for polls in 0..POLLS_MAX {
        let told = events(2);
        on.commit(&told).await;
        let read = cut(polls, on.store.read(leader.clone(), None, 100, BYTES)).await.is_some();
        let later = events(1);
        on.commit(&later).await;
        let all = on.drain(&leader).await;
        assert_eq!(ids(&all), ids_of(told.iter().chain(&later)), "cut at {polls}");
        if read {
            return;
        }
    }
    panic!("a read is never ready")
}

/// A settlement that was cut off is stored once by its repeat: the cursor, the end and each parked row.
pub async fn a_settlement_cut_anywhere_is_stored_once(on: FreshOutbox) {
    let leader = on.lead("first").await;
    for polls in 0..POLLS_MAX {
        let before = on.parked().await;
        on.commit(&events(3)).await;
        let rest = on.some(&leader).await;
        let settle = Settle {
            upto: Some((rest.pass, rest.upto)),
            ends: true,
            park: vec![failed(&rest.placed[0]), behind(&rest.placed[2])],
            ..settlement(&leader)
        };
        let through = cut(polls, on.store.settle(settle.clone())).await.is_some();
        on.settle(settle).await;
        assert!(on.rest(&leader).await.is_none(), "cut at {polls}");
        let parked = on.parked().await;
        assert_eq!(parked.len(), before.len() + 2, "cut at {polls}");
        assert_eq!(parked[..before.len()], before);
        if through {
            return;
        }
    }
    panic!("a settlement is never ready")
}

/// A mark that was cut off is made by its repeat.
pub async fn a_mark_cut_anywhere_is_made_by_its_repeat(on: FreshOutbox) {
    let leader = on.lead("first").await;
    for polls in 0..POLLS_MAX {
        let rows = on.park_lane(&leader, &format!("{polls}"), 1).await;
        let seq = rows[0].seq;
        let mark = on.inspect.mark(kafka(), vec![seq], ParkedState::Skip, actor());
        let through = cut(polls, mark).await.is_some();
        assert_eq!(on.mark(&[seq], ParkedState::Skip).await, 1, "cut at {polls}");
        assert_eq!(on.parked().await.last().map(|row| row.state), Some(ParkedState::Skip));
        let audit = on.inspect.outbox_audit(Some(kafka()), 1_000).await.unwrap();
        let said = audit.iter().filter(|row| row.event == Some(rows[0].placed.event.id)).count();
        assert!(said == 2 || said == 1 && !through, "{said} words in the audit, cut at {polls}");
        if through {
            return;
        }
    }
    panic!("a mark is never ready")
}

/// A replay that was cut off is done once by its repeat.
pub async fn a_replay_cut_anywhere_is_done_once(on: FreshOutbox) {
    let leader = on.lead("first").await;
    for polls in 0..POLLS_MAX {
        let id = format!("{polls}");
        let told = [event(&id, "1"), event(&id, "2")];
        on.commit(&told).await;
        on.drain(&leader).await;
        let filter = EventFilter { lane: Some(lane(&id)), limit: 10, ..EventFilter::default() };
        let replay = on.inspect.replay(kafka(), filter.clone(), LeftOut::Stays, actor());
        let through = cut(polls, replay).await.is_some();
        on.inspect.replay(kafka(), filter, LeftOut::Stays, actor()).await.unwrap();
        let parked = parked_ids(&on.parked().await);
        assert_eq!(parked[parked.len() - 2..], ids_of(&told), "cut at {polls}");
        assert_eq!(parked.len(), 2 * (polls + 1));
        if through {
            return;
        }
    }
    panic!("a replay is never ready")
}

/// Forgetting that was cut off is done whole or not at all.
pub async fn forgetting_cut_anywhere_is_whole(on: FreshOutbox) {
    for polls in 0..POLLS_MAX {
        let leader = on.lead("first").await;
        on.drain(&leader).await;
        let rows = on.park_lane(&leader, "a", 2).await.len();
        on.store.resign(leader).await.unwrap();
        let through = cut(polls, on.inspect.forget(kafka(), actor())).await.is_some();
        let (left, parked) = seen(&on).await;
        assert_eq!(parked, if left { rows } else { 0 }, "cut at {polls}");
        assert!(!(left && through));
        on.inspect.forget(kafka(), actor()).await.unwrap();
        assert_eq!((on.state_of(&kafka()).await, on.parked().await), (None, vec![]));
        if through {
            return;
        }
    }
    panic!("forgetting is never ready")
}

/// Whether the destination is there and how many rows are parked for it, both at one time: what was cut
/// off may still happen between two looks.
async fn seen(on: &FreshOutbox) -> (bool, usize) {
    let is_there = async || on.state_of(&kafka()).await.is_some();
    loop {
        let (before, parked) = (is_there().await, on.parked().await.len());
        // Forgotten once, it stays so: this ends.
        if is_there().await == before {
            return (before, parked);
        }
    }
}

/// A step of retention that was cut off leaves an outbox that goes on.
pub async fn retention_cut_anywhere_leaves_an_outbox_that_goes_on(on: FreshOutbox) {
    let Some(retain) = on.retain.clone() else { return };
    let leader = on.lead("first").await;
    for polls in 0..POLLS_MAX {
        let told = events(2);
        on.commit(&told).await;
        assert_eq!(ids(&on.drain(&leader).await), ids_of(&told));
        on.age().await;
        let through = cut(polls, retain.retain(KEEP)).await.is_some();
        on.retain(&retain).await;
        assert_eq!(on.events().await, [], "cut at {polls}");
        if through {
            return;
        }
    }
    panic!("a step of retention is never ready")
}
