//! Whether a caller may still see what is kept. A key is not permission: whoever could make a request
//! yesterday may have lost the right to see its answer today.

use axum::body::Body;
use http::{Response, request::Parts};

use crate::BoxFuture;

/// Asked before anything that comes from the store is sent: a replay, a refusal, the status.
///
/// A fresh run is not asked about: the handler behind the layer decides for itself.
pub trait Authorize: Send + Sync {
    /// Says whether the caller may see it.
    ///
    /// # Errors
    ///
    /// Returns the answer that is sent instead, such as 401 or 403.
    fn authorize<'a>(&'a self, parts: &'a Parts) -> BoxFuture<'a, Result<(), Response<Body>>>;
}

impl<F> Authorize for F
where
    F: for<'a> Fn(&'a Parts) -> BoxFuture<'a, Result<(), Response<Body>>> + Send + Sync,
{
    fn authorize<'a>(&'a self, parts: &'a Parts) -> BoxFuture<'a, Result<(), Response<Body>>> {
        self(parts)
    }
}
