//! Races: whoever comes at the same instant, one wins, and everybody is told the truth.

use std::sync::Arc;

use semel::{
    IntentId, Outcome, State,
    decide::{Ask, Grant, Resolution, Verdict},
    store::{ClaimAnswer, Completed, ReleaseAnswer, Renewed},
};
use tokio::{sync::Barrier, task::JoinSet};

use super::{Fresh, verbs::*};

/// Runs `racers` at once, each in a task of its own, and returns what they got.
async fn race<T, F>(racers: Vec<F>) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(racers.len()));
    let mut tasks = JoinSet::new();
    for racer in racers {
        let barrier = Arc::clone(&barrier);
        tasks.spawn(async move {
            barrier.wait().await;
            racer.await
        });
    }
    tasks.join_all().await
}

async fn claims(on: &Arc<Fresh>, asks: Vec<Ask>) -> Vec<ClaimAnswer> {
    let claim = |ask| {
        let on = Arc::clone(on);
        async move { on.claim(ask).await }
    };
    race(asks.into_iter().map(claim).collect()).await
}

fn won(answers: &[ClaimAnswer]) -> usize {
    answers.iter().filter(|answer| matches!(answer, ClaimAnswer::Granted { .. })).count()
}

/// C01, C02, C05, C07: of 64 callers at once one wins, and the others are told that it works.
pub async fn one_of_64_callers_wins(on: Fresh) {
    let (on, id) = (Arc::new(on), id("k"));
    let answers = claims(&on, (0..64).map(|_| ask(&id)).collect()).await;
    assert_eq!(won(&answers), 1);
    for answer in answers {
        match answer {
            ClaimAnswer::Granted { permit, .. } => assert_eq!(on.kept(&id).await.permit(), permit),
            other => in_progress(other),
        }
    }
}

/// Of 64 callers on each of 16 keys at once, one wins each key.
pub async fn one_of_64_callers_wins_each_of_16_keys(on: Fresh) {
    let on = Arc::new(on);
    let ids: Vec<IntentId> = (0..16).map(|n| id(&format!("k{n}"))).collect();
    let asks: Vec<_> = (0..64 * 16).map(|n| ask(&ids[n % 16])).collect();
    let answers = claims(&on, asks).await;
    for id in &ids {
        let own = |answer: &&ClaimAnswer| matches!(answer, ClaimAnswer::Granted { permit, .. } if permit.id == *id);
        assert_eq!(answers.iter().filter(own).count(), 1, "{id}");
    }
    assert_eq!(won(&answers), 16);
}

/// M79: batches that name the same keys in different orders neither wait for each other for ever nor
/// both win.
pub async fn crossing_batches_win_each_key_once(on: Fresh) {
    let on = Arc::new(on);
    let ids: Vec<IntentId> = (0..32).map(|n| id(&format!("k{n}"))).collect();
    let batch = |n: usize| {
        let on = Arc::clone(&on);
        let mut asks: Vec<_> = ids.iter().map(ask).collect();
        asks.rotate_left(n * 5 % 32);
        if n % 2 == 1 {
            asks.reverse();
        }
        async move { on.store.claim(asks).await.unwrap() }
    };
    let answers = race((0..16).map(batch).collect()).await;
    let answers: Vec<_> = answers.into_iter().flatten().map(|claimed| claimed.answer).collect();
    assert_eq!((answers.len(), won(&answers)), (16 * 32, 32));
}

/// The same claim sent many times at once, as by a network that repeats, is one claim.
pub async fn copies_of_one_claim_are_one_claim(on: Fresh) {
    let on = Arc::new(on);
    let asked = ask(&id("k"));
    let answers = claims(&on, vec![asked; 32]).await;
    let permits: Vec<_> = answers.into_iter().map(granted).collect();
    assert!(permits.iter().all(|(permit, _)| *permit == permits[0].0));
    let fresh = permits.iter().filter(|(_, grant)| *grant == Some(Grant::Fresh)).count();
    assert_eq!(fresh, 1);
}

/// S17, M26: of 8 callers at the moment a lease is over, exactly one takes over.
pub async fn one_of_8_takes_over(on: Fresh) {
    let (on, id) = (Arc::new(on), id("k"));
    let old = on.take(rerun(&id)).await;
    on.after(LEASE).await;
    let answers = claims(&on, (0..8).map(|_| rerun(&id)).collect()).await;
    assert_eq!(won(&answers), 1);
    assert_eq!(on.kept(&id).await.takeovers, 1);
    assert_eq!(on.renew(&old).await, Renewed::Stale);
}

