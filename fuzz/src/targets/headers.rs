//! Any lines as the headers of a request with a key: the same request twice acts once at most, a refusal does nothing,
//! another tenant's intent is another one, and no preference of a caller keeps an answer back.
//!
//! The first byte chooses how the layer is set; every line after it is a header.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use semel::Policy;
use semel_http::{InProgress, KeyForm, Late, Mismatch, Operation, tenant};
use tokio::time::timeout;

use crate::behind::{Behind, Kept, TENANT, Whole, drive, operation};

static KEPT: [Kept; 4] = [const { Kept::new(None) }; 4];

const KEY: &str = "idempotency-key";
const PATIENCE: Duration = Duration::from_secs(5);

type Lines = Vec<(HeaderName, HeaderValue)>;

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let set = usize::from(*choice) % KEPT.len();
    let lines: Lines = rest.split(|byte| *byte == b'\n').filter_map(header).collect();
    // Who names a tenant meets what an earlier input left there.
    let named = lines.iter().any(|(name, _)| *name == TENANT);
    let fresh = Kept::new(None);
    let kept = if named { &fresh } else { &KEPT[set] };
    drive(
        kept,
        || service(set),
        async |behind: &Behind| {
            timeout(PATIENCE, check(behind, set, &lines))
                .await
                .expect("every request has an answer");
        },
    );
}

fn service(set: usize) -> Behind {
    let policy = Policy { durable: false, wait: Duration::from_millis(1), ..Policy::default() };
    let plain = operation("o").policy(policy).on(Method::POST, "/");
    let operation: Operation = match set {
        0 => plain,
        1 => plain.late(Late::Refuse).mismatch(Mismatch::NewIntent).scope_path(true),
        2 => plain.in_progress(InProgress::Accepted).quality(true),
        _ => plain.key_form(KeyForm::Strict).body_max(8),
    };
    let by_key = TENANT.parse().expect("a header name");
    Behind::with([operation], |layer| match set {
        3 => layer.tenant(tenant::api_key_header(by_key)).expose_headers(true),
        _ => layer,
    })
    .expect("one operation")
}

fn header(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let at = line.iter().position(|byte| *byte == b':')?;
    let name = HeaderName::from_bytes(&line[..at]).ok()?;
    Some((name, HeaderValue::from_bytes(line[at + 1..].trim_ascii()).ok()?))
}

async fn check(behind: &Behind, set: usize, lines: &Lines) {
    let key = if set == 3 { "\"k\"" } else { "order-7_abc" };
    let first = send(behind, lines, key, "").await;
    let again = send(behind, lines, key, "").await;
    assert!(!first.answered.replayed);
    match first.answered.effects {
        0 => {
            let refused = first.answered.status;
            assert!(refused.is_client_error() || refused.is_server_error(), "{lines:?}: {refused}");
            assert_eq!(again.answered, first.answered, "{lines:?}");
        }
        _ => {
            assert_eq!(first.answered.status, StatusCode::CREATED, "{lines:?}");
            assert!(again.answered.replayed, "{lines:?}: {:?}", again.answered);
            assert_eq!((again.answered.effects, &again.body), (1, &first.body), "{lines:?}");
            let own = |whole: &Whole| whole.headers.keys().any(|name| is_own(name.as_str()));
            assert!(!own(&first) && !own(&again), "{lines:?}");
        }
    }
    if lines.iter().all(|(name, _)| *name != TENANT) {
        let other = send(behind, lines, key, "another").await;
        assert!(!other.answered.replayed, "{lines:?}");
        assert_eq!(other.answered.effects, 2 * first.answered.effects, "{lines:?}");
    }
}

fn is_own(name: &str) -> bool {
    name.starts_with("semel-")
}

/// Sends the lines, with a key and a tenant where they name none.
async fn send(behind: &Behind, lines: &Lines, key: &str, tenant: &str) -> Whole {
    let mut request = Request::post("/");
    for (name, value) in lines {
        request = request.header(name, value);
    }
    let says = |name: &str| lines.iter().any(|(said, _)| *said == name);
    if !says(KEY) {
        request = request.header(KEY, key);
    }
    if !says(TENANT) {
        request = request.header(TENANT, format!("{}{tenant}", behind.tenant()));
    }
    behind.send(request, b"{\"a\":1}").await.expect("the lines are headers")
}
