//! How an exchange with an upstream can fail, and what that says about its effect: the total table.
//!
//! | failure | effect | status |
//! |---|---|---|
//! | no address, no connection, no TLS, no free connection, lease lost, circuit open | none: nothing was sent | 502 or 503 |
//! | the request came back from a connection that was closed | none: nothing was sent | 502 |
//! | no answer in time, and no byte was given to the network | none: nothing was sent | 504 |
//! | no answer in time | unknown | 504 |
//! | the connection ended before the head of the answer was whole | unknown | 502 |
//! | the answer cannot be read, or changes to a protocol nobody asked for | unknown | 502 |
//! | the body of the answer ends too early or stalls | what its head says, by whoever reads the body | – |

use std::time::Duration;

use axum::body::Body;
use http::{Request, Response, StatusCode};
use semel_http::{Effect, Reason};
use thiserror::Error;

use crate::problem::{Problem, Retry};

/// Why nothing was sent: not one byte of the request was given to the network.
#[derive(Debug, Error)]
pub(crate) enum NotSent {
    #[error("the address of the upstream was not found: {0}")]
    Address(String),
    #[error("every connection to the upstream is in use")]
    Busy,
    #[error("the upstream failed several times in a row and is left alone for now")]
    Circuit(Duration),
    #[error("the upstream could not be reached: {0}")]
    Connect(String),
    #[error("the claim could not be confirmed before sending: {0}")]
    Lease(semel::Error),
    #[error("the connection to the upstream was closed before anything was sent")]
    Returned,
    #[error("the upstream did not take the request in time")]
    Stuck,
    #[error("no secure connection to the upstream could be made: {0}")]
    Tls(String),
}

/// Why nobody can say whether the request had an effect.
#[derive(Debug, Error)]
pub(crate) enum Unknown {
    #[error("the upstream's connection ended before it answered: {0}")]
    Broken(hyper::Error),
    #[error("the upstream changed the protocol although nobody asked for it")]
    Switched,
    #[error("the upstream did not answer in time")]
    TimedOut,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    NotSent(#[from] NotSent),
    #[error(transparent)]
    Unknown(#[from] Unknown),
}

impl Failure {
    const fn status(&self) -> StatusCode {
        match self {
            Self::NotSent(NotSent::Busy | NotSent::Circuit(_) | NotSent::Lease(_)) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::NotSent(NotSent::Stuck) | Self::Unknown(Unknown::TimedOut) => {
                StatusCode::GATEWAY_TIMEOUT
            }
            Self::NotSent(
                NotSent::Address(_) | NotSent::Connect(_) | NotSent::Returned | NotSent::Tls(_),
            )
            | Self::Unknown(Unknown::Broken(_) | Unknown::Switched) => StatusCode::BAD_GATEWAY,
        }
    }

    /// Says whether the upstream, and not this gateway, failed to be there.
    pub(super) const fn counts_for_the_circuit(&self) -> bool {
        matches!(
            self,
            Self::NotSent(
                NotSent::Address(_) | NotSent::Connect(_) | NotSent::Stuck | NotSent::Tls(_)
            ) | Self::Unknown(Unknown::TimedOut)
        )
    }

    const fn effect(&self) -> Effect {
        match self {
            Self::NotSent(_) => Effect::None,
            Self::Unknown(_) => Effect::Unknown,
        }
    }

    /// Makes the answer that says so, with the effect in its extensions.
    pub(super) fn answer(self, upstream: &str, advice: Advice) -> Response<Body> {
        tracing::debug!(upstream, failure = %self, "an exchange failed");
        let problem = Problem {
            code: self.code(),
            status: self.status(),
            title: match self {
                Self::NotSent(_) => "The request was not sent",
                Self::Unknown(_) => "Nobody can say whether the request had an effect",
            },
            detail: self.detail(),
            retry: advice.about(&self),
            retry_after: self.retry_after(),
        };
        let mut response = problem.answer();
        response.extensions_mut().insert(self.effect());
        response.extensions_mut().insert(Reason::new(self.reason()).of(upstream));
        response
    }

    /// Says what is kept with the record: what happened, where the code says only what it means.
    fn reason(&self) -> &'static str {
        match self {
            Self::NotSent(_) => self.code(),
            Self::Unknown(Unknown::Broken(error)) if error.is_parse() => "upstream-malformed",
            Self::Unknown(Unknown::Broken(_)) => "upstream-reset",
            Self::Unknown(Unknown::Switched) => "upstream-switched",
            Self::Unknown(Unknown::TimedOut) => "upstream-timeout",
        }
    }

    /// Says what a client may know: not the addresses behind this gateway.
    const fn detail(&self) -> &'static str {
        match self {
            Self::NotSent(NotSent::Address(_)) => {
                "The address of the service behind this gateway was not found."
            }
            Self::NotSent(NotSent::Busy) => {
                "Every connection to the service behind this gateway is in use."
            }
            Self::NotSent(NotSent::Circuit(_)) => {
                "The service behind this gateway failed several times in a row and is left alone for now."
            }
            Self::NotSent(NotSent::Connect(_)) => {
                "The service behind this gateway could not be reached."
            }
            Self::NotSent(NotSent::Lease(_)) => {
                "The claim on this key could not be confirmed before sending."
            }
            Self::NotSent(NotSent::Returned) => {
                "The connection to the service behind this gateway was closed before anything was sent."
            }
            Self::NotSent(NotSent::Stuck) => {
                "The service behind this gateway took nothing of the request in time."
            }
            Self::NotSent(NotSent::Tls(_)) => {
                "No secure connection to the service behind this gateway could be made."
            }
            Self::Unknown(Unknown::Broken(_)) => {
                "The connection to the service behind this gateway ended before it answered."
            }
            Self::Unknown(Unknown::Switched) => {
                "The service behind this gateway changed the protocol although nobody asked for it."
            }
            Self::Unknown(Unknown::TimedOut) => {
                "The service behind this gateway did not answer in time."
            }
        }
    }

