//! Giving back: what was known to have had no effect can be claimed again.

use semel::{
    Outcome, State,
    decide::{Ask, Grant, OnLost, Refusal, ReleaseAsk},
    store::{Completed, ReleaseAnswer},
};

use super::{Fresh, verbs::*};

/// C14, S20: what is released can be claimed at once.
pub async fn a_released_intent_is_free_at_once(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    assert_eq!(on.release(&id, clean(&permit)).await, ReleaseAnswer::Stored);
    let record = on.kept(&id).await;
    assert_eq!((record.state, record.reason.as_deref()), (State::Open, Some("no-effect")));
    let (again, grant) = granted(on.claim(ask(&id)).await);
    assert_eq!(grant, Some(Grant::Reopened));
    assert_eq!(on.complete(&again, done(created())).await, Completed::Stored);
}

/// After a clean release other content is welcome, and begins a new incarnation.
pub async fn a_clean_release_does_not_compare(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    on.release(&id, clean(&permit)).await;
    let (again, grant) = granted(on.claim(other(&id)).await);
    assert_eq!((again.incarnation, grant), (1, Some(Grant::Reopened)));
    assert_eq!(on.kept(&id).await.fingerprint, content("pay 11"));
    assert_eq!(refused(on.claim(ask(&id)).await), Refusal::Mismatch);
}

/// After a clean release the same content goes on in the same incarnation.
pub async fn a_clean_release_keeps_the_incarnation_of_the_same_content(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    on.release(&id, clean(&permit)).await;
    assert_eq!(on.hold(&id).await.incarnation, 0);
}

/// A release that says "some run may have had an effect" compares, in the same incarnation.
pub async fn a_release_in_doubt_compares(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    on.release(&id, ReleaseAsk { compare: true, ..clean(&permit) }).await;
    assert_eq!(refused(on.claim(other(&id)).await), Refusal::Mismatch);
    let again = on.hold(&id).await;
    assert_eq!(again.incarnation, 0);
    // What may have had an effect stays so, whatever a later run says of itself.
    on.release(&id, clean(&again)).await;
    assert_eq!(refused(on.claim(other(&id)).await), Refusal::Mismatch);
}

/// After a take-over nobody can say that no run had an effect: the release compares.
pub async fn a_release_after_a_take_over_compares(on: Fresh) {
    let id = id("k");
    let (_, new) = on.taken_over(&id).await;
    assert_eq!(on.release(&id, clean(&new)).await, ReleaseAnswer::Stored);
    assert_eq!(refused(on.claim(other(&id)).await), Refusal::Mismatch);
    assert_eq!(on.take(Ask { on_lost: OnLost::Rerun, ..ask(&id) }).await.incarnation, 0);
}

/// A claim whose answer was lost is given back by its token alone.
pub async fn a_release_by_token_alone_works(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    let by_token = ReleaseAsk { fence: None, ..clean(&permit) };
    assert_eq!(on.release(&id, by_token.clone()).await, ReleaseAnswer::Stored);
    assert_eq!(on.release(&id, by_token).await, ReleaseAnswer::Already);
    on.hold(&id).await;
}

/// A release of nothing tells the store's time, so that its caller knows whether a claim that is
/// still on its way can be granted.
pub async fn a_release_of_nothing_tells_the_stores_time(on: Fresh) {
    let id = id("k");
    let not_after = on.now().await;
    let stray =
        ReleaseAsk { token: token(), fence: None, ..clean(&on.hold(&super::verbs::id("x")).await) };
    on.after(INSTANT).await;
    let released = on.store.release(id.clone(), stray.clone()).await.unwrap();
    assert_eq!(released.answer, ReleaseAnswer::NotHeld);
    assert!(released.now > not_after && released.now <= on.now().await);
    assert_eq!(on.record(&id).await, None);
}

/// The release of an abandoned claim comes first, then the claim: it is granted before its
/// `not_after` and given back by the next release, or too late and never granted.
pub async fn an_abandoned_claim_is_given_back_or_too_late(on: Fresh) {
    let id = id("k");
    let asked = Ask { not_after: on.now().await.after(LEASE), ..ask(&id) };
    let by_token = ReleaseAsk {
        token: asked.token,
        fence: None,
        compare: false,
        reason: None,
        remember_for: REMEMBER,
    };
    assert_eq!(on.release(&id, by_token.clone()).await, ReleaseAnswer::NotHeld);
    on.take(asked.clone()).await;
    assert_eq!(on.release(&id, by_token.clone()).await, ReleaseAnswer::Stored);
    assert_eq!(on.claim(asked).await, semel::store::ClaimAnswer::Stale);

    let two = super::verbs::id("k2");
    let asked = Ask { not_after: on.now().await.after(LEASE), ..ask(&two) };
    on.after(LEASE + INSTANT).await;
    let released = on.store.release(two.clone(), by_token).await.unwrap();
    assert!(released.answer == ReleaseAnswer::NotHeld && released.now > asked.not_after);
    assert_eq!(on.claim(asked).await, semel::store::ClaimAnswer::TooLate);
}

/// A release that comes again after somebody else has claimed leaves that one alone.
pub async fn a_release_repeated_after_the_next_claim_is_not_held(on: Fresh) {
    let id = id("k");
    let old = on.hold(&id).await;
    on.release(&id, clean(&old)).await;
    let new = on.hold(&id).await;
    assert_eq!(on.release(&id, clean(&old)).await, ReleaseAnswer::NotHeld);
    assert_eq!(on.kept(&id).await.permit(), new);
}

/// An open intent keeps no outcome of anybody.
pub async fn an_open_intent_replays_nothing(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    on.release(&id, clean(&permit)).await;
    assert_eq!(on.complete(&permit, done(Outcome::new(200, "late"))).await, Completed::Stale);
    assert_eq!(on.kept(&id).await.outcome, None);
    granted(on.claim(ask(&id)).await);
}
