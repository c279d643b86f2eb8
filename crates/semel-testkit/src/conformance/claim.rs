//! The claim: who becomes the holder, and who does not.

use semel::{
    Phase, State,
    decide::{Ask, Grant, OnLost, Refusal},
    store::{BATCH_MAX, ClaimAnswer, Claimed},
};

use super::{Fresh, verbs::*};

/// A new intent is granted, under the caller's own token.
pub async fn a_new_intent_is_granted(on: Fresh) {
    let id = id("k");
    let asked = ask(&id);
    let (permit, grant) = granted(on.claim(asked.clone()).await);
    assert_eq!(grant, Some(Grant::Fresh));
    assert_eq!((&permit.id, permit.token, permit.incarnation), (&id, asked.token, 0));
    let record = on.kept(&id).await;
    assert_eq!(record.state, State::Running);
    assert_eq!(record.permit(), permit);
    assert_eq!(record.fingerprint, asked.fingerprint);
    assert_eq!(record.claimed_by, asked.claimed_by);
    assert_eq!(record.lease.length, LEASE);
    assert_eq!((record.outcome, record.pointer, record.resolved_by), (None, None, None));
}

/// Everybody but the holder is told who works on it, since when and for how long.
pub async fn others_are_told_that_it_is_in_progress(on: Fresh) {
    let id = id("k");
    on.hold(&id).await;
    on.after(LEASE / 3).await;
    let record = on.kept(&id).await;
    match refused(on.claim(Ask { claimed_by: None, ..ask(&id) }).await) {
        Refusal::InProgress { claimed_at, lease_left, claimed_by } => {
            assert_eq!(claimed_at, Some(record.claimed_at));
            assert_eq!(claimed_by.as_deref(), Some("request-1"));
            assert!(!lease_left.is_zero() && lease_left <= LEASE * 2 / 3, "{lease_left:?}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(on.kept(&id).await, record);
}

/// C19: the claim was committed and its answer lost; the same token asks again and is the holder.
pub async fn an_own_claim_is_recognised_after_a_lost_answer(on: Fresh) {
    let id = id("k");
    let asked = ask(&id);
    let (first, _) = granted(on.claim(asked.clone()).await);
    let record = on.kept(&id).await;
    let (again, grant) = granted(on.claim(asked).await);
    assert_eq!((again, grant), (first, None));
    assert_eq!(on.kept(&id).await, record);
}

/// A repeat of a granted claim is recognised past its `not_after` and past its lease.
pub async fn an_own_claim_is_recognised_when_it_comes_late(on: Fresh) {
    let id = id("k");
    let asked = Ask { not_after: on.now().await.after(LEASE), ..ask(&id) };
    let (first, _) = granted(on.claim(asked.clone()).await);
    on.after(LEASE * 2).await;
    let (again, grant) = granted(on.claim(asked).await);
    assert_eq!((again, grant), (first, None));
}

/// A claim that arrives past its `not_after` makes nobody a holder.
pub async fn a_late_claim_of_a_new_intent_writes_nothing(on: Fresh) {
    let id = id("k");
    let late = Ask { not_after: on.now().await, ..ask(&id) };
    on.after(INSTANT).await;
    assert_eq!(on.claim(late).await, ClaimAnswer::TooLate);
    assert_eq!(on.record(&id).await, None);
    on.hold(&id).await;
}

/// A late claim neither takes over a lost holder nor makes it unknown.
pub async fn a_late_claim_of_a_lost_holder_writes_nothing(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    let record = on.kept(&id).await;
    let deadline = on.now().await.after(LEASE);
    on.after(LEASE + INSTANT).await;
    for on_lost in [OnLost::Hold, OnLost::Reconcile, OnLost::Rerun] {
        let late = Ask { not_after: deadline, on_lost, ..ask(&id) };
        assert_eq!(on.claim(late).await, ClaimAnswer::TooLate, "{on_lost:?}");
    }
    assert_eq!(on.kept(&id).await, record);
    assert_eq!(on.kept(&id).await.permit(), permit);
}

/// A late claim does not reopen what was given back.
pub async fn a_late_claim_of_an_open_intent_writes_nothing(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    on.release(&id, clean(&permit)).await;
    let late = Ask { not_after: on.now().await, ..ask(&id) };
    on.after(INSTANT).await;
    assert_eq!(on.claim(late).await, ClaimAnswer::TooLate);
    assert_eq!(on.phase(&id).await, Phase::Stored(State::Open));
}

/// A late claim of a finished intent gets the outcome: nothing is written for it.
pub async fn a_late_claim_of_a_finished_intent_is_replayed(on: Fresh) {
    let id = id("k");
    let late = Ask { not_after: on.now().await, ..ask(&id) };
    on.finished(&id).await;
    on.after(INSTANT).await;
    assert_eq!(replayed(on.claim(late).await), created());
}

/// Whether a claim is late is judged for each item of a batch.
pub async fn a_late_claim_in_a_batch_is_late_alone(on: Fresh) {
    let (one, two, three) = (id("k1"), id("k2"), id("k3"));
    let late = Ask { not_after: on.now().await, ..ask(&two) };
    on.after(INSTANT).await;
    let answers = on.store.claim(vec![ask(&one), late, ask(&three)]).await.unwrap();
    let late: Vec<_> = answers.iter().map(|c| c.answer == ClaimAnswer::TooLate).collect();
    assert_eq!(late, [false, true, false]);
    assert_eq!(on.record(&two).await, None);
    assert!(on.record(&one).await.is_some() && on.record(&three).await.is_some());
}

/// A batch is answered in the order asked, and every item is decided by itself.
pub async fn every_item_of_a_batch_is_decided_by_itself(on: Fresh) {
    let (held, done, free, mismatch) = (id("z-held"), id("m-done"), id("a-free"), id("q-other"));
    on.hold(&held).await;
    on.finished(&done).await;
    on.hold(&mismatch).await;
    let asks = vec![ask(&held), ask(&free), ask(&done), other(&mismatch)];
    let answers = on.store.claim(asks).await.unwrap();
    let mut answers = answers.into_iter().map(|Claimed { answer, .. }| answer);
    in_progress(answers.next().unwrap());
    assert_eq!(granted(answers.next().unwrap()).0.id, free);
    assert_eq!(replayed(answers.next().unwrap()), created());
    assert_eq!(refused(answers.next().unwrap()), Refusal::Mismatch);
    assert!(answers.next().is_none());
}

/// L18, L21, M79: the same intent twice in a batch is granted once; the second follows the first.
pub async fn the_same_intent_twice_in_a_batch_is_granted_once(on: Fresh) {
    let (one, two) = (id("k1"), id("k2"));
    let asks = vec![ask(&one), ask(&two), ask(&one), other(&one)];
    let answers = on.store.claim(asks).await.unwrap();
    let mut answers = answers.into_iter().map(|claimed| claimed.answer);
    let (permit, _) = granted(answers.next().unwrap());
    assert_eq!(granted(answers.next().unwrap()).0.id, two);
    in_progress(answers.next().unwrap());
    assert_eq!(refused(answers.next().unwrap()), Refusal::Mismatch);
    assert_eq!(on.kept(&one).await.permit(), permit);
}

/// The same claim twice in a batch is one claim.
pub async fn the_same_claim_twice_in_a_batch_is_one_claim(on: Fresh) {
    let asked = ask(&id("k"));
    let answers = on.store.claim(vec![asked.clone(), asked]).await.unwrap();
    let mut answers = answers.into_iter().map(|claimed| granted(claimed.answer));
    let (first, grant) = answers.next().unwrap();
    assert_eq!(grant, Some(Grant::Fresh));
    assert_eq!(answers.next(), Some((first, None)));
}

/// A batch of the largest size is served, whatever the order of its keys.
pub async fn a_batch_of_the_largest_size_is_served(on: Fresh) {
    let key = |n: usize| id(&format!("k{}", (n * 7_919) % 10_007));
    let asks: Vec<_> = (0..BATCH_MAX).map(|n| ask(&key(n))).collect();
    let answers = on.store.claim(asks).await.unwrap();
    assert_eq!(answers.len(), BATCH_MAX);
    for (n, claimed) in answers.into_iter().enumerate() {
        assert_eq!(granted(claimed.answer).0.id, key(n));
    }
}

/// A batch of nothing is answered with nothing.
pub async fn a_batch_of_nothing_is_answered(on: Fresh) {
    assert_eq!(on.store.claim(Vec::new()).await.unwrap(), []);
    assert_eq!(on.store.renew(Vec::new()).await.unwrap(), []);
}

/// The answer carries the store's time when it decided.
pub async fn a_claim_tells_the_stores_time(on: Fresh) {
    let before = on.now().await;
    let claimed = on.store.claim(vec![ask(&id("k"))]).await.unwrap().remove(0);
    let record = on.kept(&id("k")).await;
    assert!(before <= claimed.now && claimed.now <= on.now().await);
    assert_eq!((record.claimed_at, record.created_at), (claimed.now, claimed.now));
    assert_eq!(record.lease.renewed_at, claimed.now);
}

/// A token that was granted and given back since is stale: a delayed copy of its claim makes nobody
/// a holder.
pub async fn a_token_that_was_given_back_is_stale(on: Fresh) {
    let id = id("k");
    let asked = ask(&id);
    let permit = on.take(asked.clone()).await;
    on.release(&id, clean(&permit)).await;
    assert_eq!(on.claim(asked).await, ClaimAnswer::Stale);
    assert_eq!(on.phase(&id).await, Phase::Stored(State::Open));
}

/// A token whose run has ended gets the outcome, as everybody does.
pub async fn a_token_that_has_finished_is_replayed(on: Fresh) {
    let id = id("k");
    let asked = ask(&id);
    let permit = on.take(asked.clone()).await;
    on.complete(&permit, done(created())).await;
    assert_eq!(replayed(on.claim(asked).await), created());
}

/// A token that was lost and held against is told so.
pub async fn a_token_that_was_lost_is_told_unknown(on: Fresh) {
    let id = id("k");
    let asked = ask(&id);
    on.take(asked.clone()).await;
    on.after(LEASE + INSTANT).await;
    unknown(on.claim(ask(&id)).await);
    unknown(on.claim(asked).await);
}