    const fn code(&self) -> &'static str {
        match self {
            Self::NotSent(NotSent::Busy) => "upstream-busy",
            Self::NotSent(NotSent::Circuit(_)) => "upstream-circuit-open",
            Self::NotSent(NotSent::Lease(_)) => "claim-not-confirmed",
            Self::NotSent(_) => "upstream-unreachable",
            Self::Unknown(_) => "upstream-unknown",
        }
    }

    /// After how long it is worth asking again.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::NotSent(NotSent::Circuit(left)) => Some(*left),
            Self::NotSent(_) => Some(Duration::from_secs(1)),
            Self::Unknown(_) => None,
        }
    }
}

/// What a client is told to do next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Advice {
    /// The request carries a key.
    Keyed,
    /// It carries none, and reads only.
    Safe,
    /// It carries none, and may have had an effect.
    Unprotected,
}

impl Advice {
    pub(super) fn of(request: &Request<Body>, keyed: bool) -> Self {
        match (keyed, request.method().is_safe()) {
            (true, _) => Self::Keyed,
            (false, true) => Self::Safe,
            (false, false) => Self::Unprotected,
        }
    }

    const fn about(self, failure: &Failure) -> Retry {
        match (self, failure) {
            (Self::Keyed, _) => Retry::SameKey,
            (Self::Safe, _) | (Self::Unprotected, Failure::NotSent(_)) => Retry::Wait,
            (Self::Unprotected, Failure::Unknown(_)) => Retry::Never,
        }
    }
}

/// Says that no upstream is responsible for a path.
pub(super) fn nowhere() -> Response<Body> {
    let problem = Problem {
        code: "no-upstream",
        status: StatusCode::NOT_FOUND,
        title: "There is nothing at this path",
        detail: "No service behind this gateway is responsible for this path.",
        retry: Retry::CorrectRequest,
        retry_after: None,
    };
    let mut response = problem.answer();
    response.extensions_mut().insert(Effect::None);
    response
}

/// Refuses to become a tunnel to wherever a client likes.
pub(super) fn connect_refused() -> Response<Body> {
    let problem = Problem {
        code: "connect-refused",
        status: StatusCode::METHOD_NOT_ALLOWED,
        title: "This gateway is no forward proxy",
        detail: "CONNECT is not passed on.",
        retry: Retry::Never,
        retry_after: None,
    };
    problem.answer()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(failure: impl Into<Failure>, code: &str, status: u16, effect: Effect) {
        let response = failure.into().answer("u", Advice::Keyed);
        assert_eq!(response.status(), status);
        assert_eq!(response.extensions().get(), Some(&effect));
        assert_eq!(response.extensions().get::<crate::problem::Code>().unwrap().0, code);
    }

    #[test]
    fn every_failure_says_what_became_of_the_effect() {
        let text = || "x".to_owned();
        check(NotSent::Address(text()), "upstream-unreachable", 502, Effect::None);
        check(NotSent::Connect(text()), "upstream-unreachable", 502, Effect::None);
        check(NotSent::Tls(text()), "upstream-unreachable", 502, Effect::None);
        check(NotSent::Returned, "upstream-unreachable", 502, Effect::None);
        check(NotSent::Stuck, "upstream-unreachable", 504, Effect::None);
        check(NotSent::Busy, "upstream-busy", 503, Effect::None);
        check(NotSent::Circuit(Duration::ZERO), "upstream-circuit-open", 503, Effect::None);
        check(NotSent::Lease(semel::Error::Stale), "claim-not-confirmed", 503, Effect::None);
        check(Unknown::TimedOut, "upstream-unknown", 504, Effect::Unknown);
        check(Unknown::Switched, "upstream-unknown", 502, Effect::Unknown);
    }
}
