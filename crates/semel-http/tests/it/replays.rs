//! A replay is the first answer again.

use std::{io::Write, sync::Arc, time::Duration};

use axum::{
    body::Body,
    response::{AppendHeaders, IntoResponse},
};
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body::Frame;
use semel_http::{HeaderRules, Operation, PointerRule, Resource};
use semel_testkit::Gate;

use crate::support::{
    Answer, Ask, Server, Setup, ask, data, operation, pay, payments, policy, streamed, until,
};

async fn serving<R: IntoResponse + 'static>(
    operation: Operation,
    answer: impl Fn() -> R + Send + Sync + Copy + 'static,
) -> Server {
    Setup::new([operation])
        .serve(move |ledger, _: Request<Body>| async move {
            ledger.write();
            answer()
        })
        .await
}

/// Sends a request twice; the second answer replays the first.
async fn twice(server: &Server, ask: &Ask) -> (Answer, Answer) {
    let first = server.send(ask).await;
    let again = server.send(ask).await;
    again.assert_replays(&first);
    assert!(!again.broken && !first.broken, "{again:?}");
    assert_eq!(server.ledger.rows(), 1);
    (first, again)
}

/// C71, C73
#[tokio::test]
async fn status_headers_and_body_are_replayed_and_what_is_true_of_one_message_is_not() {
    let server = serving(payments(), || {
        let kept = [
            ("location", "/payments/7"),
            ("etag", "\"v1\""),
            ("link", "<a>; rel=next"),
            ("link", "<b>; rel=prev"),
        ];
        let not =
            [("x-request-id", "r"), ("ratelimit-remaining", "7"), ("date", "then"), ("age", "3")];
        (StatusCode::CREATED, AppendHeaders(kept), AppendHeaders(not), "created")
    })
    .await;
    let first = server.send(&pay()).await;
    let again = server.send(&pay()).await;
    assert!(again.replayed() && !first.replayed());
    assert_eq!((again.status, again.text()), (first.status, first.text()));
    assert_eq!(first.status, 201);
    for name in ["location", "etag", "link", "content-type", "content-length"] {
        let values = |answer: &Answer| answer.all(name).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(values(&again), values(&first), "{name}");
    }
    assert_eq!(again.all("link").count(), 2);
    for name in ["x-request-id", "ratelimit-remaining", "age"] {
        assert_eq!((first.header(name).is_some(), again.header(name)), (true, None), "{name}");
    }
    assert!(!again.is("date", "then"));
}

/// C70, S29
#[tokio::test]
async fn header_lines_are_kept_whole_and_cookies_only_by_rule() {
    let answer = || {
        let lines = [
            ("content-disposition", "attachment; filename=\"a,b.txt\""),
            ("set-cookie", "a=1; Expires=Wed, 09 Jun 2100 10:18:14 GMT; Secure; HttpOnly"),
            ("set-cookie", "b=2; SameSite=Strict"),
            ("x-invoice", "7"),
        ];
        (AppendHeaders(lines), "x")
    };
    let lines =
        |answer: &Answer, name: &str| answer.all(name).map(str::to_owned).collect::<Vec<_>>();
    let server = serving(payments(), answer).await;
    let first = server.send(&pay()).await;
    let again = server.send(&pay()).await;
    assert_eq!(lines(&again, "content-disposition"), ["attachment; filename=\"a,b.txt\""]);
    assert_eq!((again.header("set-cookie"), again.header("x-invoice")), (None, None));

    let rules = HeaderRules::new().cookies(true).keep(&"x-invoice".parse().unwrap());
    let rules = rules.drop(&"content-disposition".parse().unwrap());
    let server = serving(payments().outcome_headers(rules), answer).await;
    let kept = server.send(&pay()).await;
    let again = server.send(&pay()).await;
    assert_eq!(lines(&again, "set-cookie"), lines(&first, "set-cookie"));
    assert_eq!(lines(&again, "set-cookie").len(), 2);
    assert!(again.is("x-invoice", "7") && kept.status == 200);
    assert_eq!(again.header("content-disposition"), None);
}

