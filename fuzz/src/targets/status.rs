//! Any bytes as a key, and as a question for the state of an intent: the address that a refusal tells leads to the
//! intent it speaks of, nobody else sees it, and no question does anything.
//!
//! The first line is a key, the second what is asked below the prefix.

use http::{HeaderMap, Method, Request, StatusCode};
use semel::{Key, wire::STATUS_PREFIX};

use crate::behind::{Behind, Kept, TENANT, drive, operation};

static KEPT: Kept = Kept::new(None);

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let mut lines = data.splitn(2, |byte| *byte == b'\n');
    let (key, asked) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    drive(&KEPT, service, async |behind: &Behind| {
        // Nobody can say what became of it.
        behind.answering(StatusCode::INTERNAL_SERVER_ERROR, HeaderMap::new(), b"");
        let key = std::str::from_utf8(key).ok().and_then(|key| Key::new(key).ok());
        if let Some(key) = &key {
            told(behind, key).await;
        }
        if let Ok(asked) = std::str::from_utf8(asked) {
            any(behind, asked.strip_suffix('\n').unwrap_or(asked)).await;
        }
    });
}

fn service() -> Behind {
    let scoped = operation("a/b:c").on(Method::POST, "/{*path}").scope_path(true);
    Behind::with([scoped], |layer| layer).expect("one operation")
}

/// Runs an intent that becomes unknown, and follows the address that its retry is told.
async fn told(behind: &Behind, key: &Key) {
    let quoted = format!("\"{}\"", key.as_str().replace('\\', "\\\\").replace('"', "\\\""));
    let run = || {
        let request = Request::post("/deep/path").header(TENANT, behind.tenant());
        request.header("idempotency-key", &quoted)
    };
    behind.send(run(), b"").await.expect("a request");
    let refused = behind.send(run(), b"").await.expect("a request");
    let problem: serde_json::Value = serde_json::from_slice(&refused.body).expect("JSON");
    let address = problem["status_url"].as_str().expect("the refusal tells an address");
    let ask = |tenant: String| Request::get(address).header(TENANT, tenant);
    let own = behind.send(ask(behind.tenant()), b"").await.expect("an address");
    assert_eq!(own.answered.status, StatusCode::OK, "{key} at {address}");
    let document: serde_json::Value = serde_json::from_slice(&own.body).expect("JSON");
    assert_eq!(document["key"].as_str(), Some(key.as_str()), "{address}");
    assert_eq!(document["operation"].as_str(), Some("a/b:c"), "{address}");
    assert_eq!(document["state"].as_str(), Some("unknown"), "{address}");
    let other = behind.send(ask(format!("not {}", behind.tenant())), b"").await.expect("the same");
    assert_eq!(other.answered.status, StatusCode::NOT_FOUND, "{address} of another tenant");
    assert_eq!(other.answered.effects, 1);
}

/// Asks anything.
async fn any(behind: &Behind, asked: &str) {
    let before = behind.effects();
    for method in [Method::GET, Method::HEAD, Method::POST, Method::DELETE] {
        let target = format!("{STATUS_PREFIX}{asked}");
        let request = Request::builder().method(method.clone()).uri(&target);
        let request = request.header(TENANT, behind.tenant()).header("idempotency-key", "k");
        let Some(answer) = behind.send(request, b"").await else { return };
        assert_eq!(behind.effects(), before, "{method} {target}");
        let status = answer.answered.status;
        let reads = [Method::GET, Method::HEAD].contains(&method);
        assert!(reads || status == StatusCode::METHOD_NOT_ALLOWED, "{method} {target}: {status}");
        if status == StatusCode::OK {
            let document: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
            assert_eq!(document["operation"].as_str(), Some("a/b:c"), "{target}");
        } else {
            assert!(status.is_client_error(), "{method} {target}: {status}");
        }
        assert_eq!(answer.headers["cache-control"], "no-store", "{method} {target}");
    }
}
