//! The end of a run that its application may have ended by itself: the record is read before anything
//! is said of the answer.
//!
//! What the application stored is what is sent, whatever it answered. Its own answer stands where it
//! stored nothing and says so by a failure; a success without a completion is never sent.

use std::{pin::pin, time::Duration};

use axum::body::Body;
use http::Response;
use semel::{
    Outcome, Record,
    engine::{Otherwise, Settled},
    outcome::Body as Kept,
};

use crate::{
    body::within,
    capture,
    classify::{Class, Reason, Undone, class, undone},
    gather::{self, Gathering},
    problem::{Code, Problem},
    run::{self, Run},
};

/// How long the rest of an answer is read that is not sent, so that its connection can be used again.
const DRAIN_FOR: Duration = Duration::from_millis(100);

impl Run {
    /// Ends a run whose handler answered, and makes the answer that is sent.
    pub(crate) async fn settle_bridged(self, mut response: Response<Body>) -> Response<Body> {
        let undone = undone(response.status(), self.effect(&response));
        let reason = self.reason_undone(undone, &mut response);
        let is_success = class(response.status()) == Class::Success;
        let (otherwise, response) = match undone {
            Undone::Breach => (Otherwise::Breach, response),
            Undone::Doubt => (Otherwise::Doubt, response),
            Undone::Release => (Otherwise::Release, response),
            Undone::Fail => {
                let (outcome, response) = self.gathered(response).await;
                (Otherwise::Fail(outcome), response)
            }
        };
        match self.settled(otherwise, reason).await {
            Ended::Told(record) => told(&record, response, is_success).await,
            Ended::Refused(problem) => problem.into_response(),
            Ended::GivenBack | Ended::Stands if undone == Undone::Breach => not_completed(),
            Ended::GivenBack | Ended::Stands => cleaned(response),
        }
    }

    /// Ends a run whose handler gave no answer; what is sent instead of its error, if anything is.
    pub(crate) async fn settle_failed(self, reason: Reason) -> Option<Response<Body>> {
        match self.settled(Otherwise::Release, reason).await {
            Ended::Told(record) => Some(run::before(&record.record, record.is_head)),
            Ended::Refused(problem) => Some(problem.into_response()),
            Ended::GivenBack | Ended::Stands => None,
        }
    }

    fn reason_undone(&self, undone: Undone, response: &mut Response<Body>) -> Reason {
        let said: Option<Reason> = response.extensions_mut().remove();
        match (undone, said) {
            (Undone::Breach, _) => Reason::new("not-completed"),
            (_, Some(said)) => said,
            (Undone::Doubt, None) => Reason::new("effect-unknown"),
            (Undone::Fail | Undone::Release, None) => {
                Reason::new(format!("status-{}", response.status().as_u16()))
            }
        }
    }

    /// Reads an answer that is kept if the application has stored none.
    async fn gathered(&self, response: Response<Body>) -> (Outcome, Response<Body>) {
        let (head, body) = response.into_parts();
        let bodiless = capture::is_bodiless(head.status, self.is_head);
        let (operation, shared) = (&self.operation, &self.shared);
        let max = operation.outcome_max.min(shared.outcome_max);
        let gathering = if !bodiless && capture::is_stream(&head.headers) {
            Gathering::More(body)
        } else {
            gather::gather(body, max, operation.body_wait, &shared.budget).await
        };
        let (kept, body) = match gathering {
            Gathering::Whole(bytes, share) => {
                (Kept::Kept(bytes.clone()), gather::body(bytes, share))
            }
            Gathering::More(body) => (Kept::NotKept, body),
            Gathering::Broken => (Kept::NotKept, Body::empty()),
        };
        let rules = (&operation.outcome_headers, &operation.pointer);
        let outcome = capture::outcome(&head, kept, bodiless, rules.0, rules.1);
        (outcome, Response::from_parts(head, body))
    }

    async fn settled(self, otherwise: Otherwise, reason: Reason) -> Ended {
        let Self { shared: _, operation, holder, is_head } = self;
        let name = &operation.name;
        let breaks = otherwise == Otherwise::Breach;
        match holder.settle(otherwise, &reason.code).await {
            Ok(Settled::Ended(record)) => Ended::Told(Told { record, is_head }),
            Ok(Settled::GivenBack) => {
                if breaks {
                    tracing::error!(operation = %name, "an application gave back what it answered as done");
                }
                Ended::GivenBack
            }
            Ok(Settled::Otherwise) => {
                let (upstream, reason) = (reason.upstream.as_deref(), &reason.code);
                tracing::info!(operation = %name, upstream, %reason, "its application has not completed it");
                Ended::Stands
            }
            Err(error) => {
                let (code, why) = (error.code(), crate::why::Why(&error));
                tracing::warn!(operation = %name, code, %why, "nobody can say yet how it ended");
                Ended::Refused(Problem::from(&error))
            }
        }
    }
}

/// What became of a bridged run.
enum Ended {
    GivenBack,
    Refused(Problem),
    Stands,
    Told(Told),
}

/// What the application has stored.
struct Told {
    record: Box<Record>,
    is_head: bool,
}

/// Sends what the application has stored. Where it kept no body, its own answer is the only one that
/// there will ever be.
async fn told(told: &Told, response: Response<Body>, is_success: bool) -> Response<Body> {
    let outcome = told.record.outcome.as_ref();
    let is_kept = outcome.is_some_and(|outcome| matches!(outcome.body, Kept::Kept(_)));
    if is_success && !is_kept {
        return cleaned(response);
    }
    drain(response.into_body()).await;
    run::before(&told.record, told.is_head)
}

async fn drain(mut body: Body) {
    use http_body_util::BodyExt;
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    within(DRAIN_FOR, pin!(rest)).await;
}

fn cleaned(mut response: Response<Body>) -> Response<Body> {
    run::clean(response.headers_mut());
    response
}

fn not_completed() -> Response<Body> {
    Problem::new(Code::NotCompleted)
        .detail(
            "the service answered that it was done and stored no completion; never use a new key \
             for it",
        )
        .into_response()
}
