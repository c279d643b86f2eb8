//! The state of an intent, for whoever may ask: `GET /.semel/intents/{operation}/{key}`.
//!
//! Where path or content are part of an intent's identity, the address that a refusal tells carries
//! them as `?facet=…`.

use axum::body::Body;
use http::{
    HeaderValue, Method, Response,
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE},
    request::Parts,
};
use semel::{
    IntentId, Key, Phase, Record, Scope, State, engine::Status, key::Facet, outcome::Body as Kept,
    wire,
};
use serde_json::{Map, Value, json};

use crate::{
    flow::Shared,
    instant,
    problem::{Code, Problem, Retry},
    route::decoded,
};

/// Answers the question.
pub(crate) async fn answer(shared: &Shared, parts: &Parts) -> Response<Body> {
    let mut response = match find(shared, parts).await {
        Ok(response) => response,
        Err(Denied::By(response)) => return *response,
        Err(Denied::Problem(problem)) => problem.into_response(),
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the address at which to ask for an intent.
pub(crate) fn url(id: &IntentId) -> String {
    let mut url = String::from(wire::STATUS_PREFIX);
    escape(&mut url, id.scope.operation.as_str());
    url.push('/');
    escape(&mut url, id.key.as_str());
    if let Some(facet) = &id.facet {
        url.push_str("?facet=");
        facet.iter().for_each(|byte| url.push_str(&format!("{byte:02x}")));
    }
    url
}

enum Denied {
    By(Box<Response<Body>>),
    Problem(Problem),
}

impl From<Problem> for Denied {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

async fn find(shared: &Shared, parts: &Parts) -> Result<Response<Body>, Denied> {
    let tenant = shared.tenant(parts)?;
    shared.authorised(parts).await.map_err(|denied| Denied::By(Box::new(denied)))?;
    if ![Method::GET, Method::HEAD].contains(&parts.method) {
        let mut response = Problem::new(Code::StatusMethod).into_response();
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    let unknown = || Problem::new(Code::OperationUnknown);
    let path = parts.uri.path().strip_prefix(wire::STATUS_PREFIX).unwrap_or_default();
    let (operation, key) = path.split_once('/').ok_or_else(unknown)?;
    let operation = shared.operations.named(&decoded(operation)).ok_or_else(unknown)?;
    let key = Key::new(decoded(key))
        .map_err(|error| Problem::new(Code::KeyMalformed).detail(error.to_string()))?;
    let mut id = Scope::new(tenant, operation.name.clone()).intent(key);
    id.facet = facet(parts.uri.query().unwrap_or_default())?;
    let status = shared.engine.status(id).await.map_err(|error| Problem::from(&error))?;
    match &status.record {
        Some(record) => Ok(document(&status, record)),
        None => Err(Problem::new(Code::NotRecorded)
            .detail("it may still be running; send the request again with the same key")
            .into()),
    }
}

fn document(status: &Status, record: &Record) -> Response<Body> {
    let (state, retry) = match status.phase {
        Phase::Stored(State::Running) => (State::Running.as_str(), Retry::Wait),
        Phase::Stored(state) => (state.as_str(), Retry::SameKey),
        Phase::Absent | Phase::Forgotten => (Code::Forgotten.as_str(), Retry::DoNotRetry),
    };
    let mut members = Map::new();
    let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
    put("operation", record.id.scope.operation.as_str().into());
    put("key", record.id.key.as_str().into());
    put("state", state.into());
    put("retry", retry.as_str().into());
    put("created_at", instant::text(record.created_at).into());
    put("claimed_at", instant::text(record.claimed_at).into());
    if let Some(claimed_by) = &record.claimed_by {
        put("claimed_by", (**claimed_by).into());
    }
    if record.state == State::Running {
        let left = record.lease.ends_at().since(status.now).as_millis();
        put("lease_left_ms", u64::try_from(left).unwrap_or(u64::MAX).into());
    }
    if let Some(settled_at) = record.settled_at {
        put("settled_at", instant::text(settled_at).into());
    }
    if let Some(reason) = &record.reason {
        put("reason", (**reason).into());
    }
    if matches!(record.state, State::Done | State::Failed) {
        put("replay_until", instant::text(record.replay_until).into());
        put("remember_until", instant::text(record.remember_until).into());
    }
    if let Some(outcome) = record.outcome.as_ref().filter(|_| state != Code::Forgotten.as_str()) {
        let kept = matches!(outcome.body, Kept::Kept(_));
        put("outcome", json!({ "status": outcome.status, "body_kept": kept }));
    }
    if let Some(pointer) = &record.pointer {
        put("pointer", json!({ "kind": &*pointer.kind, "id": &*pointer.id }));
    }
    let mut response = Response::new(Body::from(Value::from(members).to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn facet(query: &str) -> Result<Option<Facet>, Problem> {
    let Some(text) = query.split('&').find_map(|pair| pair.strip_prefix("facet=")) else {
        return Ok(None);
    };
    let bytes: Option<Vec<u8>> = (text.len() == 64
        // The library would read a sign too.
        && text.bytes().all(|digit| digit.is_ascii_hexdigit()))
    .then(|| (0..32).map(|at| u8::from_str_radix(&text[at * 2..at * 2 + 2], 16)))
    .and_then(|bytes| bytes.collect::<Result<_, _>>().ok());
    match bytes.and_then(|bytes| Facet::try_from(bytes).ok()) {
        Some(facet) => Ok(Some(facet)),
        None => Err(Problem::new(Code::NotRecorded).detail("the facet cannot be read")),
    }
}

fn escape(url: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                url.push(char::from(byte));
            }
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use semel::{Operation, Tenant};

    use super::*;

    #[test]
    fn the_address_of_an_intent_can_be_read_back() {
        let scope = Scope::new(Tenant::new("t").unwrap(), Operation::new("a/b").unwrap());
        let id = scope.intent(Key::new("k/?#%~\"").unwrap()).narrowed([7; 32]);
        let url = url(&id);
        assert_eq!(
            url,
            format!("/.semel/intents/a%2Fb/k%2F%3F%23%25~%22?facet={}", "07".repeat(32))
        );
        assert_eq!(decoded("k%2F%3F%23%25~%22"), id.key.as_str());
        assert_eq!(facet(url.split_once('?').unwrap().1).unwrap(), id.facet);
        for bad in ["zz".to_owned(), "+7".repeat(32), "7".repeat(63), "é".repeat(32)] {
            assert!(facet(&format!("facet={bad}")).is_err(), "{bad}");
        }
    }
}
