//! Cancellation: a verb whose future is dropped at any point leaves an inbox in which the repeat gets
//! the right answer.

use semel::inbox::{Mark, Mismatch, ParkAnswer, Standing, Uncount};

use super::{
    super::cancel::{POLLS_MAX, cut},
    FreshInbox,
    verbs::*,
};

/// A run that was cut off is committed whole or not at all: the next copy leaves one effect.
pub async fn a_run_cut_anywhere_leaves_one_effect(on: FreshInbox) {
    for polls in 0..POLLS_MAX {
        let sent = delivery(&format!("m{polls}"));
        let through = cut(polls, on.answer(&sent, "paid")).await.is_some();
        let handled = on.answer(&sent, "paid").await;
        assert!(!(through && is_first(&handled)), "run twice, cut at {polls}");
        assert_eq!(copy(on.handle(&sent).await).answer.as_deref(), Some(&b"paid"[..]));
        assert_eq!(on.effects_of(sent.message.id()).await, 1, "cut at {polls}");
        if through {
            return;
        }
    }
    panic!("a run is never ready")
}

/// The same holds for a batch.
pub async fn a_batch_cut_anywhere_leaves_one_effect_each(on: FreshInbox) {
    for polls in 0..POLLS_MAX {
        let batch: Vec<_> = (0..3).map(|number| delivery(&format!("m{polls}-{number}"))).collect();
        let through = cut(polls, on.batch(policy(), batch.clone())).await.is_some();
        let again = firsts(&on.batch(policy(), batch.clone()).await.unwrap());
        assert!(again == 3 || again == 0, "{again} of 3 were committed, cut at {polls}");
        assert!(!(through && again > 0), "run twice, cut at {polls}");
        for sent in batch {
            assert_eq!(on.effects_of(sent.message.id()).await, 1, "cut at {polls}");
        }
        if through {
            return;
        }
    }
    panic!("a batch is never ready")
}

/// A count that was cut off counted once or not at all.
pub async fn a_count_cut_anywhere_counts_at_most_once(on: FreshInbox) {
    for polls in 0..POLLS_MAX {
        let name = message(&format!("m{polls}"));
        let count = || on.store.count(billing(), vec![name.clone()]);
        let through = cut(polls, count()).await.is_some();
        let counted = count().await.unwrap()[0].count;
        assert!(counted == 2 || counted == 1 && !through, "{counted}, cut at {polls}");
        if through {
            return;
        }
    }
    panic!("a count is never ready")
}

/// That attempts are over and was cut off holds after its repeat, and takes nothing else along.
pub async fn an_end_cut_anywhere_is_one_after_its_repeat(on: FreshInbox) {
    on.count(&["other"]).await;
    for polls in 0..POLLS_MAX {
        let id = format!("m{polls}");
        let again = on.again(&id).await;
        first(on.handle(&again).await);
        on.count(&[&id]).await;
        let end = on.store.uncount(billing(), vec![message(&id)], Uncount::Ended);
        let through = cut(polls, end).await.is_some();
        on.uncount(&[&id], Uncount::Ended).await;
        until("nothing is left of it", async || {
            on.attempts(&[&id]).await[0].count == 0 && on.parked().await.is_empty()
        })
        .await;
        assert_eq!(counts(&on.attempts(&["other"]).await), [1], "cut at {polls}");
        if through {
            return;
        }
    }
    panic!("an end is never ready")
}

/// An attempt that is given back, cut off and given back again is at most one too few.
pub async fn a_giving_back_cut_anywhere_takes_no_other_attempts(on: FreshInbox) {
    for polls in 0..POLLS_MAX {
        let id = format!("m{polls}");
        for _ in 0..3 {
            on.count(&[&id]).await;
        }
        let back = on.store.uncount(billing(), vec![message(&id)], Uncount::GivenBack);
        let through = cut(polls, back).await.is_some();
        on.uncount(&[&id], Uncount::GivenBack).await;
        until("one is given back", async || on.attempts(&[&id]).await[0].count < 3).await;
        let left = on.attempts(&[&id]).await[0].count;
        assert!(left == 1 || left == 2 && !through, "{left}, cut at {polls}");
        if through {
            return;
        }
    }
    panic!("a giving back is never ready")
}

