//! Outcomes: what was kept is replayed, byte for byte.

use bytes::Bytes;
use semel::{
    Outcome, State,
    decide::FinishKind,
    outcome::{Body, Pointer},
    store::Completed,
};

use super::{Fresh, verbs::*};

async fn comes_back(on: Fresh, outcome: Outcome) {
    for (key, kind) in [("done", FinishKind::Done), ("failed", FinishKind::Failed)] {
        let id = id(key);
        let permit = on.hold(&id).await;
        let stored = on.complete(&permit, finish(kind, Some(outcome.clone()))).await;
        assert_eq!(stored, Completed::Stored);
        assert_eq!(replayed(on.claim(ask(&id)).await), outcome);
        let record = on.kept(&id).await;
        assert_eq!(record.outcome.as_ref(), Some(&outcome));
        assert_eq!(record.pointer, outcome.pointer);
    }
}

/// S01: an empty body is a body.
pub async fn an_empty_body_comes_back(on: Fresh) {
    comes_back(on, Outcome::new(204, "")).await;
}

/// C77: every byte comes back.
pub async fn a_binary_body_comes_back(on: Fresh) {
    let all: Vec<u8> = (0..=255).collect();
    comes_back(on, Outcome::new(200, all).header("content-type", "image/png")).await;
}

/// A body of 1 MiB comes back.
pub async fn a_large_body_comes_back(on: Fresh) {
    let body: Vec<u8> = (0..1024 * 1024_u32).map(|n| (n * 31 % 251).to_le_bytes()[0]).collect();
    comes_back(on, Outcome::new(200, body)).await;
}

/// The largest body that the store declares comes back.
pub async fn the_largest_declared_body_comes_back(on: Fresh) {
    let max = on.store.capabilities().body_max.min(16 * 1024 * 1024);
    comes_back(on, Outcome::new(200, vec![7; max])).await;
}

/// C70, C71: headers come back as the lines they were, in order, values apart and byte for byte.
pub async fn headers_come_back_line_by_line(on: Fresh) {
    let outcome = Outcome::new(201, "{}")
        .header("set-cookie", "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT")
        .header("link", "</a>; rel=next")
        .header("set-cookie", "b=2")
        .header("link", "</b>; rel=prev")
        .header("content-disposition", "attachment; filename=\"a,b.txt\"")
        .header("location", "/payments/7")
        .header("x-empty", "")
        .header("x-bytes", Bytes::from_static(b"\xff\x80caf\xe9"));
    comes_back(on, outcome).await;
}

/// As many headers as an outcome may have come back.
pub async fn many_headers_come_back(on: Fresh) {
    let line = |outcome: Outcome, n: usize| {
        outcome.header(if n.is_multiple_of(2) { "x-same" } else { "x-other" }, n.to_string())
    };
    let outcome = (0..Outcome::HEADERS_MAX).fold(Outcome::new(200, "ok"), line);
    comes_back(on, outcome).await;
}

/// A body that was not kept comes back as that, not as an empty one.
pub async fn a_body_that_was_not_kept_is_told_apart_from_an_empty_one(on: Fresh) {
    let outcome = Outcome::without_body(200).header("etag", "\"7\"").pointer("report", "r/7");
    assert_ne!(outcome.body, Body::Kept(Bytes::new()));
    comes_back(on, outcome).await;
}

/// A pointer comes back, whatever text its id is.
pub async fn a_pointer_comes_back(on: Fresh) {
    let id = "é/ü — 100%".repeat(15);
    assert!(id.len() <= Outcome::POINTER_MAX);
    comes_back(on, Outcome::new(201, "").pointer("payment", &id)).await;
}

/// Status numbers of every size come back.
pub async fn every_status_comes_back(on: Fresh) {
    for status in [0, 99, 200, 599, u16::MAX] {
        let id = id(&format!("k{status}"));
        let permit = on.hold(&id).await;
        on.complete(&permit, done(Outcome::new(status, "x"))).await;
        assert_eq!(replayed(on.claim(ask(&id)).await).status, status);
    }
}

/// C25, C68: a final failure is an outcome too, and is told apart from success.
pub async fn a_final_failure_is_replayed(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    let refusal = Outcome::new(409, "out of stock");
    on.complete(&permit, finish(FinishKind::Failed, Some(refusal.clone()))).await;
    assert_eq!(on.kept(&id).await.state, State::Failed);
    assert_eq!(replayed(on.claim(ask(&id)).await), refusal);
}

/// C80: a completion whose answer was lost is stored once; the repeat shows what is kept.
pub async fn a_repeated_completion_shows_what_is_kept(on: Fresh) {
    let id = id("k");
    let permit = on.finished(&id).await;
    let record = on.kept(&id).await;
    on.after(INSTANT).await;
    let again = on.complete(&permit, done(created())).await;
    assert_eq!(again, Completed::Already(Box::new(record.clone())));
    assert_eq!(on.kept(&id).await, record);
}

/// The first of two ends by one permit wins.
pub async fn the_first_of_two_ends_wins(on: Fresh) {
    let id = id("k");
    let permit = on.finished(&id).await;
    let record = on.kept(&id).await;
    for (kind, outcome) in [
        (FinishKind::Done, Some(Outcome::new(500, "second"))),
        (FinishKind::Failed, Some(Outcome::new(402, "second"))),
        (FinishKind::Unknown, None),
    ] {
        let answer = on.complete(&permit, finish(kind, outcome)).await;
        assert_eq!(answer, Completed::Already(Box::new(record.clone())), "{kind:?}");
    }
    assert_eq!(replayed(on.claim(ask(&id)).await), created());
    assert_eq!(on.audit(&id).await, []);
}

/// The pointer of an outcome can be read beside it.
pub async fn the_pointer_is_kept_beside_the_outcome(on: Fresh) {
    let id = id("k");
    on.finished(&id).await;
    let pointer = Pointer { kind: "payment".into(), id: "pay_7".into() };
    assert_eq!(on.kept(&id).await.pointer, Some(pointer));
}