/// S01, C23
#[tokio::test]
async fn empty_answers_are_answers() {
    let server = serving(payments(), || StatusCode::NO_CONTENT).await;
    let (first, _) = twice(&server, &pay()).await;
    assert_eq!((first.status, first.header("content-length")), (204, None));

    let server = serving(payments(), || "").await;
    let (_, again) = twice(&server, &pay()).await;
    assert_eq!((again.status, again.header("content-length")), (200, Some("0")));
}

/// C23
#[tokio::test]
async fn redirects_errors_and_not_modified_end_the_record() {
    let server = serving(payments(), || (StatusCode::SEE_OTHER, [("location", "/p/7")])).await;
    let (_, again) = twice(&server, &pay()).await;
    assert!(again.is("location", "/p/7"));

    let server = serving(payments(), || (StatusCode::GONE, "gone")).await;
    twice(&server, &pay()).await;

    let server = serving(payments(), || (StatusCode::NOT_MODIFIED, [("etag", "\"1\"")])).await;
    let (first, again) = twice(&server, &pay()).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(first.header("content-length"), again.header("content-length"));
}

#[tokio::test]
async fn the_answer_to_head_keeps_the_length_and_has_no_body() {
    let head = operation("probe").on(Method::HEAD, "/probe");
    let server = serving(head, || ([("content-length", "1234")], Body::empty())).await;
    let (first, again) = twice(&server, &ask("HEAD", "/probe").key("K1")).await;
    assert_eq!((first.header("content-length"), first.body.len()), (Some("1234"), 0));
    assert_eq!((again.header("content-length"), again.body.len()), (Some("1234"), 0));
}

/// C77
#[tokio::test]
async fn every_byte_and_its_type_come_back() {
    fn bytes() -> Vec<u8> {
        (0..=255).cycle().take(100_000).collect()
    }
    let server = serving(payments(), || ([("content-type", "image/png")], bytes())).await;
    let (first, again) = twice(&server, &pay()).await;
    assert_eq!(first.body, bytes());
    assert!(again.is("content-type", "image/png"));
    let server =
        serving(payments(), || ([("content-type", "text/csv; header=absent")], "a;b\r\n")).await;
    let (_, again) = twice(&server, &pay()).await;
    assert!(again.is("content-type", "text/csv; header=absent"));
}

/// C74
#[tokio::test]
async fn a_stream_is_kept_whole_and_a_retry_in_its_middle_waits() {
    let gate = Gate::shut();
    let stop = Arc::clone(&gate);
    let server = Setup::new([payments()])
        .serve(move |ledger, _| {
            let stop = Arc::clone(&stop);
            async move {
                ledger.write();
                let (writer, body) = streamed();
                tokio::spawn(async move {
                    for chunk in ["one ", "two ", "three ", "four ", "five"] {
                        writer.send(data(chunk)).unwrap();
                        if chunk == "two " {
                            stop.pass().await;
                        }
                    }
                });
                body
            }
        })
        .await;
    let first = server.sending(&pay());
    gate.arrived(1).await;
    let middle = server.sending(&pay());
    until(|| server.engine.waiting() == 1).await;
    gate.open();
    let first = first.await.unwrap();
    assert_eq!(first.text(), "one two three four five");
    middle.await.unwrap().assert_replays(&first);
    server.send(&pay()).await.assert_replays(&first);
    assert_eq!(server.ledger.rows(), 1);
}

