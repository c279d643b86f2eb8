//! Running the handler once: a client that hangs up cancels nothing. What it answers is stored before
//! the first byte of it is sent.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};

use axum::body::Body;
use http::{
    HeaderMap, Method, Request, Response, StatusCode,
    header::{CONTENT_LENGTH, TRANSFER_ENCODING},
    response,
};
use semel::{Error, Fingerprint, Holder, engine::Ended, outcome::Body as Kept};
use tower_service::Service;

use crate::{
    answer::Answer,
    body::Share,
    capture::{self, Bridged, IntentName},
    classify::{Effect, Ending, Reason, ending},
    flow::Shared,
    gather::{self, Gathering},
    header,
    operation::Operation,
    outlive::{Outliving, outliving},
    problem::{Code, Problem},
    replay::{self, Asking},
    why::Why,
};

/// What a handler may know of its run beside [`IntentName`], in the extensions of its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Details {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) ask_first: bool,
}

/// A handler with its request.
pub(crate) struct Work<S> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) operation: Arc<Operation>,
    pub(crate) request: Request<Body>,
    pub(crate) share: Share,
    pub(crate) inner: S,
}

impl<S> Work<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    /// Runs the handler for a holder.
    pub(crate) fn held(
        mut self,
        holder: Holder,
        fingerprint: Fingerprint,
    ) -> Outliving<Result<Response<Body>, S::Error>> {
        let extensions = self.request.extensions_mut();
        extensions.insert(holder.held());
        extensions.insert(IntentName(holder.permit().id.clone()));
        if self.operation.bridged {
            extensions.insert(Bridged);
        }
        extensions.insert(Details { fingerprint, ask_first: holder.ask_first() });
        let tasks = self.shared.tasks.clone();
        outliving(&tasks, Box::pin(self.work(holder)))
    }

    /// Runs the handler without protection.
    pub(crate) fn unprotected(self) -> Outliving<Result<Response<Body>, S::Error>> {
        let Self { shared, request, share, mut inner, .. } = self;
        let tasks = shared.tasks.clone();
        outliving(
            &tasks,
            Box::pin(async move {
                let _share = share;
                match caught(pin!(async move { inner.call(request).await })).await {
                    Ok(response) => {
                        let mut response = response?;
                        clean(response.headers_mut());
                        response.extensions_mut().insert(Answer::Unprotected);
                        Ok(response)
                    }
                    Err(Panicked) => Ok(panicked()),
                }
            }),
        )
    }

    async fn work(self, holder: Holder) -> Result<Response<Body>, S::Error> {
        let Self { shared, operation, request, share, mut inner } = self;
        if let Err(error) = holder.start().await {
            return Ok(Problem::from(&error).into_response());
        }
        let run = Run { is_head: *request.method() == Method::HEAD, shared, operation, holder };
        let answered = caught(pin!(async move { inner.call(request).await })).await;
        match answered {
            Ok(Ok(response)) => {
                drop(share);
                Ok(run.settle(response).await)
            }
            Ok(Err(error)) if run.operation.bridged => {
                let told = run.settle_failed(Reason::new("inner-error")).await;
                told.ok_or(error)
            }
            Ok(Err(error)) => {
                run.end(Ending::MayHaveActed, Reason::new("inner-error")).await;
                Err(error)
            }
            Err(Panicked) if run.operation.bridged => {
                let told = run.settle_failed(Reason::new("panicked")).await;
                Ok(told.unwrap_or_else(panicked))
            }
            Err(Panicked) => {
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                let ending = run.ending(status, None);
                run.end(ending, Reason::new("panicked")).await;
                Ok(panicked())
            }
        }
    }
}

/// A handler that has answered, and its holder.
pub(crate) struct Run {
    pub(crate) shared: Arc<Shared>,
    pub(crate) operation: Arc<Operation>,
    pub(crate) holder: Holder,
    pub(crate) is_head: bool,
}

impl Run {
    fn ending(&self, status: StatusCode, effect: Option<Effect>) -> Ending {
        ending(status, effect, self.operation.keep, self.operation.server_error)
    }

    pub(crate) fn effect(&self, response: &Response<Body>) -> Option<Effect> {
        let said = response.extensions().get::<Effect>().copied();
        let trusted = self.shared.trust_effect_header && self.operation.trust_effect_header;
        said.or_else(|| {
            let word = response.headers().get(&header::EFFECT).filter(|_| trusted)?;
            Some(Effect::from_word(word.as_bytes()))
        })
    }

