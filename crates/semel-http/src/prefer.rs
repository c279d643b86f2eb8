//! What a caller prefers while the first request runs (RFC 7240): `respond-async`, `wait=N`.

use std::time::Duration;

use http::HeaderMap;
use semel::Policy;

use crate::{flow::WAIT_MAX, header, operation::Operation};

/// A caller's preference.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Prefer {
    pub(crate) respond_async: bool,
    pub(crate) wait: Option<Duration>,
}

impl Prefer {
    /// Reads it. What is not understood is ignored, as the RFC says.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut prefer = Self::default();
        for value in headers.get_all(&header::PREFER) {
            for item in value.to_str().unwrap_or_default().split(',') {
                let item = item.split(';').next().unwrap_or_default().trim();
                let (name, value) = item.split_once('=').unwrap_or((item, ""));
                if name.trim().eq_ignore_ascii_case("respond-async") {
                    prefer.respond_async = true;
                } else if name.trim().eq_ignore_ascii_case("wait") {
                    let secs = value.trim().trim_matches('"').parse().ok();
                    prefer.wait = secs.map(Duration::from_secs).or(prefer.wait);
                }
            }
        }
        prefer
    }

    /// Returns the policy that holds for this call, if it is not the operation's own. A caller may
    /// shorten the wait, and ask for one of up to [`WAIT_MAX`] where there is none.
    pub(crate) fn policy(&self, operation: &Operation) -> Option<Policy> {
        let own = operation.policy.wait;
        let wait = match self.wait {
            Some(wait) if own.is_zero() => wait.min(WAIT_MAX),
            Some(wait) => wait.min(own),
            None if self.respond_async => Duration::ZERO,
            None => own,
        };
        (wait != own).then(|| Policy { wait, ..Policy::clone(&operation.policy) })
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method};

    use super::*;
    use crate::operation::InProgress;

    #[test]
    fn preferences_are_read_and_bounded() {
        let read = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(&header::PREFER, HeaderValue::from_static(text));
            Prefer::of(&headers)
        };
        let secs = |wait| Some(Duration::from_secs(wait));
        assert_eq!(read("respond-async, wait=3"), Prefer { respond_async: true, wait: secs(3) });
        assert_eq!(
            read("return=minimal; x=1, Wait=\"7\""),
            Prefer { respond_async: false, wait: secs(7) }
        );
        assert_eq!(read("wait=-1"), Prefer::default());
        let wait = |text, mode| {
            let operation = Operation::new("o").unwrap().on(Method::POST, "/").in_progress(mode);
            let operation = operation.checked().unwrap();
            read(text).policy(&operation).map(|policy| policy.wait)
        };
        assert_eq!(wait("wait=99", InProgress::Wait), None);
        assert_eq!(wait("wait=1", InProgress::Wait), secs(1));
        assert_eq!(wait("wait=99", InProgress::Accepted), secs(10));
        assert_eq!(wait("wait=2", InProgress::Conflict), secs(2));
        assert_eq!(wait("respond-async", InProgress::Wait), secs(0));
        assert_eq!(wait("x", InProgress::Conflict), None);
    }
}
