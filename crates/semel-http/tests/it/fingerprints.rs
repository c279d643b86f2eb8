//! What counts as the same request.

use http::Method;
use semel::fingerprint::Plan;
use semel_http::{Mismatch, Operation};
use semel_testkit::Verb;

use crate::support::{Ask, Server, ledger_server, operation, pay, payments, post};

/// Sends two requests under one key; the second is a replay or a mismatch.
async fn check(operation: Operation, first: &Ask, second: &Ask, same: bool) {
    let server = ledger_server([operation]).await;
    compare(&server, first, second, same).await;
}

async fn compare(server: &Server, first: &Ask, second: &Ask, same: bool) {
    let first = server.send(first).await;
    assert_eq!(first.status, 201, "{first:?}");
    let again = server.send(second).await;
    if same {
        again.assert_replays(&first);
    } else {
        assert_eq!((again.status, again.code().as_str()), (422, "mismatch"), "{second:?}");
        assert_eq!(again.document()["retry"], "correct-request");
    }
    assert_eq!(server.ledger.rows(), 1);
}

async fn json(first: &str, second: &str, same: bool) {
    check(payments(), &pay().json(first), &pay().json(second), same).await;
}

/// C53
#[tokio::test]
async fn the_order_of_members_does_not_count() {
    json(r#"{"a":1,"b":{"c":2,"d":3}}"#, r#"{ "b": {"d":3, "c":2}, "a": 1 }"#, true).await;
}

/// C62
#[tokio::test]
async fn null_is_not_absent() {
    json(r#"{"a":1}"#, r#"{"a":1,"b":null}"#, false).await;
}

/// S10
#[tokio::test]
async fn large_integers_keep_every_digit() {
    json("{\"amount\":9007199254740993}", "{\"amount\":9007199254740992}", false).await;
}

/// S11
#[tokio::test]
async fn numbers_are_compared_by_value_and_strings_by_their_characters() {
    json(r#"{"a":1}"#, r#"{"a":1.0}"#, true).await;
    json(r#"{"a":1}"#, r#"{"a":1e0}"#, true).await;
    json(r#"{"a":"\u00e9"}"#, "{\"a\":\"\u{e9}\"}", true).await;
    json("{\"a\":\"\u{e9}\"}", "{\"a\":\"e\u{301}\"}", false).await;
}

/// S11
#[tokio::test]
async fn json_without_one_meaning_is_refused_with_its_own_code() {
    let server = ledger_server([payments()]).await;
    let deep = "[".repeat(100_000);
    for (body, code) in [
        (&b"{\"a\":1,\"a\":2}"[..], "duplicate-member"),
        (b"{\"a\":\"\\ud800\"}", "lone-surrogate"),
        (b"{\"a\":\"\xff\"}", "invalid-utf-8"),
        (b"\xef\xbb\xbf{}", "byte-order-mark"),
        (b"{\"a\":1e9999999999}", "number-exponent"),
        (b"{\"a\":", "malformed-json"),
        (b"{} {}", "malformed-json"),
        (deep.as_bytes(), "too-deep"),
    ] {
        for media_type in ["application/json", "application/vnd.pay+json; charset=utf-8"] {
            let ask = pay().set("content-type", media_type).body(body);
            assert_eq!(server.refused(&ask).await, (400, code.to_owned()));
        }
    }
    assert_eq!((server.ledger.rows(), server.store.calls(Verb::Claim)), (0, 0));
    // What is not called JSON is not read as JSON.
    assert_eq!(server.send(&pay().set("content-type", "text/plain").body("{")).await.status, 201);
}

/// C59
#[tokio::test]
async fn another_amount_is_another_request_however_it_is_sent() {
    let first = pay().json(r#"{"amount":100}"#);
    let second = pay().json(r#"{"amount":999}"#);
    check(payments(), &first, &second, false).await;
    check(payments(), &first, &second.chunked(), false).await;
    check(payments(), &first, &first.clone().chunked(), true).await;
}

/// S25
#[tokio::test]
async fn bodies_that_collide_under_short_hashes_do_not_collide_here() {
    // Equal under CRC-32.
    check(
        payments(),
        &pay().set("content-type", "").body("plumless"),
        &pay().set("content-type", "").body("buckeroo"),
        false,
    )
    .await;
    // Equal under Java's 32-bit string hash.
    json(r#"{"a":"AaAa"}"#, r#"{"a":"BBBB"}"#, false).await;
}

/// S26
#[tokio::test]
async fn what_names_the_try_does_not_count() {
    let again = pay()
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .header("x-request-id", "r2")
        .header("date", "Sun, 06 Nov 1994 08:49:37 GMT")
        .header("user-agent", "curl/9")
        .header("authorization", "Bearer other");
    check(payments(), &pay(), &again, true).await;
}

#[tokio::test]
async fn a_header_counts_where_the_plan_names_it() {
    let plan = Plan::new().headers(["If-Match"]).unwrap();
    let (one, two) = (pay().header("if-match", "\"1\""), pay().header("if-match", "\"2\""));
    check(payments().plan(plan.clone()), &one, &two, false).await;
    check(payments().plan(plan), &one, &one, true).await;
    check(payments(), &one, &two, true).await;
}

/// C61
#[tokio::test]
async fn an_excluded_secret_may_rotate() {
    let plan = Plan::new().exclude(["/auth/secret"]).unwrap();
    let body = |secret| pay().json(format!(r#"{{"amount":1,"auth":{{"secret":"{secret}"}}}}"#));
    check(payments().plan(plan), &body("s1"), &body("s2"), true).await;
    check(payments(), &body("s1"), &body("s2"), false).await;
}

/// C55
#[tokio::test]
async fn a_reworded_memo_is_a_replay_only_where_the_memo_is_excluded() {
    let body = |amount: &str, memo: &str| {
        pay().json(format!(r#"{{"amount":"{amount}","memo":"{memo}"}}"#))
    };
    let without_memo = || payments().plan(Plan::new().exclude(["/memo"]).unwrap());
    let (first, reworded) = (body("0.001", "lunch"), body("0.001", "Lunch on Tuesday"));
    check(without_memo(), &first, &reworded, true).await;
    check(payments(), &first, &reworded, false).await;
    // A string is compared by its characters, whatever number it may spell.
    check(without_memo(), &first, &body("0.0010", "lunch"), false).await;
}

/// C56
#[tokio::test]
async fn an_envelope_written_by_another_library_is_the_same_request() {
    let plan = Plan::new().exclude(["/sent_at"]).unwrap();
    let first = r#"{"id":"7","sent_at":1,"order":{"note":"caf\u00e9 \/ bar","lines":[10.50,2]}}"#;
    let second = "{\n  \"order\": {\"lines\": [1.05e1, 2.0], \"note\": \"café / bar\"},\n  \
                  \"sent_at\": \"2030-01-01\",\n  \"id\": \"7\"\n}";
    check(payments().plan(plan), &pay().json(first), &pay().json(second), true).await;
}

/// C50
#[tokio::test]
async fn two_operations_on_one_store_compare_each_by_its_own_plan() {
    let refunds = operation("refunds.create").on(Method::POST, "/refunds");
    let without = |name: &str| Plan::new().exclude([name]).unwrap();
    let operations = [payments().plan(without("/memo")), refunds.plan(without("/reason"))];
    let server = ledger_server(operations).await;
    let send = async |path, memo: u8, reason: u8| {
        let body = format!("{{\"amount\":1,\"memo\":{memo},\"reason\":{reason}}}");
        server.send(&pay().target(path).json(body)).await
    };
    let (paid, refunded) = (send("/payments", 1, 1).await, send("/refunds", 1, 1).await);
    send("/payments", 2, 1).await.assert_replays(&paid);
    send("/refunds", 1, 2).await.assert_replays(&refunded);
    assert_eq!(send("/payments", 1, 2).await.code(), "mismatch");
    assert_eq!(send("/refunds", 2, 1).await.code(), "mismatch");
    assert_eq!(server.ledger.rows(), 2);
}

/// C47
#[tokio::test]
async fn a_dry_run_is_not_the_live_run() {
    check(payments(), &pay().target("/payments?dry=1"), &pay(), false).await;
    check(
        payments(),
        &pay().target("/payments?a=1&b=2"),
        &pay().target("/payments?b=2&a=1"),
        false,
    )
    .await;
}

fn multipart(boundary: &str, file: &str) -> Ask {
    let body = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n100\r\n\
         --{boundary}\r\ncontent-disposition: form-data; name=\"scan\"; filename=\"a.png\"\r\n\
         Content-Type: image/png\r\n\r\n{file}\r\n--{boundary}--\r\n"
    );
    pay().set("content-type", format!("multipart/form-data; boundary={boundary}")).body(body)
}

/// C58
#[tokio::test]
async fn the_boundary_of_a_multipart_body_does_not_count_but_every_byte_of_a_part_does() {
    check(payments(), &multipart("aaa", "PNG"), &multipart("bbb", "PNG"), true).await;
    check(payments(), &multipart("aaa", "PNG"), &multipart("bbb", "PNH"), false).await;
    let server = ledger_server([payments()]).await;
    let cut = pay().set("content-type", "multipart/form-data; boundary=x").body("--x\r\nno end");
    assert_eq!(server.refused(&cut).await, (400, "multipart-malformed".to_owned()));
    assert_eq!(server.store.calls(Verb::Claim), 0);
}

#[tokio::test]
async fn forms_are_compared_decoded_and_in_the_order_of_repeated_names() {
    let form =
        |body: &str| pay().set("content-type", "application/x-www-form-urlencoded").body(body);
    check(payments(), &form("a=1+2&b=%7e"), &form("b=%7E&a=1%202"), true).await;
    check(payments(), &form("a=1&a=2"), &form("a=2&a=1"), false).await;
    check(payments(), &form("b="), &form("b"), true).await;
    // Neither is UTF-8, and they are not the same.
    check(payments(), &form("a=%ff"), &form("a=%fe"), false).await;
}

#[tokio::test]
async fn an_absent_body_is_an_empty_one_and_not_another() {
    let empty = post("/payments").key("K1").header("content-type", "application/json");
    check(payments(), &empty, &empty.clone().chunked(), true).await;
    check(payments(), &empty, &pay(), false).await;
}

#[tokio::test]
async fn a_retry_across_a_deploy_is_compared_by_the_plan_of_its_record() {
    let old = Plan::new().exclude(["/trace"]).unwrap();
    let before = ledger_server([payments().plan(old.clone())]).await;
    let body =
        |trace: u8, amount: u8| pay().json(format!(r#"{{"amount":{amount},"trace":{trace}}}"#));
    let first = before.send(&body(1, 7)).await;
    let after = |operation: Operation| {
        let mut setup = crate::support::Setup::new([operation]);
        setup.store = before.store.clone();
        setup.serve(|ledger, _| async move { ledger.write().to_string() })
    };
    let kept = after(payments().plan(Plan::new()).old_plan(old)).await;
    kept.send(&body(2, 7)).await.assert_replays(&first);
    assert_eq!(kept.refused(&body(2, 8)).await, (422, "mismatch".to_owned()));
    let lost = after(payments().plan(Plan::new())).await;
    let refused = lost.send(&body(1, 7)).await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "incomparable"));
    assert_eq!(refused.document()["retry"], "same-key");
    assert_eq!((kept.ledger.rows(), lost.ledger.rows()), (0, 0));
}

#[tokio::test]
async fn a_mismatch_is_what_the_operation_says() {
    let other = pay().json("{}");
    for status in [400, 409, 422] {
        let server = ledger_server([payments().mismatch(Mismatch::Status(status))]).await;
        server.send(&pay()).await;
        assert_eq!(server.refused(&other).await, (status, "mismatch".to_owned()));
    }
    let server = ledger_server([payments().mismatch(Mismatch::ReplayFirst)]).await;
    let first = server.send(&pay()).await;
    server.send(&other).await.assert_replays(&first);
    assert_eq!(server.ledger.rows(), 1);
}

#[tokio::test]
async fn under_new_intent_key_and_content_are_the_identity_across_deploys_too() {
    let new = || payments().mismatch(Mismatch::NewIntent);
    let old = Plan::new().exclude(["/trace"]).unwrap();
    let server = ledger_server([new().plan(old.clone())]).await;
    let body = |amount: u8| pay().json(format!(r#"{{"amount":{amount}}}"#));
    let first = server.send(&body(1)).await;
    assert_eq!(server.send(&body(2)).await.text(), r#"{"row":2}"#);
    server.send(&body(1)).await.assert_replays(&first);
    let mut setup = crate::support::Setup::new([new().old_plan(old)]);
    setup.store = server.store.clone();
    let later = setup.serve(|ledger, _| async move { ledger.write().to_string() }).await;
    later.send(&body(1)).await.assert_replays(&first);
    assert_eq!(later.send(&body(3)).await.text(), "1");
    assert_eq!((server.ledger.rows(), later.ledger.rows()), (2, 1));
}

#[tokio::test]
async fn an_operation_protects_any_method() {
    let put = operation("profile.set").on(Method::PUT, "/profile");
    let server = ledger_server([put]).await;
    let ask = crate::support::ask("PUT", "/profile").key("K1").body("x");
    let first = server.send(&ask).await;
    server.send(&ask).await.assert_replays(&first);
    assert_eq!(server.ledger.rows(), 1);
}
