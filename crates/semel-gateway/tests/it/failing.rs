//! What goes wrong with an upstream, and what that says about its effect.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use semel_gateway::settings::CircuitSettings;
use tokio::net::TcpListener;

use crate::{
    gateway::{Served, protected, settings},
    message::{Wire, answer, request},
    upstream::{Deed, Upstream},
};

/// An address that nobody listens on.
async fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

async fn listening_again(address: SocketAddr) -> TcpListener {
    TcpListener::bind(address).await.unwrap()
}

/// Asks again until it is done.
async fn until_paid(gateway: &Served, key: &str) {
    let deadline = tokio::time::Instant::now() + crate::message::PATIENCE;
    while gateway.pay(key).await.status() != 201 {
        assert!(tokio::time::Instant::now() < deadline, "{key} was never done");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Answers the first request by `first` and every later one by 201, behind a gateway whose upstream
/// answers within half a second.
async fn failing_once<F>(first: F) -> (Upstream, Served)
where
    F: Fn() -> Deed + Send + Sync + 'static,
{
    let asked = Arc::new(AtomicUsize::new(0));
    let upstream = Upstream::new(move |_| {
        let deed = match asked.fetch_add(1, Ordering::SeqCst) {
            0 => first(),
            _ => Deed::Write(answer(201, &[], "done")),
        };
        async move { deed }
    })
    .await;
    let mut settings = settings(&[("api", &upstream.url())]);
    settings.upstreams[0].answer_wait = Duration::from_millis(500);
    settings.upstreams[0].body_wait = Duration::from_millis(500);
    let gateway = Served::new(&settings).await;
    (upstream, gateway)
}

/// The first answer has a status and a code; the retry is told that nobody can say, and is not sent.
/// The record says what happened.
async fn is_unknown(upstream: &Upstream, gateway: &Served, status: u16, reason: &str) {
    let first = gateway.pay("lost-answer-1").await;
    assert_eq!((first.status(), first.code().as_str()), (status, "upstream-unknown"));
    let retry = gateway.pay("lost-answer-1").await;
    assert_eq!((retry.status(), retry.code().as_str()), (409, "unknown"));
    assert_eq!(upstream.seen.requests().len(), 1);
    assert_eq!(gateway.metric("semel_upstream_unknown_total{upstream=\"api\"}").await, 1);
    assert_eq!(gateway.reason().await, reason);
}

/// S20: the connection is refused, so nothing was sent, and the key is free at once.
#[tokio::test]
async fn an_upstream_that_is_down_frees_the_key_at_once() {
    let address = nobody().await;
    let gateway = Served::before(&format!("http://{address}")).await;
    let first = gateway.pay("down-1").await;
    assert_eq!((first.status(), first.code().as_str()), (502, "upstream-unreachable"));
    assert!(first.text().contains("\"retry\":\"same-key\""), "{}", first.text());
    let listener = listening_again(address).await;
    let serving = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let mut wire = Wire::new(tcp);
        wire.request().await.unwrap();
        wire.write(answer(201, &[], "done")).await;
    });
    assert_eq!(gateway.pay("down-1").await.status(), 201);
    serving.await.unwrap();
    assert_eq!(gateway.metric("semel_upstream_not_sent_total{upstream=\"api\"}").await, 1);
    assert_eq!(gateway.metric("semel_unknown_total").await, 0);
}

#[tokio::test]
async fn an_upstream_without_an_address_frees_the_key_at_once() {
    let gateway = Served::before("http://nowhere.invalid").await;
    for _ in 0..2 {
        let got = gateway.pay("no-address-1").await;
        assert_eq!((got.status(), got.code().as_str()), (502, "upstream-unreachable"));
    }
}

#[tokio::test]
async fn a_handshake_that_fails_frees_the_key_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            Wire::new(tcp).write("220 this is no TLS\r\n").await;
        }
    });
    let gateway = Served::before(&format!("https://{address}")).await;
    for _ in 0..2 {
        let got = gateway.pay("no-tls-1").await;
        assert_eq!((got.status(), got.code().as_str()), (502, "upstream-unreachable"));
    }
}

#[tokio::test]
async fn an_upstream_that_hangs_leaves_the_effect_unknown() {
    let (upstream, gateway) = failing_once(|| Deed::Hang).await;
    is_unknown(&upstream, &gateway, 504, "upstream-timeout").await;
}