    async fn settle(self, mut response: Response<Body>) -> Response<Body> {
        if self.operation.bridged {
            return self.settle_bridged(response).await;
        }
        let effect = self.effect(&response);
        let ending = self.ending(response.status(), effect);
        match ending {
            Ending::Done | Ending::Failed => self.keep(ending, response).await,
            Ending::MayHaveActed | Ending::Release => {
                let reason = match (ending, effect, response.extensions_mut().remove()) {
                    (_, _, Some(reason)) => reason,
                    (Ending::Release, Some(_), _) => Reason::new("effect-none"),
                    (Ending::Release, None, _) => Reason::new("status-not-done"),
                    (_, Some(_), _) => Reason::new("effect-unknown"),
                    _ => Reason::new(format!("status-{}", response.status().as_u16())),
                };
                self.end(ending, reason).await;
                clean(response.headers_mut());
                response
            }
        }
    }

    /// Ends a run that keeps nothing. If that cannot be stored the lease ends by itself.
    async fn end(self, ending: Ending, reason: Reason) {
        let operation = self.operation.name.clone();
        let Reason { code: reason, upstream } = &reason;
        if ending == Ending::MayHaveActed {
            tracing::warn!(%operation, upstream = upstream.as_deref(), %reason, "nobody can say whether it had an effect");
        }
        let ended = match ending {
            Ending::Release => self.holder.release(reason).await,
            _ => self.holder.may_have_acted(reason).await,
        };
        if let Err(error) = ended {
            let (code, why) = (error.code(), Why(&error));
            tracing::warn!(%operation, %reason, code, %why, "the end was not stored");
        }
    }

    /// Stores an answer, and then sends it.
    async fn keep(self, ending: Ending, response: Response<Body>) -> Response<Body> {
        let Self { shared, operation, holder, is_head } = self;
        let (mut head, body) = response.into_parts();
        let bodiless = capture::is_bodiless(head.status, is_head);
        let max = operation.outcome_max.min(shared.outcome_max);
        let gathering = if !bodiless && capture::is_stream(&head.headers) {
            Gathering::More(body)
        } else {
            let gather = gather::gather(body, max, operation.body_wait, &shared.budget);
            caught(pin!(gather)).await.unwrap_or(Gathering::Broken)
        };
        let kept = match &gathering {
            Gathering::Whole(bytes, _) => Kept::Kept(bytes.clone()),
            Gathering::Broken | Gathering::More(_) => Kept::NotKept,
        };
        let rules = (&operation.outcome_headers, &operation.pointer);
        let outcome = capture::outcome(&head, kept, bodiless, rules.0, rules.1);
        let pointer = outcome.pointer.clone();
        let ended = match ending {
            Ending::Failed => holder.fail(outcome).await,
            _ => holder.complete(outcome).await,
        };
        clean(&mut head.headers);
        match (ended, gathering) {
            (Ok(Ended::Before(record)), _) if record.outcome.is_some() => before(&record, is_head),
            (Ok(_), Gathering::Broken) => replay::not_kept(pointer.as_ref()).into_response(),
            (Ok(_), Gathering::More(body)) => Response::from_parts(head, body),
            (Ok(_), Gathering::Whole(bytes, share)) => {
                whole(head, gather::body(bytes, share), bodiless)
            }
            (Err(error), _) => not_stored(&operation, &error),
        }
    }
}

/// Sends what the same permit had stored before: a handler behind the layer completed by itself.
pub(crate) fn before(record: &semel::Record, is_head: bool) -> Response<Body> {
    let asking = Asking { is_head, headers: &HeaderMap::new() };
    match &record.outcome {
        Some(outcome) => replay::of_outcome(outcome, asking),
        None => replay::not_kept(record.pointer.as_ref()).into_response(),
    }
}

fn not_stored(operation: &Operation, error: &Error) -> Response<Body> {
    let (code, why) = (error.code(), Why(error));
    tracing::error!(operation = %operation.name, code, %why, "an answer was not stored");
    Problem::from(error).into_response()
}

/// Puts an answer together again whose body is known whole.
fn whole(mut head: response::Parts, body: Body, bodiless: bool) -> Response<Body> {
    head.headers.remove(TRANSFER_ENCODING);
    if !bodiless {
        head.headers.remove(CONTENT_LENGTH);
    }
    Response::from_parts(head, body)
}

/// Removes what only Semel may say.
pub(crate) fn clean(headers: &mut HeaderMap) {
    header::strip(headers);
    headers.remove(&header::REPLAYED);
}

fn panicked() -> Response<Body> {
    Problem::new(Code::HandlerPanicked).detail("never use a new key for it").into_response()
}

/// A future panicked.
struct Panicked;

async fn caught<F: Future>(mut future: Pin<&mut F>) -> Result<F::Output, Panicked> {
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Err(_) => Poll::Ready(Err(Panicked)),
    })
    .await
}