/// C76
#[tokio::test]
async fn a_caller_that_accepts_no_coding_gets_the_bytes_decoded_with_a_new_length() {
    fn coded() -> Vec<u8> {
        let mut coder = GzEncoder::new(Vec::new(), Compression::best());
        coder.write_all(&b"hello ".repeat(100)).unwrap();
        coder.finish().unwrap()
    }
    let server = serving(payments(), || {
        let headers =
            [("content-encoding", "gzip"), ("etag", "\"v1\""), ("transfer-encoding", "chunked")];
        (headers, coded())
    })
    .await;
    let first = server.send(&pay().header("accept-encoding", "gzip")).await;
    assert_eq!(first.body, coded());
    for accept in ["gzip, br", "*"] {
        server.send(&pay().header("accept-encoding", accept)).await.assert_replays(&first);
    }
    server.send(&pay()).await.assert_replays(&first);
    let plain = server.send(&pay().header("accept-encoding", "identity")).await;
    assert_eq!(plain.body, b"hello ".repeat(100));
    assert!(plain.replayed() && !plain.broken);
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(
        (plain.header("content-length"), plain.header("etag")),
        (Some("600"), Some("W/\"v1\""))
    );
    assert_eq!(server.ledger.rows(), 1);
}

async fn not_kept(server: &Server, first: &Answer) {
    let again = server.send(&pay()).await;
    assert_eq!((again.status, again.code().as_str()), (410, "outcome-not-kept"), "{first:?}");
    let document = again.document();
    assert_eq!(document["retry"], "do-not-retry");
    assert_eq!(document["pointer"], serde_json::json!({ "kind": "export", "id": "7" }));
    assert_eq!(server.ledger.rows(), 1);
}

/// C52: what must not be stored is kept out by the cap.
#[tokio::test]
async fn an_answer_over_the_cap_is_sent_whole_and_not_kept() {
    let answer = || (Resource::new("export", "7"), vec![b'x'; 5000]);
    let server = serving(payments().outcome_max(4999), answer).await;
    let first = server.send(&pay()).await;
    assert_eq!((first.status, first.body.len(), first.broken), (200, 5000, false));
    not_kept(&server, &first).await;

    let server = Setup::new([payments().outcome_max(6)])
        .serve(|ledger, _| async move {
            ledger.write();
            let (writer, body) = streamed();
            for chunk in ["abc", "def", "ghi"] {
                writer.send(data(chunk)).unwrap();
            }
            (Resource::new("export", "7"), body)
        })
        .await;
    let first = server.send(&pay()).await;
    assert_eq!((first.status, first.text()), (200, "abcdefghi"));
    not_kept(&server, &first).await;
}

#[tokio::test]
async fn a_final_failure_that_was_not_kept_is_not_told_as_done() {
    let answer = || (StatusCode::PAYMENT_REQUIRED, vec![b'x'; 5000]);
    let server = serving(payments().outcome_max(4999), answer).await;
    assert_eq!(server.send(&pay()).await.status, 402);
    let again = server.send(&pay()).await;
    assert_eq!((again.status, again.code().as_str()), (410, "outcome-not-kept"));
    let document = again.document();
    assert_eq!(document["kept_status"], 402);
    let detail = document["detail"].as_str().unwrap();
    assert!(detail.contains("ended in a final failure"), "{detail}");
    assert_eq!(server.ledger.rows(), 1);
}