/// And not once more for the bytes of the request itself.
#[tokio::test]
async fn the_time_for_an_answer_is_counted_once() {
    let (upstream, _) = failing_once(|| Deed::Hang).await;
    let mut settings = settings(&[("api", &upstream.url())]);
    settings.upstreams[0].answer_wait = Duration::from_secs(2);
    let gateway = Served::new(&settings).await;
    let began = tokio::time::Instant::now();
    assert_eq!(gateway.pay("once-1").await.status(), 504);
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(2) && waited < Duration::from_secs(4), "{waited:?}");
}

#[tokio::test]
async fn a_status_that_leaves_the_effect_unknown_is_kept_as_the_reason() {
    let (_upstream, gateway) = failing_once(|| Deed::Write(answer(500, &[], "oh"))).await;
    assert_eq!(gateway.pay("status-1").await.status(), 500);
    assert_eq!(gateway.pay("status-1").await.code(), "unknown");
    assert_eq!(gateway.reason().await, "upstream-status-500");
}

#[tokio::test]
async fn a_reset_after_the_request_was_sent_leaves_the_effect_unknown() {
    let (upstream, gateway) = failing_once(|| Deed::Reset).await;
    is_unknown(&upstream, &gateway, 502, "upstream-reset").await;
}

#[tokio::test]
async fn a_close_without_an_answer_leaves_the_effect_unknown() {
    let (upstream, gateway) = failing_once(|| Deed::WriteAndClose(Vec::new())).await;
    is_unknown(&upstream, &gateway, 502, "upstream-reset").await;
}

#[tokio::test]
async fn half_a_head_leaves_the_effect_unknown() {
    let (upstream, gateway) =
        failing_once(|| Deed::WriteAndClose(b"HTTP/1.1 201 Crea".to_vec())).await;
    is_unknown(&upstream, &gateway, 502, "upstream-reset").await;
}

#[tokio::test]
async fn bytes_that_are_no_answer_leave_the_effect_unknown() {
    let (upstream, gateway) =
        failing_once(|| Deed::Write(b"220 mail ready\r\n\r\n".to_vec())).await;
    is_unknown(&upstream, &gateway, 502, "upstream-malformed").await;
}

#[tokio::test]
async fn an_uncalled_for_change_of_protocol_leaves_the_effect_unknown() {
    let switch = b"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
    let (upstream, gateway) = failing_once(|| Deed::Write(switch.to_vec())).await;
    is_unknown(&upstream, &gateway, 502, "upstream-switched").await;
}

/// The head says that it was done, and the body cannot be had: nobody sends it again.
#[tokio::test]
async fn half_a_body_is_never_sent_on_as_a_whole_one_and_never_run_again() {
    for half in [
        &b"HTTP/1.1 201 Created\r\ncontent-length: 10\r\n\r\nhalf"[..],
        b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ] {
        let (upstream, gateway) = failing_once(|| Deed::WriteAndClose(half.to_vec())).await;
        let first = gateway.pay("half-a-body-1").await;
        assert!(first.status() != 201 || !first.whole, "{first:?}");
        let retry = gateway.pay("half-a-body-1").await;
        assert!(retry.status() >= 400, "{retry:?}");
        assert_eq!(upstream.seen.requests().len(), 1);
    }
}

#[tokio::test]
async fn half_a_body_without_a_key_is_not_passed_on_as_a_whole_one() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf";
    let (_upstream, gateway) = failing_once(|| Deed::WriteAndClose(half.to_vec())).await;
    let mut wire = Wire::to(gateway.address).await;
    wire.write(request("GET /", &[], "")).await;
    let got = wire.answer("GET").await;
    assert!(got.is_none_or(|got| !got.whole));
}

