//! Whether the gateway should be sent requests.

use axum::body::Body;
use http::{Response, StatusCode};
use semel::{IntentId, Key, Operation, Scope, StoreErrorKind, Tenant};
use tokio::time::timeout;

use super::{Serving, Shared, text};

/// Says whether requests should come: the gateway's word, or the relay's where nothing else runs.
pub(super) async fn ready(shared: &Shared) -> Response<Body> {
    if shared.closing.is_cancelled() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "shutting down\n");
    }
    match &shared.gateway {
        Some(serving) => gateway_ready(shared, serving).await,
        None => relay_ready(shared),
    }
}

/// Asks the store for a record that is not there. Ready is who gets an answer in time, is not shutting
/// down, and was not last refused a claim for something that an operator must mend: a store that is
/// full or read-only still reads. How far events are behind changes nothing here: requests can be
/// served all the same.
async fn gateway_ready(shared: &Shared, serving: &Serving) -> Response<Body> {
    let Some(probe) = probe() else {
        return text(StatusCode::SERVICE_UNAVAILABLE, "the store was not asked\n");
    };
    match timeout(shared.ready_wait, serving.engine.status(probe)).await {
        Ok(Ok(_)) => match serving.engine.store_trouble() {
            None => text(StatusCode::OK, "ready\n"),
            Some(kind) => text(StatusCode::SERVICE_UNAVAILABLE, trouble(kind)),
        },
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready");
            text(StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", error.code()))
        }
        Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "the store did not answer in time\n"),
    }
}

/// Says whether events are relayed as they should be.
pub(super) fn relay_ready(shared: &Shared) -> Response<Body> {
    let Some(relay) = &shared.relay else {
        return text(StatusCode::NOT_FOUND, "nothing is relayed by this process\n");
    };
    if shared.closing.is_cancelled() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "shutting down\n");
    }
    let unready: String = relay.unready().iter().map(|why| format!("{why}\n")).collect();
    if unready.is_empty() {
        return text(StatusCode::OK, "ready\n");
    }
    text(StatusCode::SERVICE_UNAVAILABLE, unready)
}

fn trouble(kind: StoreErrorKind) -> String {
    let why = match kind {
        StoreErrorKind::Damaged => "its bytes are damaged",
        StoreErrorKind::Full => "the disk or its bound is full",
        StoreErrorKind::ReadOnly => "it can only be read",
        StoreErrorKind::Version => "it has the schema of another version",
        _ => "it could not be written to",
    };
    format!("{}: the store took no claim, since {why}; an operator must act\n", kind.code())
}

fn probe() -> Option<IntentId> {
    let tenant = Tenant::new("semel").ok()?;
    let operation = Operation::new("semel.ready").ok()?;
    Some(Scope::new(tenant, operation).intent(Key::new("ready-probe").ok()?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_probe_has_a_name() {
        assert!(super::probe().is_some());
    }
}
