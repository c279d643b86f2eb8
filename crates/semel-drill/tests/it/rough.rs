//! A right API behind what comes between: limits, lost answers, errors of the moment. None of it is a
//! broken promise, unless it acts twice.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    body::Body,
    extract::Request,
    http::{Method, StatusCode, header},
    middleware::{Next, from_fn},
    response::{IntoResponse as _, Response},
};
use semel_drill::{
    plan::{AnswersSpec, Plan},
    report::{Ended, Verdict},
};

use crate::{
    api::{Api, plan, right_api},
    faults::{drilled, rules, told},
};

/// What comes between.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Between {
    /// Requests beyond a limit are answered 429, those that carry a key or none.
    Limit,
    /// As above, and it is said for how long.
    LimitThatSays,
    /// Answers are lost after the effect.
    Loss,
    /// Requests are answered 500 before they run.
    Errors,
    /// Requests run, are answered 500, and nobody knows their key afterwards.
    ErrorsBehindTheEffect,
    /// Each answer says in its body and in a header when it was made.
    Times,
    /// A replay is answered 206, which nobody documents.
    OtherReplays,
}

async fn pass(between: Between, seen: Arc<AtomicU64>, request: Request, next: Next) -> Response {
    let is_limit = matches!(between, Between::Limit | Between::LimitThatSays);
    if request.method() != Method::POST && !is_limit {
        return next.run(request).await;
    }
    let nth = seen.fetch_add(1, Ordering::SeqCst) + 1;
    match between {
        Between::Limit if nth.is_multiple_of(2) => StatusCode::TOO_MANY_REQUESTS.into_response(),
        Between::LimitThatSays if nth.is_multiple_of(100) => {
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")]).into_response()
        }
        Between::Errors if nth.is_multiple_of(5) => {
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        Between::ErrorsBehindTheEffect if nth.is_multiple_of(7) => {
            let (mut parts, body) = request.into_parts();
            let key = format!("another-{nth}").parse().unwrap();
            parts.headers.insert("idempotency-key", key);
            next.run(Request::from_parts(parts, body)).await;
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        Between::Loss if nth.is_multiple_of(4) => {
            next.run(request).await;
            let broken =
                futures_util::stream::iter([Err::<&str, _>(std::io::Error::other("lost"))]);
            Body::from_stream(broken).into_response()
        }
        Between::OtherReplays => {
            let mut answer = next.run(request).await;
            if answer.headers().contains_key("idempotent-replayed") {
                *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
            }
            answer
        }
        Between::Times => timed(nth, next.run(request).await).await,
        _ => next.run(request).await,
    }
}

async fn timed(nth: u64, answer: Response) -> Response {
    let (mut parts, body) = answer.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let Ok(mut body) = serde_json::from_slice::<serde_json::Value>(&body) else {
        return Response::from_parts(parts, Body::from(body));
    };
    body["served_at"] = nth.into();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::ETAG, nth.to_string().parse().unwrap());
    Response::from_parts(parts, Body::from(body.to_string()))
}

async fn behind(between: Between, plan: Plan) -> Vec<Verdict> {
    behind_only(between, plan, &[]).await
}

async fn behind_only(between: Between, plan: Plan, only: &[&str]) -> Vec<Verdict> {
    let seen = Arc::new(AtomicU64::new(0));
    let layer = from_fn(move |request, next| pass(between, Arc::clone(&seen), request, next));
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let api = Api::of(address, right_api().layer(layer)).await;
    drilled(plan, &api.url(), only).await
}

async fn keeps_every_rule(between: Between) {
    let verdicts = behind(between, plan()).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    assert_eq!(kept.len(), 18, "{between:?}\n{}", told(&verdicts));
}

#[tokio::test]
async fn a_limit_is_waited_out_in_every_rule() {
    keeps_every_rule(Between::Limit).await;
    keeps_every_rule(Between::LimitThatSays).await;
}

#[tokio::test]
async fn an_answer_that_was_lost_is_no_verdict() {
    let verdicts = behind(Between::Loss, plan()).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    assert_eq!(kept.len(), 18, "{}", told(&verdicts));
}

#[tokio::test]
async fn an_error_of_the_moment_is_no_verdict() {
    let verdicts = behind(Between::Errors, plan()).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    assert_eq!(kept.len(), 18, "{}", told(&verdicts));
}

#[tokio::test]
async fn an_error_behind_the_effect_is_found_to_act_again() {
    let verdicts = behind(Between::ErrorsBehindTheEffect, plan()).await;
    let broken = rules(&verdicts, |ended| matches!(ended, Ended::Broken(_)));
    assert!(broken.contains(&"storm"), "{}", told(&verdicts));
    let acts_again = |one: &Verdict| one.seen.contains("its retry acted again: 2 effects");
    assert!(verdicts.iter().any(acts_again), "{}", told(&verdicts));
}

#[tokio::test]
async fn a_definite_answer_that_is_not_documented_is_named_at_once() {
    let plan = plan();
    let patience = plan.bounds.patience;
    let verdicts = behind_only(Between::OtherReplays, plan, &["changed-during"]).await;
    let told = told(&verdicts);
    assert!(matches!(verdicts[1].ended, Ended::Broken(_)), "{told}");
    assert!(verdicts[1].seen.contains("206") && verdicts[1].seen.contains("422"), "{told}");
    assert!(verdicts[1].took() < patience / 2, "{told}");
}

#[tokio::test]
async fn what_the_plan_calls_volatile_makes_no_difference() {
    let verdicts = behind(Between::Times, plan()).await;
    assert!(matches!(verdicts[1].ended, Ended::Broken(_)), "{}", told(&verdicts));
    let volatile = ["/served_at", "ETag"].map(str::to_owned).into();
    let mut plan = plan();
    plan.answers = AnswersSpec { volatile, ..plan.answers };
    let verdicts = behind(Between::Times, plan).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    assert_eq!(kept.len(), 18, "{}", told(&verdicts));
}
