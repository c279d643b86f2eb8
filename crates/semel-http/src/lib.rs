//! Semel at the HTTP boundary: a tower layer that lets a request be retried without a second effect.
//!
//! ```
//! use std::sync::Arc;
//!
//! use axum::{Router, body::Body, routing::post};
//! use http::{Method, Request, StatusCode};
//! use semel::{Engine, Policy, store::memory::MemoryStore};
//! use semel_http::{Operation, Operations, SemelLayer, tenant::single_tenant};
//! use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::builder(Arc::new(MemoryStore::new())).build();
//! // Only since this store is volatile: operations are durable unless they say otherwise.
//! let policy = Policy { durable: false, ..Policy::default() };
//! let create = Operation::new("payments.create")?.on(Method::POST, "/payments").policy(policy);
//! let layer = SemelLayer::builder(engine, Operations::new([create])?)
//!     .tenant(single_tenant())
//!     .replay_auth_none()
//!     .build()?;
//! let app = Router::new().route("/payments", post(async || (StatusCode::CREATED, "paid"))).layer(layer);
//!
//! let pay = || Request::post("/payments").header("Idempotency-Key", "order-7").body(Body::empty());
//! let first = app.clone().oneshot(pay()?).await?;
//! let again = app.oneshot(pay()?).await?;
//! assert_eq!((first.status(), again.status()), (StatusCode::CREATED, StatusCode::CREATED));
//! assert_eq!(again.headers()["Idempotent-Replayed"], "true");
//! # Ok(())
//! # }
//! ```
//!
//! # What happens to a request
//!
//! 1. Semel's own headers are stripped. What matches no operation, or carries no key where none is
//!    needed, passes untouched and streamed.
//! 2. The key is read, then the tenant, then the body: whole, within bounds of size, time and memory.
//!    Up to here nothing was claimed.
//! 3. The body is decoded for its fingerprint, and the intent is claimed.
//! 4. The holder runs the handler in a task of its own: a client that hangs up cancels nothing, and a
//!    panic is caught. What the handler answers is classified by one table ([`classify`]), stored,
//!    and then sent: not one byte of it goes out before it is durable.
//! 5. Everybody else gets the kept answer ([`replay`]) or a problem document ([`problem`]), after they
//!    were authorised again ([`authorize`]).
//!
//! A handler finds [`semel::Held`] and [`IntentName`] in the extensions of its request, and may leave
//! [`Effect`] and [`Resource`] in those of its response; [`axum`] has an extractor for all of it.
//! Values that live in a task (`tokio::task_local!`) do not reach a handler; the span does.
//!
//! For a clean shutdown stop the server, then wait for [`SemelLayer::drain`] and `Engine::close`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`operation`], [`route`] | what is protected, and by which method and path |
//! | [`header`] | the key a request carries; what never passes in or out |
//! | [`tenant`], [`authorize`] | who asks, and whether they may still see what is kept |
//! | [`layer`] | the layer itself |
//! | [`classify`] | what an answer says about its effect: one total table |
//! | [`capture`], [`replay`] | keeping an answer, and sending it again |
//! | [`problem`] | every refusal as a problem document |
//! | [`answer`] | what an answer is, for whoever counts |
//! | [`cors`] | what browsers must be told |
//! | [`mod@axum`] | what axum handlers take and say |
//! | `publisher` | a destination of an outbox that gets each event as a request; feature `publisher` |

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")
)]

pub mod answer;
pub mod authorize;
pub mod axum;
mod body;
mod bridged;
pub mod capture;
pub mod classify;
mod coding;
mod command;
pub mod cors;
mod flow;
mod gather;
pub mod header;
mod instant;
pub mod layer;
mod near;
pub mod operation;
mod outlive;
mod prefer;
pub mod problem;
#[cfg(feature = "publisher")]
pub mod publisher;
mod quality;
pub mod replay;
pub mod route;
mod run;
mod status;
pub mod tenant;
mod why;

use std::{future::Future, pin::Pin};

#[doc(inline)]
pub use self::{
    answer::{Answer, HttpStats},
    authorize::Authorize,
    capture::{Bridged, HeaderRuleError, HeaderRules, IntentName, PointerRule, Resource},
    classify::{Effect, Reason},
    layer::{BuildError, SemelLayer, SemelLayerBuilder, SemelService},
    operation::{Away, InProgress, Keep, KeyForm, KeyRule, Late, Mismatch, Operation, ServerError},
    problem::{Code, Problem},
    route::{Matched, Operations, RouteError},
    tenant::{TenantError, TenantSource},
};
pub use ::axum::body::Body;

/// A boxed future, as the traits of this crate return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
