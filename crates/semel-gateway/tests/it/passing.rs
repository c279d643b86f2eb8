//! What passes through without a key: untouched, streamed, and without what is meant for one
//! connection alone.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Notify;

use crate::{
    gateway::{Served, settings},
    message::{Wire, answer, request, send},
    upstream::{Deed, Upstream},
};

#[tokio::test]
async fn a_request_and_its_answer_pass() {
    let upstream =
        Upstream::saying(answer(200, &[("x-said", "a"), ("x-said", "b")], "hello")).await;
    let gateway = Served::before(&upstream.url()).await;
    let got = gateway.send("PUT /things/7?q=%20a", &[("x-one", "1")], "body").await;
    assert_eq!((got.status(), got.text()), (200, "hello"));
    assert_eq!(got.headers.iter().filter(|(name, _)| name == "x-said").count(), 2);
    let seen = &upstream.seen.requests()[0];
    assert_eq!(seen.start, "PUT /things/7?q=%20a HTTP/1.1");
    assert_eq!((seen.header("x-one"), seen.text()), (Some("1"), "body"));
    assert_eq!(seen.header("host"), Some(upstream.address.to_string().as_str()));
    assert_eq!(seen.header("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(seen.header("x-forwarded-host"), Some("gateway.test"));
    assert_eq!(seen.header("x-forwarded-proto"), Some("http"));
    assert_eq!(seen.header("via"), Some("1.1 semel"));
}

#[tokio::test]
async fn the_path_of_the_upstreams_url_is_put_before_every_path() {
    let upstream = Upstream::saying(answer(200, &[], "")).await;
    let gateway = Served::before(&format!("{}/base/", upstream.url())).await;
    gateway.send("GET /things?x=1", &[], "").await;
    assert_eq!(upstream.seen.requests()[0].target(), "/base/things?x=1");
}

#[tokio::test]
async fn what_is_meant_for_one_connection_passes_neither_way() {
    let reply = answer(200, &[("connection", "x-hop"), ("x-hop", "1"), ("keep-alive", "9")], "");
    let upstream = Upstream::saying(reply).await;
    let gateway = Served::before(&upstream.url()).await;
    let headers = [
        ("connection", "x-private, idempotency-key"),
        ("x-private", "1"),
        ("te", "trailers"),
        ("proxy-authorization", "Basic eA=="),
        ("idempotency-key", "kept-although-named"),
    ];
    let got = gateway.send("GET /", &headers, "").await;
    assert_eq!((got.header("x-hop"), got.header("keep-alive")), (None, None));
    let seen = &upstream.seen.requests()[0];
    for name in ["x-private", "te", "proxy-authorization", "connection"] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    assert_eq!(seen.header("idempotency-key"), Some("kept-although-named"));
}

#[tokio::test]
async fn bodies_of_every_framing_pass() {
    let upstream = Upstream::new(|message| async move {
        match message.target() {
            "/chunked" => Deed::Write(
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
                    .to_vec(),
            ),
            "/close" => Deed::WriteAndClose(b"HTTP/1.1 200 OK\r\n\r\nabcde".to_vec()),
            "/none" => Deed::Write(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
            "/same" => Deed::Write(b"HTTP/1.1 304 Not Modified\r\netag: \"x\"\r\n\r\n".to_vec()),
            "/head" => Deed::Write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n".to_vec()),
            "/early" => Deed::Write(
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n\
                  HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabcde"
                    .to_vec(),
            ),
            _ => Deed::Write(answer(200, &[], message.text())),
        }
    })
    .await;
    let gateway = Served::before(&upstream.url()).await;
    let mut wire = Wire::to(gateway.address).await;
    for (line, status, body) in [
        ("GET /chunked", 200, "abcde"),
        ("GET /none", 204, ""),
        ("GET /same", 304, ""),
        ("HEAD /head", 200, ""),
        ("GET /early", 200, "abcde"),
        ("GET /close", 200, "abcde"),
        ("POST /echo", 200, ""),
    ] {
        wire.write(request(line, &[], "")).await;
        let got = wire.answer(line.split(' ').next().unwrap()).await.unwrap();
        assert_eq!((got.status(), got.text(), got.whole), (status, body, true), "{line}");
        if line == "HEAD /head" {
            assert_eq!(got.header("content-length"), Some("5"));
        }
    }
    let chunked = "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n\
                   2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n";
    for method in ["POST", "GET"] {
        wire.write(chunked.replace("POST", method)).await;
        assert_eq!(wire.answer(method).await.unwrap().text(), "abcde", "{method}");
    }
}

#[tokio::test]
async fn an_answer_is_passed_on_piece_by_piece() {
    let go = Arc::new(Notify::new());
    let waiting = Arc::clone(&go);
    let upstream = Upstream::new(move |_| {
        let go = Arc::clone(&waiting);
        async move {
            Deed::Take(Box::new(move |mut wire| {
                Box::pin(async move {
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                                transfer-encoding: chunked\r\n\r\n";
                    wire.write(format!("{head}8\r\ndata: 1\n\r\n")).await;
                    go.notified().await;
                    wire.write("8\r\ndata: 2\n\r\n0\r\n\r\n").await;
                    wire.some().await;
                })
            }))
        }
    })
    .await;
    let gateway = Served::before(&upstream.url()).await;
    let mut wire = Wire::to(gateway.address).await;
    wire.write(request("GET /events", &[], "")).await;
    let mut got = String::new();
    while !got.contains("data: 1") {
        got += &String::from_utf8(wire.some().await.unwrap()).unwrap();
    }
    assert!(!got.contains("data: 2"));
    go.notify_one();
    while !got.contains("data: 2") {
        got += &String::from_utf8(wire.some().await.unwrap()).unwrap();
    }
}

#[tokio::test]
async fn a_large_body_passes_without_being_held() {
    const PIECE: usize = 64 * 1024;
    const PIECES: usize = 1024;
    let written = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&written);
    let upstream = Upstream::new(move |_| {
        let written = Arc::clone(&counting);
        async move {
            Deed::Take(Box::new(move |mut wire| {
                Box::pin(async move {
                    let head =
                        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", PIECE * PIECES);
                    wire.write(head).await;
                    for _ in 0..PIECES {
                        wire.write(vec![b'x'; PIECE]).await;
                        written.fetch_add(PIECE, Ordering::SeqCst);
                    }
                })
            }))
        }
    })
    .await;
    let gateway = Served::before(&upstream.url()).await;
    let mut wire = Wire::to(gateway.address).await;
    wire.write(request("GET /large", &[], "")).await;
    // Nothing is read yet: what the upstream could write is what kernel and gateway hold.
    let held = until_still(&written).await;
    assert!(held < 24 << 20, "{held} bytes were taken although nobody reads");
    let got = wire.answer("GET").await.unwrap();
    assert_eq!((got.body.len(), got.whole), (PIECE * PIECES, true));
}

/// Waits until a count has stopped growing, and returns it.
async fn until_still(count: &AtomicUsize) -> usize {
    let mut before = 0;
    loop {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        match count.load(Ordering::SeqCst) {
            now if now == before && now > 0 => return now,
            now => before = now,
        }
    }
}

#[tokio::test]
async fn a_connection_that_changes_its_protocol_passes() {
    let upstream = Upstream::new(|message| async move {
        assert_eq!(message.header("upgrade"), Some("echo"));
        assert_eq!(message.header("connection"), Some("upgrade"));
        Deed::Take(Box::new(|mut wire| {
            Box::pin(async move {
                wire.write(
                    "HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nhi ",
                )
                .await;
                while let Some(bytes) = wire.some().await {
                    wire.write(bytes).await;
                }
            })
        }))
    })
    .await;
    let gateway = Served::before(&upstream.url()).await;
    let mut wire = Wire::to(gateway.address).await;
    wire.write(request("GET /chat", &[("connection", "Upgrade"), ("upgrade", "echo")], "")).await;
    let got = wire.answer("GET").await.unwrap();
    assert_eq!((got.status(), got.header("upgrade")), (101, Some("echo")));
    wire.write("there").await;
    let mut heard = Vec::new();
    while heard.len() < 8 {
        heard.extend(wire.some().await.unwrap());
    }
    assert_eq!(heard, b"hi there");
}

/// Requests in a tunnel would pass the layer that protects them.
#[tokio::test]
async fn no_connection_changes_to_another_form_of_http() {
    let upstream = Upstream::counting().await;
    let gateway = Served::before(&upstream.url()).await;
    for protocol in ["h2c", "H2C", "websocket, h2c", "TLS/1.3, HTTP/2.0"] {
        let headers = [
            ("connection", "upgrade, http2-settings"),
            ("upgrade", protocol),
            ("http2-settings", "AAMAAABk"),
        ];
        assert_eq!(gateway.send("POST /x", &headers, "").await.status(), 201, "{protocol}");
    }
    for seen in upstream.seen.requests() {
        assert_eq!((seen.header("upgrade"), seen.header("http2-settings")), (None, None));
    }
}

#[tokio::test]
async fn connections_are_used_again_and_not_after_they_were_closed() {
    let upstream = Upstream::new(|message| async move {
        let said = answer(200, &[], "ok");
        if message.target() == "/last" { Deed::WriteAndClose(said) } else { Deed::Write(said) }
    })
    .await;
    let gateway = Served::before(&upstream.url()).await;
    for line in ["GET /a", "GET /b", "GET /last"] {
        assert_eq!(gateway.send(line, &[], "").await.status(), 200);
    }
    assert_eq!(upstream.seen.connections(), 1);
    assert_eq!(gateway.send("GET /c", &[], "").await.status(), 200);
    assert_eq!(upstream.seen.connections(), 2);
}

#[tokio::test]
async fn operations_and_prefixes_decide_the_upstream() {
    let (one, two) = (Upstream::counting().await, Upstream::counting().await);
    let mut settings = settings(&[("one", &one.url()), ("two", &two.url())]);
    settings.upstreams[1].prefixes = vec!["/two".into()];
    let gateway = Served::new(&settings).await;
    gateway.send("POST /two/x", &[], "").await;
    gateway.send("POST /twofold", &[], "").await;
    assert_eq!(two.seen.requests().len(), 1);
    assert_eq!(one.seen.requests().len(), 1);
}

/// The upstream may know it as the operation.
#[tokio::test]
async fn a_request_with_a_key_that_narrowly_misses_its_operation_is_counted() {
    let upstream = Upstream::counting().await;
    let gateway = Served::before(&upstream.url()).await;
    for target in ["/Pay", "/pay/", "/pay;v=1", "/pay%20", "/other"] {
        let line = format!("POST {target}");
        assert_eq!(gateway.send(&line, &[("idempotency-key", "k")], "").await.status(), 201);
    }
    gateway.send("POST /Pay", &[], "").await;
    assert_eq!(gateway.metric("semel_http_missed_total").await, 4);
}

#[tokio::test]
async fn a_head_that_can_be_read_in_two_ways_is_refused() {
    let upstream = Upstream::counting().await;
    let gateway = Served::before(&upstream.url()).await;
    let got = gateway.send("POST /x/../pay", &[], "").await;
    assert_eq!((got.status(), got.code().as_str()), (400, "path-not-normal"));
    for target in ["//pay", "http://x//pay", "/x/..%2fpay", "/x/..;/pay", "/x/..\\pay"] {
        let got = gateway.send(&format!("POST {target}"), &[], "").await;
        assert_eq!((got.status(), got.code().as_str()), (400, "path-not-normal"), "{target}");
    }
    for target in ["*", "pay", "x:80"] {
        let got = gateway.send(&format!("POST {target}"), &[], "").await;
        assert_eq!((got.status(), got.code().as_str()), (400, "target-form"), "{target}");
    }
    let got = gateway.send("POST /pay", &[("host", "a"), ("host", "b")], "").await;
    assert_eq!((got.status(), got.code().as_str()), (400, "host-not-one"));
    assert!(upstream.seen.requests().is_empty());
}

#[tokio::test]
async fn probes_and_metrics_answer_on_their_own_port() {
    let upstream = Upstream::counting().await;
    let gateway = Served::before(&upstream.url()).await;
    gateway.send("POST /x", &[], "").await;
    for (line, status) in [("GET /healthz", 200), ("GET /readyz", 200), ("GET /other", 404)] {
        assert_eq!(send(gateway.admin, line, &[], "").await.status(), status, "{line}");
    }
    let answered = "semel_upstream_answers_total{upstream=\"api\",class=\"2xx\"}";
    assert_eq!(gateway.metric(answered).await, 1);
    assert_eq!(gateway.metric("semel_fresh_total").await, 0);
    gateway.send("POST /pay", &[], "{}").await;
    let refused = "semel_http_problems_total{code=\"key-missing\"}";
    assert_eq!(gateway.metric(refused).await, 1);
    assert_eq!(gateway.metric("semel_records{state=\"unknown\"}").await, 0);
}

#[tokio::test]
async fn a_request_is_passed_on_piece_by_piece() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = Served::before(&format!("http://{}", listener.local_addr().unwrap())).await;
    let mut client = Wire::to(gateway.address).await;
    client
        .write("POST /up HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        .await;
    let (tcp, _) = listener.accept().await.unwrap();
    let mut upstream = Wire::new(tcp);
    let mut got = until_heard(&mut upstream, String::new(), "one").await;
    client.write("3\r\ntwo\r\n0\r\n\r\n").await;
    got = until_heard(&mut upstream, got, "two").await;
    assert!(got.starts_with("POST /up HTTP/1.1\r\n"), "{got}");
    until_heard(&mut upstream, got, "0\r\n\r\n").await;
    upstream.write(answer(200, &[], "all")).await;
    assert_eq!(client.answer("POST").await.unwrap().text(), "all");
}

/// Reads until a word was heard, and returns everything that was.
async fn until_heard(
    wire: &mut Wire<tokio::net::TcpStream>,
    mut heard: String,
    word: &str,
) -> String {
    while !heard.contains(word) {
        let some = tokio::time::timeout(crate::message::PATIENCE, wire.some()).await.unwrap();
        heard += &String::from_utf8(some.expect("more is heard")).unwrap();
    }
    heard
}

/// An upstream may answer before it has read everything, such as to refuse what is too large.
#[tokio::test]
async fn an_answer_that_comes_before_the_body_is_over_is_passed_on() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = Served::before(&format!("http://{}", listener.local_addr().unwrap())).await;
    let mut client = Wire::to(gateway.address).await;
    client.write("POST /up HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\nsome").await;
    let (tcp, _) = listener.accept().await.unwrap();
    let mut upstream = Wire::new(tcp);
    until_heard(&mut upstream, String::new(), "some").await;
    upstream.write(answer(413, &[], "too large")).await;
    let got = client.answer("POST").await.unwrap();
    assert_eq!((got.status(), got.text()), (413, "too large"));
}

#[tokio::test]
async fn a_client_that_waits_for_leave_to_send_gets_it() {
    let upstream =
        Upstream::new(|message| async move { Deed::Write(answer(200, &[], message.text())) }).await;
    let gateway = Served::before(&upstream.url()).await;
    for (path, key) in [("/up", ""), ("/pay", "idempotency-key: leave-1\r\n")] {
        let mut client = Wire::to(gateway.address).await;
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n{key}");
        client.write(format!("{head}content-length: 2\r\n\r\n")).await;
        let said = until_heard(&mut client, String::new(), "\r\n\r\n").await;
        assert!(said.starts_with("HTTP/1.1 100 "), "{said}");
        client.write("{}").await;
        assert_eq!(client.answer("POST").await.unwrap().text(), "{}");
    }
    assert!(upstream.seen.requests().iter().all(|request| request.header("expect").is_none()));
}
