//! Requests that carry a key and narrowly miss every operation: their protection would be lost silently.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use http::{HeaderMap, Method};
use semel::{Clock, Monotonic};

use crate::{
    operation::Operation,
    route::{Operations, decoded},
};

/// For how long a miss of one operation is not logged again.
const WARNED_FOR: Duration = Duration::from_secs(60);

/// When a miss of each operation was last logged.
#[derive(Debug, Default)]
pub(crate) struct Misses {
    warned: Mutex<HashMap<semel::Operation, Monotonic>>,
}

impl Misses {
    /// Logs a miss, unless one of the same operation was logged not long ago.
    pub(crate) fn warn(&self, missed: &Operation, clock: &dyn Clock) {
        let now = clock.monotonic();
        let Ok(mut warned) = self.warned.lock() else { return };
        let last = warned.get(missed.name());
        if last.is_some_and(|last| now.since(*last) < WARNED_FOR) {
            return;
        }
        warned.insert(missed.name().clone(), now);
        tracing::warn!(
            operation = %missed.name(),
            "a request with a key passed without protection: its path is almost the operation's"
        );
    }
}

/// Finds the operation that a request which belongs to none would belong to if its path were written
/// more plainly.
pub(crate) fn missed<'a>(
    operations: &'a Operations,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Option<&'a Operation> {
    let keyed = operations.iter().any(|operation| headers.contains_key(operation.header_ref()));
    if !keyed {
        return None;
    }
    operations.near(method, &plain(path))
}

/// Writes a path plainly: small letters, no parameters, no blanks around a segment, no slash at the end.
fn plain(path: &str) -> Vec<String> {
    let below = path.strip_prefix('/').unwrap_or(path);
    let below = below.strip_suffix('/').unwrap_or(below);
    let segment = |part: &str| {
        let name = part.split_once(';').map_or(part, |(name, _)| name);
        decoded(name).trim().to_ascii_lowercase()
    };
    below.split('/').map(segment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn misses(path: &str, header: &'static str) -> bool {
        let on = |name: &str, path: &str| Operation::new(name).unwrap().on(Method::POST, path);
        let all = [on("pay", "/payments"), on("capture", "/Payments/{id}/capture/")];
        let operations = Operations::new(all).unwrap();
        let headers = HeaderMap::from_iter([(header.parse().unwrap(), "k".parse().unwrap())]);
        missed(&operations, &Method::POST, path, &headers).is_some()
    }

    #[test]
    fn a_path_that_is_almost_an_operations_is_a_miss() {
        for path in ["/Payments", "/payments/", "/payments;v=1", "/payments%20", "/p%41yments"] {
            assert!(misses(path, "idempotency-key"), "{path}");
        }
        assert!(misses("/payments/7/capture", "idempotency-key"));
        for path in ["/", "/payment", "/payments/7", "/other", "*"] {
            assert!(!misses(path, "idempotency-key"), "{path}");
        }
        assert!(!misses("/Payments", "other"));
    }
}
