//! Semel at the HTTP boundary: a tower layer that lets a request be retried without a second effect.
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

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")
)]

pub mod answer;
pub mod authorize;
pub mod axum;
mod body;
pub mod capture;
pub mod classify;
mod coding;
mod command;
pub mod cors;
mod flow;
pub mod header;
mod instant;
pub mod layer;
pub mod operation;
mod prefer;
pub mod problem;
mod quality;
pub mod replay;
pub mod route;
mod run;
mod status;
pub mod tenant;

use std::{future::Future, pin::Pin};

#[doc(inline)]
pub use self::{
    answer::{Answer, HttpStats},
    authorize::Authorize,
    capture::{HeaderRuleError, HeaderRules, IntentName, PointerRule, Resource},
    classify::Effect,
    layer::{BuildError, SemelLayer, SemelLayerBuilder, SemelService},
    operation::{Away, InProgress, Keep, KeyForm, KeyRule, Late, Mismatch, Operation, ServerError},
    problem::{Code, Problem},
    route::{Matched, Operations, RouteError},
    tenant::{TenantError, TenantSource},
};
pub use ::axum::body::Body;

/// A boxed future, as the traits of this crate return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