#[tokio::test]
async fn a_body_that_stalls_is_cut_and_not_passed_on_as_a_whole_one() {
    let stalling = || {
        Deed::Take(Box::new(|mut wire| {
            Box::pin(async move {
                wire.write("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await;
                while wire.some().await.is_some() {}
            })
        }))
    };
    let (_upstream, gateway) = failing_once(stalling).await;
    let mut wire = Wire::to(gateway.address).await;
    wire.write(request("GET /", &[], "")).await;
    let got = wire.answer("GET").await;
    assert!(got.is_none_or(|got| !got.whole));
    assert_eq!(gateway.metric("semel_upstream_broken_bodies_total{upstream=\"api\"}").await, 1);
}

/// The upstream closes each connection after one answer, at the worst of moments. Whatever the
/// gateway knows of it, no intent is sent twice, and "not sent" is only said when it is true.
#[tokio::test]
async fn a_connection_closed_as_the_request_goes_out_is_never_sent_twice() {
    let upstream = Upstream::new(|_| async { Deed::WriteAndClose(answer(201, &[], "done")) }).await;
    let gateway = Served::before(&upstream.url()).await;
    let mut unknown = 0;
    for number in 0..200 {
        let key = format!("closing-{number}");
        let first = gateway.pay(&key).await;
        match (first.status(), first.code().as_str()) {
            (201, _) => {}
            (502, "upstream-unknown") => unknown += 1,
            (502, "upstream-unreachable") => assert_eq!(gateway.pay(&key).await.status(), 201),
            other => panic!("{other:?}"),
        }
    }
    let effects = upstream.seen.effects();
    assert!(effects.values().all(|times| *times == 1));
    assert!(effects.len() + unknown >= 200, "{} and {unknown}", effects.len());
}

/// The connection was used before, and is reset by the very bytes of the next request: they may have
/// been read, so they are not sent again.
#[tokio::test]
async fn a_reset_on_a_connection_that_was_used_before_leaves_the_effect_unknown() {
    let upstream = Upstream::new(|_| async {
        Deed::Take(Box::new(|mut wire| {
            Box::pin(async move {
                wire.write(answer(201, &[], "done")).await;
                wire.some().await;
                wire.io.set_zero_linger().unwrap();
            })
        }))
    })
    .await;
    let gateway = Served::before(&upstream.url()).await;
    assert_eq!(gateway.pay("used-before-1").await.status(), 201);
    let lost = gateway.pay("used-before-2").await;
    assert_eq!((lost.status(), lost.code().as_str()), (502, "upstream-unknown"));
    assert_eq!(upstream.seen.connections(), 1);
    assert_eq!(gateway.pay("used-before-2").await.code(), "unknown");
    assert_eq!(gateway.pay("used-before-3").await.status(), 201);
    assert_eq!(upstream.seen.requests().len(), 2);
}

/// A second's rest is the longest after which a connection carries a request with a key.
#[tokio::test]
async fn a_request_with_a_key_uses_no_connection_that_was_idle_for_long() {
    let upstream = Upstream::counting().await;
    let gateway = Served::before(&upstream.url()).await;
    gateway.pay("fresh-1").await;
    gateway.pay("fresh-2").await;
    assert_eq!(upstream.seen.connections(), 1);
    // The time a connection rests is what this is about, and nothing else tells it.
    // The gateway's own clock decides, and nothing happens that could be waited for.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    gateway.send("GET /plain", &[], "").await;
    assert_eq!(upstream.seen.connections(), 1);
    // Again the rest itself is what decides.
    // As above.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    gateway.pay("fresh-3").await;
    assert_eq!(upstream.seen.connections(), 2);
}

#[tokio::test]
async fn an_open_circuit_sends_nothing_frees_the_key_and_closes_after_a_probe() {
    let address = nobody().await;
    let mut settings = settings(&[("api", &format!("http://{address}"))]);
    settings.upstreams[0].circuit =
        CircuitSettings { failures: 2, open_for: Duration::from_millis(300) };
    let gateway = Served::new(&settings).await;
    for _ in 0..2 {
        assert_eq!(gateway.pay("circuit-1").await.code(), "upstream-unreachable");
    }
    let open = gateway.pay("circuit-1").await;
    assert_eq!((open.status(), open.code().as_str()), (503, "upstream-circuit-open"));
    assert_eq!(open.header("retry-after"), Some("1"));
    assert_eq!(gateway.metric("semel_upstream_circuit_open{upstream=\"api\"}").await, 1);
    let listener = listening_again(address).await;
    tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let mut wire = Wire::new(tcp);
        while wire.request().await.is_some() {
            wire.write(answer(201, &[], "done")).await;
        }
    });
    let deadline = tokio::time::Instant::now() + crate::message::PATIENCE;
    while gateway.pay("circuit-1").await.status() != 201 {
        assert!(tokio::time::Instant::now() < deadline, "the circuit closes again");
        // Between two polls: the circuit closes by the clock, up to the deadline above.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(gateway.metric("semel_upstream_circuit_open{upstream=\"api\"}").await, 0);
}

