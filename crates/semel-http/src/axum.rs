//! What an axum handler takes and says.
//!
//! The layer is an ordinary one: `Router::new().route(…).layer(layer)`. It sees the path that the
//! router sees at that place; put it on the outermost router, so that templates are whole paths.
//!
//! A handler takes its [`Intent`], and may say by [`Effect`] and [`Resource`] what its status does not.
//!
//! ```
//! use axum::http::StatusCode;
//! use semel_http::{Effect, Resource, axum::Intent};
//!
//! async fn charge(intent: Intent, body: String) -> (StatusCode, Resource, String) {
//!     // The key for the provider below is the same for every retry.
//!     let charge = format!("{}-{}", intent.id.key, body.len());
//!     (StatusCode::CREATED, Resource::new("charge", charge.as_str()), charge)
//! }
//!
//! async fn refuse() -> (StatusCode, Effect, &'static str) {
//!     (StatusCode::SERVICE_UNAVAILABLE, Effect::None, "nothing was begun; try again")
//! }
//! ```

use std::convert::Infallible;

use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    response::{IntoResponse, IntoResponseParts, Response, ResponseParts},
};
use http::{StatusCode, request::Parts};
use semel::{Fingerprint, Held, IntentId};

use crate::{
    capture::{IntentName, Resource},
    classify::Effect,
    run::Details,
};

/// The intent that a request runs, for its handler. A replay never reaches a handler: whoever holds
/// this is the one that runs. For a bridged operation the handler ends the run by itself, in its own
/// transaction, by the permit of `held`.
///
/// Take an `Option<Intent>` where the key is optional or the operation runs while the store is away.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Intent {
    /// The full name of the intent.
    pub id: IntentId,
    /// What was asked.
    pub fingerprint: Fingerprint,
    /// The handle on the claim: call `start` again before an effect that begins late.
    pub held: Held,
    /// An earlier holder was lost: find out first whether the effect happened.
    pub ask_first: bool,
}

impl Intent {
    /// Returns the intent that a request runs, if it carries a key and stands behind the layer.
    #[must_use]
    pub fn of(parts: &Parts) -> Option<Self> {
        let IntentName(id) = parts.extensions.get::<IntentName>()?.clone();
        let held = parts.extensions.get::<Held>()?.clone();
        let Details { fingerprint, ask_first } = *parts.extensions.get::<Details>()?;
        Some(Self { id, fingerprint, held, ask_first })
    }
}

/// The handler does not stand behind the layer, or the request carries no key.
#[derive(Clone, Copy, Debug)]
pub struct NotProtected;

impl IntoResponse for NotProtected {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, "the handler is not protected").into_response()
    }
}

impl<S: Sync> FromRequestParts<S> for Intent {
    type Rejection = NotProtected;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotProtected> {
        Self::of(parts).ok_or(NotProtected)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Intent {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(Self::of(parts))
    }
}

impl IntoResponseParts for Effect {
    type Error = Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        parts.extensions_mut().insert(self);
        Ok(parts)
    }
}

impl IntoResponseParts for Resource {
    type Error = Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        parts.extensions_mut().insert(self);
        Ok(parts)
    }
}