#[tokio::test]
async fn an_event_stream_and_a_body_that_does_not_end_are_done_on_the_head() {
    for media_type in ["text/event-stream; charset=utf-8", "text/plain"] {
        let gate = Gate::shut();
        let stop = Arc::clone(&gate);
        let operation = payments().body_wait(Duration::from_millis(20));
        let server = Setup::new([operation])
            .serve(move |ledger, _| {
                let stop = Arc::clone(&stop);
                async move {
                    ledger.write();
                    let (writer, body) = streamed();
                    tokio::spawn(async move {
                        writer.send(data("first ")).unwrap();
                        stop.pass().await;
                        writer.send(data("last")).unwrap();
                    });
                    (Resource::new("export", "7"), [("content-type", media_type)], body)
                }
            })
            .await;
        let first = server.sending(&pay());
        gate.arrived(1).await;
        // The first caller is still being served, and the intent is done.
        until(|| server.engine.holding() == 0).await;
        not_kept(&server, &Answer { status: 0, headers: vec![], body: vec![], broken: false })
            .await;
        gate.open();
        assert_eq!(first.await.unwrap().text(), "first last");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_was_done_and_is_told_as_such() {
    let server = Setup::new([payments()])
        .serve(|ledger, _| async move {
            ledger.write();
            let (writer, body) = streamed();
            writer.send(data("half")).unwrap();
            writer.send(Err(std::io::Error::other("reset"))).unwrap();
            (StatusCode::CREATED, Resource::new("export", "7"), body)
        })
        .await;
    let first = server.send(&pay()).await;
    assert_eq!((first.status, first.code().as_str()), (410, "outcome-not-kept"));
    not_kept(&server, &first).await;
}

#[tokio::test]
async fn an_answer_with_trailers_is_not_kept() {
    let server = Setup::new([payments()])
        .serve(|ledger, _| async move {
            ledger.write();
            let (writer, body) = streamed();
            writer.send(data("x")).unwrap();
            let trailers =
                HeaderMap::from_iter([("sum".parse().unwrap(), HeaderValue::from_static("1"))]);
            writer.send(Ok(Frame::trailers(trailers))).unwrap();
            (Resource::new("export", "7"), body)
        })
        .await;
    let first = server.send(&pay()).await;
    assert_eq!(first.text(), "x");
    not_kept(&server, &first).await;
}

async fn pointer(
    rule: PointerRule,
    answer: impl Fn() -> axum::response::Response + Send + Sync + Copy + 'static,
) -> Option<String> {
    let server = serving(payments().pointer(rule), answer).await;
    server.send(&pay()).await;
    let status = server.send(&ask("GET", "/.semel/intents/payments.create/K1")).await.document();
    let id = status["pointer"]["id"].as_str().map(str::to_owned);
    assert!(id.is_none() || status["pointer"]["kind"] == "payment");
    id
}

#[tokio::test]
async fn the_pointer_comes_from_where_the_operation_says() {
    let body =
        |pointer: &str| PointerRule::Body { kind: "payment".into(), pointer: pointer.into() };
    let json = || r#"{"data":{"id":"p7","no":7}}"#.into_response();
    assert_eq!(pointer(body("/data/id"), json).await.as_deref(), Some("p7"));
    assert_eq!(pointer(body("/data/no"), json).await.as_deref(), Some("7"));
    assert_eq!(pointer(body("/data/none"), json).await, None);
    assert_eq!(pointer(body("/id"), || "no json".into_response()).await, None);
    let refused = || (StatusCode::PAYMENT_REQUIRED, r#"{"id":"p7"}"#).into_response();
    assert_eq!(pointer(body("/id"), refused).await, None);
    let location = PointerRule::Location { kind: "payment".into() };
    let created = || (StatusCode::CREATED, [("location", "/payments/p7")]).into_response();
    assert_eq!(pointer(location, created).await.as_deref(), Some("/payments/p7"));
    let named = || [("semel-pointer", "payment/p/8")].into_response();
    assert_eq!(pointer(PointerRule::Named, named).await.as_deref(), Some("p/8"));
    let both = || (Resource::new("payment", "p9"), r#"{"id":"p7"}"#).into_response();
    assert_eq!(pointer(body("/id"), both).await.as_deref(), Some("p9"));
}

#[tokio::test]
async fn a_replay_is_the_first_answer_even_after_the_resource_is_gone() {
    let server = Setup::new([payments()])
        .serve(|ledger, request: Request<Body>| async move {
            match request.method() {
                &Method::DELETE => StatusCode::NO_CONTENT.into_response(),
                _ => (StatusCode::CREATED, format!("row {}", ledger.write())).into_response(),
            }
        })
        .await;
    let first = server.send(&pay()).await;
    assert_eq!(server.send(&ask("DELETE", "/payments/1")).await.status, 204);
    server.send(&pay()).await.assert_replays(&first);
    assert_eq!(server.ledger.rows(), 1);
    assert!(policy().replay_for > Duration::ZERO);
}
