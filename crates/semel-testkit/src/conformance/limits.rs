//! Bounds: what breaks one is refused as invalid, and nothing is written.

use semel::{
    Outcome, Permit,
    decide::{Ask, FinishKind, ReleaseAsk, Verdict},
    store::{Actor, BATCH_MAX, Completed, Renew},
};

use super::{Fresh, verbs::*};

/// A batch over the bound is refused whole, in every verb that takes one.
pub async fn a_batch_over_the_bound_is_refused_whole(on: Fresh) {
    let ids: Vec<_> = (0..=BATCH_MAX).map(|n| id(&format!("k{n}"))).collect();
    invalid(on.store.claim(ids.iter().map(ask).collect()).await);
    assert_eq!(on.record(&ids[0]).await, None);
    let permit = on.hold(&ids[0]).await;
    let lease = on.kept(&ids[0]).await.lease;
    on.after(INSTANT).await;
    invalid(on.store.renew(vec![Renew::of(&permit, LEASE * 2); BATCH_MAX + 1]).await);
    assert_eq!(on.kept(&ids[0]).await.lease, lease);
    invalid(on.store.read(ids).await.map(|reading| reading.records.len()));
}

async fn is_refused(on: &Fresh, permit: &Permit, outcome: Outcome) {
    let record = on.kept(&permit.id).await;
    for kind in [FinishKind::Done, FinishKind::Failed] {
        let finish = finish(kind, Some(outcome.clone()));
        invalid(on.store.complete(permit.clone(), finish).await);
    }
    assert_eq!(on.kept(&permit.id).await, record);
}

/// An outcome over a bound is refused, and the holder stays the holder.
pub async fn an_outcome_over_a_bound_is_refused(on: Fresh) {
    let permit = on.hold(&id("k")).await;
    let many = (0..=Outcome::HEADERS_MAX).fold(Outcome::new(200, ""), |o, _| o.header("a", "b"));
    is_refused(&on, &permit, many).await;
    let long = Outcome::new(200, "").header("a", vec![b'x'; Outcome::HEADER_BYTES_MAX]);
    is_refused(&on, &permit, long).await;
    let pointer = Outcome::new(200, "").pointer(&"k".repeat(Outcome::POINTER_MAX + 1), "7");
    is_refused(&on, &permit, pointer).await;
    let max = on.store.capabilities().body_max;
    is_refused(&on, &permit, Outcome::new(200, vec![0; max + 1])).await;
    assert_eq!(on.complete(&permit, done(created())).await, Completed::Stored);
}

/// An outcome found out by an operator keeps the same bounds.
pub async fn a_resolution_over_a_bound_is_refused(on: Fresh) {
    let id = id("k");
    let permit = on.lost(&id).await;
    let record = on.kept(&id).await;
    let max = on.store.capabilities().body_max;
    let large = verdict(&permit, Verdict::Done(Outcome::new(200, vec![0; max + 1])));
    invalid(on.store.resolve(id.clone(), large, actor()).await);
    let fits = verdict(&permit, Verdict::Done(created()));
    let name = Actor { name: "a".repeat(Actor::NAME_MAX + 1).into(), ..actor() };
    invalid(on.store.resolve(id.clone(), fits.clone(), name).await);
    let note = Actor { note: "a".repeat(Actor::NOTE_MAX + 1).into(), ..actor() };
    invalid(on.store.resolve(id.clone(), fits, note).await);
    assert_eq!(on.kept(&id).await, record);
    assert_eq!(on.audit(&id).await, []);
}

/// A claim over a bound is refused, with the whole of its batch.
pub async fn a_claim_over_a_bound_is_refused(on: Fresh) {
    let id = id("k");
    let long = "x".repeat(Ask::CLAIMED_BY_MAX + 1);
    let claimed_by = Ask { claimed_by: Some(long.into()), ..ask(&id) };
    let older = Ask { older: vec![content("x"); Ask::OLDER_MAX + 1], ..ask(&id) };
    for broken in [claimed_by, older] {
        invalid(on.store.claim(vec![ask(&id), broken]).await);
        assert_eq!(on.record(&id).await, None);
    }
    let long = "x".repeat(Ask::CLAIMED_BY_MAX);
    on.take(Ask { claimed_by: Some(long.into()), ..ask(&id) }).await;
}

/// A reason over the bound is refused.
pub async fn a_reason_over_the_bound_is_refused(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    let record = on.kept(&id).await;
    let long: Option<Box<str>> = Some("x".repeat(ReleaseAsk::REASON_MAX + 1).into());
    let release = ReleaseAsk { reason: long.clone(), ..clean(&permit) };
    invalid(on.store.release(id.clone(), release).await);
    let doubt = semel::decide::Finish { reason: long, ..finish(FinishKind::Unknown, None) };
    invalid(on.store.complete(permit.clone(), doubt).await);
    assert_eq!(on.kept(&id).await, record);
}

/// Reading nothing tells the time; reading what is not there says so, in the order asked.
pub async fn reading_answers_in_the_order_asked(on: Fresh) {
    let (one, two) = (id("k1"), id("k2"));
    on.hold(&two).await;
    on.hold(&one).await;
    let asked = vec![two.clone(), id("absent"), one.clone(), two.clone()];
    let reading = on.store.read(asked).await.unwrap();
    let seen: Vec<_> = reading.records.into_iter().map(|r| r.map(|record| record.id)).collect();
    assert_eq!(seen, [Some(two.clone()), None, Some(one), Some(two)]);
    let empty = on.store.read(Vec::new()).await.unwrap();
    assert!(empty.records.is_empty());
}

/// The store's time goes on and never back.
pub async fn time_goes_on(on: Fresh) {
    let mut last = on.now().await;
    for step in 1..=20 {
        on.hold(&id(&format!("k{step}"))).await;
        on.after(INSTANT * step).await;
        let now = on.now().await;
        assert!(now > last, "{now:?} is not after {last:?}");
        last = now;
    }
}