/// A parking that was cut off is one row after its repeat, and known.
pub async fn a_parking_cut_anywhere_is_one_after_its_repeat(on: FreshInbox) {
    for polls in 0..POLLS_MAX {
        let sent = delivery(&format!("m{polls}"));
        let through = cut(polls, on.store.park(parking(sent.clone()))).await.is_some();
        assert_eq!(on.park(sent.clone()).await, ParkAnswer::Parked, "cut at {polls}");
        assert_eq!(on.parked().await.len(), polls + 1);
        assert_eq!(copy(on.handle(&sent).await).standing, Standing::Parked);
        if through {
            return;
        }
    }
    panic!("a parking is never ready")
}

/// A parking in a log that was cut off has moved the position with it, or neither.
pub async fn a_parking_in_a_log_cut_anywhere_is_whole(on: FreshInbox) {
    for polls in 0..POLLS_MAX {
        let name = format!("l{polls}");
        let park = || semel::inbox::Park { moves: true, ..parking(within(&name, 0)) };
        let through = cut(polls, on.store.park(park())).await.is_some();
        // What was cut off may still happen just now; after the repeat nothing is open any more.
        on.park_as(park()).await;
        assert_eq!((on.next(&name).await, on.parked().await.len()), (Some(1), polls + 1));
        if through {
            return;
        }
    }
    panic!("a parking is never ready")
}

/// A word that was cut off is said once or twice, and holds.
pub async fn a_mark_cut_anywhere_is_made_by_its_repeat(on: FreshInbox) {
    for polls in 0..POLLS_MAX {
        let id = format!("m{polls}");
        assert_eq!(on.park(delivery(&id)).await, ParkAnswer::Parked);
        let mark = on.inspect.mark(billing(), message(&id), Mark::Skip, actor());
        let through = cut(polls, mark).await.is_some();
        assert!(on.mark(&id, Mark::Skip).await);
        let said = on.audit().await.iter().filter(|row| row.message.id() == id).count();
        assert!(said == 2 || said == 1 && !through, "{said} words in the audit, cut at {polls}");
        assert_eq!(copy(on.handle(&delivery(&id)).await).standing, Standing::LeftOut);
        if through {
            return;
        }
    }
    panic!("a mark is never ready")
}

/// A mismatch whose report was cut off is in the audit after its repeat.
pub async fn a_report_cut_anywhere_is_there_after_its_repeat(on: FreshInbox) {
    for polls in 0..POLLS_MAX {
        let (id, digest) = (format!("m{polls}"), delivery("a").fingerprint());
        let report = || {
            let (consumer, message) = (billing(), message(&id));
            on.store.report(Mismatch { consumer, message, recorded: digest, came: digest })
        };
        let through = cut(polls, report()).await.is_some();
        report().await.unwrap();
        let told = on.audit().await.iter().filter(|row| row.message.id() == id).count();
        assert!(told == 2 || told == 1 && !through, "{told} rows, cut at {polls}");
        if through {
            return;
        }
    }
    panic!("a report is never ready")
}

/// A step of the sweep that was cut off leaves an inbox that goes on.
pub async fn a_sweep_cut_anywhere_is_done_by_its_repeat(on: FreshInbox) {
    for polls in 0..POLLS_MAX {
        let id = format!("m{polls}");
        on.handle(&delivery(&id)).await;
        on.after(31 * DAY).await;
        on.handle(&delivery(&format!("{id} young"))).await;
        let through = cut(polls, on.sweep.sweep_inbox(100)).await.is_some();
        on.swept(100).await;
        until("the old one is forgotten", async || on.remembered().await == 1).await;
        copy(on.handle(&delivery(&format!("{id} young"))).await);
        if through {
            return;
        }
    }
    panic!("a step of the sweep is never ready")
}

/// Reads that were cut off leave an inbox that goes on.
pub async fn a_read_cut_anywhere_leaves_an_inbox_that_goes_on(on: FreshInbox) {
    on.again("due").await;
    for polls in 0..POLLS_MAX {
        let attempts = cut(polls, on.store.attempts(billing(), vec![message("a")])).await;
        let due = cut(polls, on.store.due(billing(), 10)).await;
        let positions = cut(polls, on.store.positions(billing(), vec![log("a")])).await;
        let checked = cut(polls, on.store.check()).await;
        assert_eq!((counts(&on.attempts(&["a"]).await), on.due().await.len()), (vec![0], 1));
        first(on.handle(&delivery(&format!("m{polls}"))).await);
        let through = attempts.is_some() && due.is_some() && positions.is_some();
        if through && checked.is_some() {
            return;
        }
    }
    panic!("a read is never ready")
}
