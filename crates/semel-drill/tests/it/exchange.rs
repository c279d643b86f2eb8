//! What a drill sends, and what it takes from what comes back.

use std::time::Duration;

use bytes::Bytes;
use semel_drill::http::{Got, How, Request, Target};
use semel_gateway::{settings::TlsFiles, tls};
use semel_testkit::{
    faults::Gate,
    http::{Deed, PATIENCE, Upstream, Wire, answer},
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

fn request(body: impl Into<Bytes>) -> Request {
    let headers = vec![
        ("Idempotency-Key".to_owned(), "one".to_owned()),
        ("idempotency-key".to_owned(), "zwei, ö".to_owned()),
    ];
    Request { method: "POST".into(), path: "/orders?a=1".into(), headers, body: body.into() }
}

async fn sent(url: &str, request: &Request, how: How) -> Got {
    Target::parse(url, None).unwrap().send(request, how, PATIENCE).await
}

/// An upstream that writes bytes and closes.
async fn closing(bytes: impl Into<Vec<u8>>) -> Upstream {
    let bytes = bytes.into();
    Upstream::new(move |_| {
        let bytes = bytes.clone();
        async move { Deed::WriteAndClose(bytes) }
    })
    .await
}

#[tokio::test]
async fn a_request_goes_out_as_it_was_made() {
    for how in [How::Whole, How::Swallow, How::HangUp] {
        let upstream = Upstream::saying(answer(201, &[], "made")).await;
        sent(&format!("{}/v1/", upstream.url()), &request("{ }"), how).await;
        upstream.seen.until(1).await;
        let seen = upstream.seen.requests().remove(0);
        assert_eq!(seen.start, "POST /v1/orders?a=1 HTTP/1.1", "{how:?}");
        let keys = seen.headers.iter().filter(|(name, _)| name == "idempotency-key");
        assert_eq!(keys.map(|(_, key)| key.as_str()).collect::<Vec<_>>(), ["one", "zwei, ö"]);
        assert_eq!(seen.header("host"), Some(&*upstream.address.to_string()));
        assert_eq!((seen.text(), seen.whole), ("{ }", true), "{how:?}");
    }
}

#[tokio::test]
async fn a_whole_answer_is_read_however_its_length_is_told() {
    let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\n\r\n2\r\nyo\r\n0\r\n\r\n";
    let until_closed = "HTTP/1.0 200 OK\r\nX-A: 1\r\n\r\nyo";
    let by_length = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-a: 1\r\n\r\nyo";
    for text in [chunked, until_closed, by_length] {
        let upstream = closing(text).await;
        let got = sent(&upstream.url(), &request(""), How::Whole).await;
        let answer = got.answer().unwrap();
        assert_eq!(
            (answer.status, &*answer.body, answer.header("x-a")),
            (200, &b"yo"[..], Some("1"))
        );
    }
}

#[tokio::test]
async fn a_swallowed_answer_is_kept_as_evidence() {
    let upstream = Upstream::saying(answer(201, &[("location", "/orders/1")], "made")).await;
    let got = sent(&upstream.url(), &request("{}"), How::Swallow).await;
    let Got::Swallowed(lost) = &got else { panic!("{got}") };
    assert_eq!((lost.status, &*lost.body), (201, &b"made"[..]));
    assert_eq!(got.answer(), None);
}

#[tokio::test]
async fn who_hangs_up_sends_all_and_waits_for_nothing() {
    let (gate, heard) = (Gate::shut(), Gate::shut());
    let (shut, says) = (gate.clone(), heard.clone());
    let upstream = Upstream::new(move |_| {
        let (shut, says) = (shut.clone(), says.clone());
        async move {
            Deed::Take(Box::new(move |mut wire: Wire<tokio::net::TcpStream>| {
                Box::pin(async move {
                    // Nothing was written, and the client is gone already.
                    assert!(wire.some().await.is_none());
                    says.open();
                    shut.pass().await;
                })
            }))
        }
    })
    .await;
    let body = "x".repeat(300_000);
    assert_eq!(sent(&upstream.url(), &request(body), How::HangUp).await, Got::HungUp);
    upstream.seen.until(1).await;
    assert_eq!(upstream.seen.requests()[0].body.len(), 300_000);
    tokio::time::timeout(PATIENCE, heard.pass()).await.unwrap();
    gate.open();
}

#[tokio::test]
async fn no_whole_answer_is_told_in_a_sentence() {
    let cases: [(&str, &str); 4] = [
        ("", "connection closed before message completed"),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",
            "the answer 200 OK broke off in its body",
        ),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhalf", "broke off in its body"),
        ("no HTTP\r\n\r\n", "invalid HTTP"),
    ];
    for (text, says) in cases {
        let upstream = closing(text).await;
        for how in [How::Whole, How::Swallow] {
            let got = sent(&upstream.url(), &request("{}"), how).await;
            let Got::Broken(why) = &got else { panic!("{text:?}: {got}") };
            assert!(why.contains(says), "{text:?}: {why}");
        }
    }
    let got = sent("http://127.0.0.1:1", &request(""), How::Whole).await;
    let Got::Broken(why) = got else { panic!("{got}") };
    assert!(why.starts_with("cannot connect to 127.0.0.1:1: "), "{why}");
    let mut odd = request("");
    odd.headers.push(("x-a".into(), "line\r\nbreak".into()));
    let got = sent("http://127.0.0.1:1", &odd, How::Whole).await;
    assert!(matches!(got, Got::Broken(_)), "{got}");
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_waited_for_so_long_and_no_longer() {
    let upstream = Upstream::new(|_| async { Deed::Hang }).await;
    let target = Target::parse(&upstream.url(), None).unwrap();
    let got = target.send(&request(""), How::Whole, Duration::from_millis(50)).await;
    assert_eq!(got, Got::TimedOut);
}

#[tokio::test]
async fn of_a_large_answer_a_bounded_part_is_kept() {
    let upstream = Upstream::saying(answer(200, &[], &"x".repeat(3 << 20))).await;
    let got = sent(&upstream.url(), &request(""), How::Whole).await;
    assert_eq!(got.answer().unwrap().body.len(), 1 << 20);
}

#[tokio::test]
async fn a_target_behind_tls_is_spoken_to_if_its_certificate_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles {
        certificate: folder.path().join("cert.pem"),
        key: folder.path().join("key.pem"),
    };
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    let acceptor = TlsAcceptor::from(tls::server(&files).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut server = tokio::task::JoinSet::new();
    server.spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((tcp, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            connections.spawn(async move {
                let Ok(tls) = acceptor.accept(tcp).await else { return };
                let mut wire = Wire::new(tls);
                if wire.request().await.is_some() {
                    wire.write(answer(201, &[], "secured")).await;
                }
            });
        }
    });
    let url = format!("https://localhost:{port}");
    let target = Target::parse(&url, Some(&files.certificate)).unwrap();
    let got = target.send(&request("{}"), How::Whole, PATIENCE).await;
    assert_eq!(got.answer().map(|answer| &*answer.body), Some(&b"secured"[..]), "{got}");
    let got = target.send(&request("{}"), How::Swallow, PATIENCE).await;
    assert!(matches!(&got, Got::Swallowed(lost) if lost.status == 201), "{got}");
    assert_eq!(target.send(&request("{}"), How::HangUp, PATIENCE).await, Got::HungUp);
    let got = sent(&url, &request("{}"), How::Whole).await;
    assert!(matches!(&got, Got::Broken(why) if why.contains("certificate")), "{got}");
}