/// Under hold, all of 8 callers at that moment are told that nobody can say.
pub async fn none_of_8_takes_over_under_hold(on: Fresh) {
    let (on, id) = (Arc::new(on), id("k"));
    on.hold(&id).await;
    on.after(LEASE).await;
    for answer in claims(&on, (0..8).map(|_| ask(&id)).collect()).await {
        unknown(answer);
    }
}

/// Of many who reopen a released intent at once, one wins.
pub async fn one_of_16_reopens(on: Fresh) {
    let (on, id) = (Arc::new(on), id("k"));
    let permit = on.hold(&id).await;
    on.release(&id, clean(&permit)).await;
    let answers = claims(&on, (0..16).map(|_| ask(&id)).collect()).await;
    assert_eq!(won(&answers), 1);
}

/// Of many ends by one permit at once, one is stored and all are shown it.
pub async fn one_of_8_completions_is_stored(on: Fresh) {
    let (on, id) = (Arc::new(on), id("k"));
    let permit = on.hold(&id).await;
    let end = |n: u16| {
        let (on, permit) = (Arc::clone(&on), permit.clone());
        async move { (n, on.complete(&permit, done(Outcome::new(n, "x"))).await) }
    };
    let answers = race((200..208).map(end).collect()).await;
    let kept = replayed(on.claim(ask(&id)).await).status;
    let mut stored = Vec::new();
    for (status, answer) in answers {
        match answer {
            Completed::Stored => stored.push(status),
            Completed::Already(record) => assert_eq!(record.outcome.unwrap().status, kept),
            Completed::Stale => panic!("a permit that has not ended is not stale"),
        }
    }
    assert_eq!(stored, [kept]);
}

/// A completion and a release by one permit at once: one is stored, and the other is told.
pub async fn a_completion_and_a_release_do_not_both_win(on: Fresh) {
    let on = Arc::new(on);
    for n in 0..16 {
        let id = id(&format!("k{n}"));
        let permit = on.hold(&id).await;
        let (ender, giver) = (Arc::clone(&on), Arc::clone(&on));
        let (ended, given) = (permit.clone(), permit.clone());
        let end = tokio::spawn(async move { ender.complete(&ended, done(created())).await });
        let give = tokio::spawn(async move { giver.release(&given.id, clean(&given)).await });
        let state = |record: semel::Record| record.state;
        match (end.await.unwrap(), give.await.unwrap()) {
            (Completed::Stored, ReleaseAnswer::NotHeld) => {
                assert_eq!(state(on.kept(&id).await), State::Done);
            }
            (Completed::Stale, ReleaseAnswer::Stored) => {
                assert_eq!(state(on.kept(&id).await), State::Open);
            }
            both => panic!("{both:?}"),
        }
    }
}

/// A late completion and a resolution at once: one is stored, and the other is told.
pub async fn a_late_completion_and_a_resolution_do_not_both_win(on: Fresh) {
    let on = Arc::new(on);
    for n in 0..16 {
        let id = id(&format!("k{n}"));
        let permit = on.lost(&id).await;
        let (ender, solver) = (Arc::clone(&on), Arc::clone(&on));
        let (ended, said) = (permit.clone(), verdict(&permit, Verdict::Done(Outcome::new(1, ""))));
        let name = id.clone();
        let end = tokio::spawn(async move { ender.complete(&ended, done(created())).await });
        let say = tokio::spawn(async move { solver.resolve(&name, said).await });
        let status = async || replayed(on.claim(ask(&id)).await).status;
        match (end.await.unwrap(), say.await.unwrap()) {
            (Completed::Stored, Resolution::Changed(State::Done)) => {
                assert_eq!(status().await, 201);
            }
            (Completed::Stale, Resolution::Stored) => assert_eq!(status().await, 1),
            both => panic!("{both:?}"),
        }
    }
}

/// Everything at once on one key leaves one holder, whose permit is the one that is kept.
pub async fn a_storm_leaves_one_truth(on: Fresh) {
    let (on, id) = (Arc::new(on), id("k"));
    let turn = |n: usize| {
        let (on, id) = (Arc::clone(&on), id.clone());
        async move {
            for _ in 0..10 {
                let ClaimAnswer::Granted { permit, .. } = on.claim(rerun(&id)).await else {
                    continue;
                };
                assert_eq!(on.renew(&permit).await, Renewed::Held, "nobody ended this permit");
                assert_eq!(on.release(&id, clean(&permit)).await, ReleaseAnswer::Stored, "{n}");
                assert_eq!(on.renew(&permit).await, Renewed::Stale);
            }
        }
    };
    race((0..16).map(turn).collect()).await;
    let last = on.hold(&id).await;
    assert_eq!(on.complete(&last, done(created())).await, Completed::Stored);
}
