//! Which upstream a request goes to: its operation's, else the one with the longest prefix.

use std::{collections::HashMap, sync::Arc};

use axum::body::Body;
use http::{HeaderName, Request};
use semel_http::{IntentName, Operations};

use super::upstream::Upstream;

/// Where requests go.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    pub(crate) operations: Operations,
    /// The upstream of every operation that names one.
    pub(crate) by_operation: HashMap<semel::Operation, Arc<Upstream>>,
    /// The longest first.
    by_prefix: Vec<(String, Arc<Upstream>)>,
    /// Every header that carries keys.
    pub(super) key_headers: Vec<HeaderName>,
}

impl Routes {
    pub(crate) fn new(
        operations: Operations,
        by_operation: HashMap<semel::Operation, Arc<Upstream>>,
        by_prefix: impl IntoIterator<Item = (String, Arc<Upstream>)>,
    ) -> Self {
        let mut by_prefix: Vec<_> = by_prefix
            .into_iter()
            .map(|(prefix, upstream)| (prefix.trim_end_matches('/').to_owned(), upstream))
            .collect();
        by_prefix.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let mut key_headers: Vec<_> =
            operations.iter().map(|operation| operation.header_ref().clone()).collect();
        key_headers.dedup();
        Self { operations, by_operation, by_prefix, key_headers }
    }

    /// Finds the upstream of a request.
    pub(super) fn upstream_of(&self, request: &Request<Body>) -> Option<&Arc<Upstream>> {
        let path = request.uri().path();
        let operation = match request.extensions().get::<IntentName>() {
            Some(IntentName(id)) => Some(&id.scope.operation),
            // Without a key it is the same operation, and goes to the same place.
            None => self.operations.find(request.method(), path).map(|met| met.operation.name()),
        };
        operation.and_then(|name| self.by_operation.get(name)).or_else(|| self.of_path(path))
    }

    fn of_path(&self, path: &str) -> Option<&Arc<Upstream>> {
        let lies_below = |prefix: &str| {
            path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                || (prefix.is_empty() && path == "*")
        };
        self.by_prefix.iter().find(|(prefix, _)| lies_below(prefix)).map(|(_, upstream)| upstream)
    }
}

#[cfg(test)]
mod tests {
    use semel::SystemClock;

    use super::*;
    use crate::settings::UpstreamSettings;

    fn upstream(name: &str) -> Arc<Upstream> {
        let settings = UpstreamSettings::new(name, "http://127.0.0.1:1".parse().unwrap());
        Arc::new(Upstream::new(settings, Arc::new(SystemClock::new())).unwrap())
    }

    #[test]
    fn the_operation_decides_then_the_longest_prefix() {
        let operation =
            semel_http::Operation::new("pay").unwrap().on(http::Method::POST, "/billing/pay");
        let operations = Operations::new([operation]).unwrap();
        let by_operation = HashMap::from([(semel::Operation::new("pay").unwrap(), upstream("a"))]);
        let prefixes = [("/", "rest"), ("/billing", "b"), ("/billing/v2/", "c")]
            .map(|(prefix, name)| (prefix.to_owned(), upstream(name)));
        let routes = Routes::new(operations, by_operation, prefixes);
        let check = |method: &str, path: &str, name: &str| {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            assert_eq!(routes.upstream_of(&request).unwrap().settings.name, name, "{path}");
        };
        check("POST", "/billing/pay", "a");
        check("GET", "/billing/pay", "b");
        check("GET", "/billing", "b");
        check("GET", "/billing/v2/x", "c");
        check("GET", "/billings", "rest");
        check("OPTIONS", "*", "rest");
    }

    #[test]
    fn a_path_below_no_prefix_goes_nowhere() {
        let prefixes = [("/a".to_owned(), upstream("a"))];
        let routes = Routes::new(Operations::default(), HashMap::new(), prefixes);
        let request = Request::builder().uri("/b").body(Body::empty()).unwrap();
        assert!(routes.upstream_of(&request).is_none());
    }
}