#[tokio::test]
async fn when_every_connection_is_in_use_nothing_is_sent_and_the_key_is_free() {
    let (upstream, _) = failing_once(|| Deed::Hang).await;
    let mut settings = settings(&[("api", &upstream.url())]);
    settings.upstreams[0].connections_max = 1;
    settings.upstreams[0].connect_wait = Duration::from_millis(200);
    let gateway = Arc::new(Served::new(&settings).await);
    let hanging = Arc::clone(&gateway);
    let first = tokio::spawn(async move { hanging.send("GET /hang", &[], "").await });
    upstream.seen.until(1).await;
    let busy = gateway.pay("busy-1").await;
    assert_eq!((busy.status(), busy.code().as_str()), (503, "upstream-busy"));
    assert_eq!(upstream.seen.requests().len(), 1);
    first.abort();
    let _ = first.await;
    until_paid(&gateway, "busy-1").await;
    assert_eq!(upstream.seen.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_done_with_goes_to_whoever_waits_for_one() {
    let upstream = Upstream::counting().await;
    let mut settings = settings(&[("api", &upstream.url())]);
    settings.upstreams[0].connections_max = 2;
    let gateway = Arc::new(Served::new(&settings).await);
    let mut asked = tokio::task::JoinSet::new();
    for number in 0..40 {
        let gateway = Arc::clone(&gateway);
        asked.spawn(async move { gateway.pay(&format!("crowd-{number}")).await.status() });
    }
    assert!(asked.join_all().await.into_iter().all(|status| status == 201));
    assert_eq!((upstream.seen.requests().len(), upstream.seen.connections()), (40, 2));
}

/// S19: the upstream is part of the operation.
#[tokio::test]
async fn one_key_on_two_upstreams_means_two_calls() {
    let (one, two) = (Upstream::counting().await, Upstream::counting().await);
    let mut settings = settings(&[("one", &one.url()), ("two", &two.url())]);
    settings.operations.push(protected("two.pay", "/two/pay", Some("two")));
    let gateway = Served::new(&settings).await;
    let key = [("idempotency-key", "one-key-1")];
    for _ in 0..2 {
        assert_eq!(gateway.send("POST /pay", &key, "{}").await.status(), 201);
        assert_eq!(gateway.send("POST /two/pay", &key, "{}").await.status(), 201);
    }
    assert_eq!((one.seen.requests().len(), two.seen.requests().len()), (1, 1));
}

/// S16: what only Semel may say, nobody else says: not the client, not an upstream that is not
/// trusted.
#[tokio::test]
async fn semels_own_headers_pass_neither_way() {
    let said =
        [("semel-effect", "none"), ("semel-pointer", "pay/1"), ("idempotent-replayed", "true")];
    let upstream = Upstream::saying(answer(201, &said, "done")).await;
    let gateway = Served::before(&upstream.url()).await;
    let headers = [
        ("idempotency-key", "own-headers-1"),
        ("semel-permit", "forged"),
        ("semel-effect", "none"),
        ("semel-fence", "1"),
        ("semel-anything", "1"),
    ];
    let first = gateway.send("POST /pay", &headers, "{}").await;
    let seen = &upstream.seen.requests()[0];
    for name in ["semel-permit", "semel-effect", "semel-anything"] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    // The fence is Semel's own, and grows with every claim.
    assert!(seen.header("semel-fence").unwrap().parse::<u64>().unwrap() > 1);
    assert_eq!(seen.header("idempotency-key"), Some("own-headers-1"));
    assert!(!first.headers.iter().any(|(name, _)| name.starts_with("semel-")), "{first:?}");
    assert_eq!(first.header("idempotent-replayed"), None);
    // An upstream that is not trusted cannot free the key: this is a replay.
    let retry = gateway.send("POST /pay", &headers, "{}").await;
    assert_eq!(retry.header("idempotent-replayed"), Some("true"));
    assert_eq!((retry.body, upstream.seen.requests().len()), (first.body, 1));
}

#[tokio::test]
async fn a_trusted_upstream_can_say_that_nothing_happened() {
    let upstream = Upstream::saying(answer(500, &[("semel-effect", "none")], "")).await;
    let mut settings = settings(&[("api", &upstream.url())]);
    settings.upstreams[0].trusted = true;
    let gateway = Served::new(&settings).await;
    for _ in 0..2 {
        let got = gateway.pay("trusted-1").await;
        assert_eq!((got.status(), got.header("semel-effect")), (500, None));
    }
    assert_eq!(upstream.seen.requests().len(), 2);
}

#[tokio::test]
async fn a_request_with_a_key_cannot_change_the_protocol() {
    let upstream = Upstream::counting().await;
    let gateway = Served::before(&upstream.url()).await;
    let headers = [("idempotency-key", "up-1"), ("connection", "upgrade"), ("upgrade", "x")];
    assert_eq!(gateway.send("POST /pay", &headers, "").await.status(), 400);
    let got = gateway.send("CONNECT example.test:443", &[("host", "example.test:443")], "").await;
    assert_eq!(got.status(), 405);
    assert!(upstream.seen.requests().is_empty());
}
