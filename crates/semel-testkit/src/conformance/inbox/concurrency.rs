//! Races: whoever comes at once, there is one effect.

use std::{future::Future, sync::Arc};

use semel::inbox::{Handled, Mark, ParkAnswer, Standing};
use tokio::{sync::Barrier, task::JoinSet};

use super::{FreshInbox, verbs::*};

/// Does the same at one instant, so many times.
async fn at_once<T, F>(
    on: &Arc<FreshInbox>,
    times: usize,
    done: impl Fn(Arc<FreshInbox>, usize) -> F,
) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let (start, mut all) = (Arc::new(Barrier::new(times)), JoinSet::new());
    for turn in 0..times {
        let (run, start) = (done(Arc::clone(on), turn), Arc::clone(&start));
        all.spawn(async move {
            start.wait().await;
            run.await
        });
    }
    all.join_all().await
}

/// M17, M113: fifty copies at once have one effect, and each is told what it recorded.
pub async fn fifty_copies_at_once_have_one_effect(on: FreshInbox) {
    let on = Arc::new(on);
    let handled = at_once(&on, 50, |on, _| async move { on.answer(&delivery("a"), "paid").await });
    let handled = handled.await;
    assert_eq!((firsts(&handled), on.effects().await), (1, 1));
    for handled in handled {
        let (Handled::First(told) | Handled::Duplicate(Some(told))) = handled else {
            panic!("{handled:?}")
        };
        assert_eq!(told.answer.as_deref(), Some(&b"paid"[..]));
    }
}

/// Of a message that an operator has run again, copies at once have one effect.
pub async fn a_message_run_again_by_many_has_one_effect(on: FreshInbox) {
    let on = Arc::new(on);
    on.again("a").await;
    let handled = at_once(&on, 16, |on, _| async move {
        let again = on.due().await[0].delivery();
        on.handle(&again).await
    });
    assert_eq!((firsts(&handled.await), on.effects().await), (1, 1));
}

/// M79: batches over the same ids, each in another order, neither wait for each other for ever nor stop.
pub async fn crossing_batches_have_one_effect_per_message(on: FreshInbox) {
    let on = Arc::new(on);
    let handled = at_once(&on, 8, |on, turn| async move {
        let mut batch: Vec<_> = (0..40).map(|number| delivery(&format!("m{number}"))).collect();
        batch.rotate_left(turn * 5);
        if turn % 2 == 1 {
            batch.reverse();
        }
        firsts(&on.batch(policy(), batch).await.unwrap())
    });
    assert_eq!(handled.await.into_iter().sum::<usize>(), 40);
    let mut effects = on.worker.effects().await;
    effects.sort();
    effects.dedup();
    assert_eq!((effects.len(), on.effects().await), (40, 40));
}

/// Of two owners of a log, as after a rebalance, each message has one effect.
pub async fn of_two_owners_of_a_log_each_message_has_one_effect(on: FreshInbox) {
    let on = Arc::new(on);
    let owners = at_once(&on, 2, |on, _| async move {
        let mut first = 0;
        for offset in 0..40 {
            first += usize::from(is_first(&on.run_by(by_positions(), &at(offset)).await));
        }
        first
    });
    assert_eq!(owners.await.into_iter().sum::<usize>(), 40);
    assert_eq!((on.effects().await, on.next("a").await), (40, Some(40)));
}

/// Of a parking and an effect at once, one is committed.
pub async fn of_a_parking_and_an_effect_one_is_committed(on: FreshInbox) {
    for round in 0..20 {
        let sent = delivery(&format!("m{round}"));
        let (parked, handled) =
            tokio::join!(on.store.park(parking(sent.clone())), on.handle(&sent));
        // Whoever finds the other at work may be told to come again.
        let parked = match parked {
            Ok(answer) => answer,
            Err(error) => {
                assert_eq!(error.kind(), semel::StoreErrorKind::Busy, "{error}");
                on.park(sent.clone()).await
            }
        };
        assert_ne!(parked == ParkAnswer::Parked, is_first(&handled), "{handled:?}");
        assert_eq!(on.effects_of(sent.message.id()).await, usize::from(is_first(&handled)));
    }
}

/// Of a word that leaves a message out and a run of it at once, one is right: it ran, or it is left out.
pub async fn a_run_again_and_a_skip_agree(on: FreshInbox) {
    for round in 0..20 {
        let id = format!("m{round}");
        let again = on.again(&id).await;
        let (skipped, handled) = tokio::join!(on.mark(&id, Mark::Skip), on.handle(&again));
        let ran = is_first(&handled);
        assert_ne!(skipped, ran, "{handled:?}");
        let standing = on.state(&id).await.recorded.unwrap().standing;
        assert_eq!(standing, if ran { Standing::Done } else { Standing::LeftOut });
        assert_eq!(on.effects_of(&id).await, usize::from(ran));
    }
}

/// Attempts of crossing calls are all counted.
pub async fn attempts_of_crossing_calls_are_all_counted(on: FreshInbox) {
    let on = Arc::new(on);
    at_once(&on, 8, |on, turn| async move {
        let mut names: Vec<_> = (0..50).map(|number| message(&format!("m{number}"))).collect();
        names.rotate_left(turn * 7);
        on.store.count(billing(), names).await.unwrap();
    })
    .await;
    let names = (0..50).map(|number| message(&format!("m{number}"))).collect();
    let read = on.store.attempts(billing(), names).await.unwrap();
    assert!(read.iter().all(|attempts| attempts.count == 8), "{read:?}");
}

/// While a sweep goes on, no copy is run that is still remembered.
pub async fn a_sweep_beside_copies_forgets_nothing_early(on: FreshInbox) {
    let on = Arc::new(on);
    for number in 0..20 {
        on.handle(&delivery(&format!("m{number}"))).await;
    }
    on.after(29 * DAY).await;
    at_once(&on, 4, |on, turn| async move {
        for number in 0..20 {
            if turn == 0 {
                on.swept(5).await;
            } else {
                copy(on.handle(&delivery(&format!("m{number}"))).await);
            }
        }
    })
    .await;
    assert_eq!(on.effects().await, 20);
}
