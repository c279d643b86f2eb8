//! Clients that take their time, or too much of everything.

use std::time::Duration;

use semel_gateway::settings::ListenerLimits;

use crate::{
    gateway::{Served, settings},
    message::{PATIENCE, Wire, request},
    upstream::{Deed, Upstream},
};

const SHORT: Duration = Duration::from_millis(200);

async fn limited(upstream: &Upstream, limits: ListenerLimits) -> Served {
    let mut settings = settings(&[("api", &upstream.url())]);
    settings.limits = limits;
    Served::new(&settings).await
}

fn short() -> ListenerLimits {
    ListenerLimits { head_wait: SHORT, body_wait: SHORT, write_wait: SHORT, ..Default::default() }
}

/// Reads until the gateway closes, and returns what it said.
async fn until_closed(wire: &mut Wire<tokio::net::TcpStream>) -> String {
    let mut said = Vec::new();
    let read = async {
        while let Some(bytes) = wire.some().await {
            said.extend(bytes);
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("the connection was closed");
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test]
async fn a_head_that_does_not_end_is_not_waited_for() {
    let upstream = Upstream::counting().await;
    let gateway = limited(&upstream, short()).await;
    let mut wire = Wire::to(gateway.address).await;
    wire.write("POST /pay HTTP/1.1\r\nhost: a\r\nidempotency-key: sl").await;
    until_closed(&mut wire).await;
    assert!(upstream.seen.requests().is_empty());
}

/// Nothing is claimed before the body is there, so its key stays free.
#[tokio::test]
async fn a_body_that_stops_is_not_waited_for_and_its_key_stays_free() {
    let upstream = Upstream::counting().await;
    let gateway = limited(&upstream, short()).await;
    let mut wire = Wire::to(gateway.address).await;
    let head = "POST /pay HTTP/1.1\r\nhost: a\r\nidempotency-key: slow-body-1\r\ncontent-length: 9";
    wire.write(format!("{head}\r\n\r\n{{\"am")).await;
    let said = until_closed(&mut wire).await;
    assert!(said.starts_with("HTTP/1.1 4"), "{said}");
    assert!(upstream.seen.requests().is_empty());
    assert_eq!(gateway.pay("slow-body-1").await.status(), 201);
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_an_answer_is_closed() {
    let upstream = Upstream::new(|_| async {
        Deed::Take(Box::new(|mut wire| {
            Box::pin(async move {
                use tokio::io::AsyncWriteExt as _;
                wire.write("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n").await;
                while wire.io.write_all(&[b'x'; 65536]).await.is_ok() {}
            })
        }))
    })
    .await;
    let gateway = limited(&upstream, short()).await;
    let mut wire = Wire::to(gateway.address).await;
    wire.write(request("GET /large", &[], "")).await;
    gateway.until("semel_client_connections", 1).await;
    until_no_connection(&gateway).await;
}

async fn until_no_connection(gateway: &Served) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while gateway.metric("semel_client_connections").await > 0 {
        assert!(tokio::time::Instant::now() < deadline, "the connection is still there");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let upstream = Upstream::counting().await;
    let limits = ListenerLimits { head_max: 8 * 1024, headers_max: 20, ..Default::default() };
    let gateway = limited(&upstream, limits).await;
    let large = "x".repeat(9 * 1024);
    let got = gateway.send("GET /", &[("x-large", &large)], "").await;
    assert_eq!(got.status(), 431);
    let many: Vec<_> = (0..30).map(|n| format!("x-{n}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), "1")).collect();
    assert_eq!(gateway.send("GET /", &many, "").await.status(), 431);
    assert!(upstream.seen.requests().is_empty());
}

#[tokio::test]
async fn connections_past_the_bound_wait_for_their_turn() {
    let upstream = Upstream::counting().await;
    let limits = ListenerLimits { connections_max: 1, ..Default::default() };
    let gateway = limited(&upstream, limits).await;
    let mut first = Wire::to(gateway.address).await;
    first.write(request("POST /x", &[], "")).await;
    first.answer("POST").await.unwrap();
    let mut second = Wire::to(gateway.address).await;
    second.write(request("POST /x", &[], "")).await;
    assert_eq!(gateway.metric("semel_client_connections").await, 1);
    assert_eq!(upstream.seen.requests().len(), 1);
    drop(first);
    second.answer("POST").await.unwrap();
    assert_eq!(upstream.seen.requests().len(), 2);
}
