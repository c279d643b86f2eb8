//! Any status, headers and body as what a handler answers: what is replayed is what was sent, without a header that was
//! true of one message alone; a retry acts again only where the first run had no effect; and the coding of a body is
//! taken off only where it says the same.
//!
//! Two bytes are the status, lines up to an empty one are headers, the rest is the body.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use semel_http::{
    HeaderRules, Operation, PointerRule,
    classify::{Class, class},
};

use crate::behind::{Behind, Kept, TENANT, Whole, drive, operation};

static KEPT: [Kept; 2] = [const { Kept::new(None) }; 2];

/// True of one message, and so never replayed.
const OF_ONE: [&str; 6] =
    ["connection", "date", "keep-alive", "transfer-encoding", "upgrade", "trailer"];

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let Some((status, rest)) = data.split_first_chunk::<2>() else { return };
    let status = u16::from_be_bytes(*status);
    let (set, status) = (usize::from(status / 1_000) % 2, 200 + status % 400);
    let Ok(status) = StatusCode::from_u16(status) else { return };
    let end = rest.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = end.map_or((&b""[..], rest), |at| (&rest[..at], &rest[at + 2..]));
    let headers: HeaderMap = head.split(|byte| *byte == b'\n').filter_map(header).collect();
    drive(
        &KEPT[set],
        || service(set),
        async |behind: &Behind| {
            behind.answering(status, headers.clone(), body);
            check(behind, status).await;
        },
    );
}

fn service(set: usize) -> Behind {
    let plain = operation("o").on(Method::POST, "/");
    let kind = || Box::from("thing");
    let operation: Operation = match set {
        0 => plain.pointer(PointerRule::Location { kind: kind() }).outcome_max(64),
        _ => plain
            .pointer(PointerRule::Body { kind: kind(), pointer: "/id".into() })
            .outcome_headers(HeaderRules::new().cookies(true)),
    };
    Behind::with([operation], |layer| layer.trust_effect_header(set == 1)).expect("one operation")
}

fn header(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let at = line.iter().position(|byte| *byte == b':')?;
    let name = HeaderName::from_bytes(&line[..at]).ok()?;
    Some((name, HeaderValue::from_bytes(line[at + 1..].trim_ascii()).ok()?))
}

async fn check(behind: &Behind, status: StatusCode) {
    let first = send(behind, None).await;
    let again = send(behind, None).await;
    let says = first.headers.contains_key("semel-effect");
    assert!(!says, "what a handler says to Semel is not passed on");
    if again.answered.replayed {
        assert_eq!(again.answered.effects, 1);
        assert_eq!(again.answered.status, status);
        // What a handler puts behind such a status is never sent.
        let bodiless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
        assert_eq!(again.body, if bodiless { Bytes::new() } else { first.body.clone() });
        for (name, _) in again.headers.iter().filter(|(name, _)| *name != "idempotent-replayed") {
            assert!(!OF_ONE.contains(&name.as_str()), "{name} is replayed");
            let lines = |whole: &Whole| -> Vec<_> {
                whole.headers.get_all(name).into_iter().cloned().collect()
            };
            assert_eq!(lines(&again), lines(&first), "{name}");
        }
        decoded(&again, &send(behind, Some("identity")).await);
    } else if again.answered.effects > 1 {
        let without_effect = matches!(class(status), Class::NotDone) || again.answered.effects == 2;
        assert!(without_effect, "{status} ran {} times", again.answered.effects);
        assert!(class(status) != Class::Success || released(behind), "{status} ran again");
    }
}

/// Whether the handler itself said that nothing happened.
fn released(behind: &Behind) -> bool {
    behind.says("semel-effect")
}

/// An answer without its coding is the same answer.
fn decoded(coded: &Whole, plain: &Whole) {
    assert_eq!(plain.answered, coded.answered);
    if plain.headers.get("content-encoding") == coded.headers.get("content-encoding") {
        assert_eq!(plain.body, coded.body);
    } else {
        assert!(coded.headers.contains_key("content-encoding"));
        assert!(!plain.headers.contains_key("content-encoding"));
        let strong = plain.headers.get("etag").is_some_and(|tag| tag.as_bytes().starts_with(b"\""));
        assert!(!strong, "other bytes have another strong tag");
    }
}

async fn send(behind: &Behind, accept: Option<&str>) -> Whole {
    let mut request = Request::post("/").header(TENANT, behind.tenant());
    request = request.header("idempotency-key", "k");
    if let Some(accept) = accept {
        request = request.header("accept-encoding", accept);
    }
    behind.send(request, b"{}").await.expect("a request")
}
