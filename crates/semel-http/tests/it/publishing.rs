//! The publisher against real sockets: what leaves, what each answer and each failure means.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, header};
use semel::outbox::{
    Destination, Event, EventId, Fault, Lane, Message, Publisher, PublisherCapabilities, Sent,
};
use semel_http::publisher::{HttpPublisher, HttpPublisherBuilder, PublisherError};
use semel_testkit::http::{Deed, Upstream, answer};
use tokio::{io::AsyncReadExt, net::TcpListener};

fn event(number: u8) -> Event {
    let lane = Lane::new("order", format!("order {number}")).unwrap();
    let payload = Some(Bytes::from_static(b"{\"total\":5}"));
    Event::new(EventId::from_bytes([number; 16]), lane, "OrderPlaced", payload).unwrap()
}

fn message(event: Event) -> Message {
    let destination = Destination::new("hooks").unwrap();
    Message { destination, event: Arc::new(event), copies: 0 }
}

fn to(url: &str) -> HttpPublisherBuilder {
    HttpPublisher::builder(url.parse().unwrap())
}

async fn send(publisher: &HttpPublisher, event: Event) -> Sent {
    let mut outcomes = publisher.publish(vec![message(event)]).await;
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

fn refused_by(sent: &Sent) -> Option<Fault> {
    match sent {
        Sent::Refused { fault, .. } => Some(*fault),
        _ => None,
    }
}

const AWAY: Option<Fault> = Some(Fault::Destination { retry_after: None });

#[tokio::test]
async fn an_event_is_one_request_with_its_id_as_key() {
    let receiver = Upstream::counting().await;
    let url = format!("{}/hooks?tenant=a", receiver.url());
    let secret = HeaderValue::from_static("Bearer hunter2");
    let publisher = to(&url).header(header::AUTHORIZATION, secret).build().unwrap();
    let mut event = event(7);
    event.version = Some(3);
    event.trace = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    event.headers = vec![
        ("x-region".into(), "eu west; q=\"1\"".into()),
        ("Host".into(), "producer".into()),
        ("authorization".into(), "mine".into()),
        ("semel-permit".into(), "p".into()),
    ];
    assert_eq!(send(&publisher, event.clone()).await, Sent::Confirmed);
    let seen = receiver.seen.requests();
    let [request] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!(request.start, "POST /hooks?tenant=a HTTP/1.1");
    assert_eq!(request.body, b"{\"total\":5}");
    for (name, value) in [
        ("idempotency-key", "07070707-0707-0707-0707-070707070707"),
        ("ce-id", "07070707-0707-0707-0707-070707070707"),
        ("ce-specversion", "1.0"),
        ("ce-type", "OrderPlaced"),
        ("ce-source", "order"),
        ("ce-subject", "order%207"),
        ("ce-aggregateversion", "3"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("content-type", "application/json"),
        ("authorization", "Bearer hunter2"),
        ("x-region", "eu west; q=\"1\""),
        ("event-host", "producer"),
        ("event-authorization", "mine"),
        ("event-semel-permit", "p"),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
    assert!(!format!("{publisher:?}").contains("tenant"), "{publisher:?}");
    // A second copy has the same key: whoever knows copies by it has one effect.
    assert_eq!(send(&publisher, event).await, Sent::Confirmed);
    assert_eq!(receiver.seen.effects().len(), 1);
}

#[tokio::test]
async fn a_tombstone_has_no_body_and_no_media_type() {
    let receiver = Upstream::counting().await;
    let publisher = to(&receiver.url()).build().unwrap();
    let mut gone = event(1);
    gone.payload = None;
    assert_eq!(send(&publisher, gone).await, Sent::Confirmed);
    let mut empty = event(2);
    empty.payload = Some(Bytes::new());
    empty.headers.push(("Content-Type".into(), "text/plain; charset=utf-8".into()));
    assert_eq!(send(&publisher, empty).await, Sent::Confirmed);
    let seen = receiver.seen.requests();
    assert_eq!((seen[0].header("content-type"), seen[0].body.len()), (None, 0));
    assert_eq!(seen[1].header("content-type"), Some("text/plain; charset=utf-8"));
}

#[tokio::test]
async fn what_http_cannot_carry_is_refused_for_the_message_alone() {
    let receiver = Upstream::counting().await;
    let publisher = to(&receiver.url()).build().unwrap();
    let mut unfit = event(1);
    unfit.headers.push(("my header".into(), "1".into()));
    assert_eq!(refused_by(&send(&publisher, unfit).await), Some(Fault::Message));
    assert_eq!(receiver.seen.requests().len(), 0);
    assert_eq!(send(&publisher, event(2)).await, Sent::Confirmed);
}

#[tokio::test]
async fn nobody_there_is_the_destinations_fault_and_the_next_call_connects_again() {
    let port = semel_testkit::servers::free_port();
    let url = format!("http://127.0.0.1:{port}/");
    let publisher = to(&url).build().unwrap();
    assert_eq!(refused_by(&send(&publisher, event(1)).await), AWAY);
    let unheard = to("http://nobody.invalid/").build().unwrap();
    assert_eq!(refused_by(&send(&unheard, event(1)).await), AWAY);
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let served = tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let mut read = [0; 4096];
        assert!(tcp.read(&mut read).await.unwrap() > 0);
        tokio::io::AsyncWriteExt::write_all(&mut tcp, &answer(204, &[], "")).await.unwrap();
    });
    assert_eq!(send(&publisher, event(1)).await, Sent::Confirmed);
    served.await.unwrap();
}

#[tokio::test]
async fn a_reset_after_bytes_were_sent_and_no_answer_in_time_are_unknown() {
    for deed in ["reset", "hang", "half"] {
        let receiver = Upstream::new(move |_| async move {
            match deed {
                "reset" => Deed::Reset,
                "half" => Deed::Write(b"HTTP/1.1 20".to_vec()),
                _ => Deed::Hang,
            }
        })
        .await;
        let wait = Duration::from_millis(300);
        let publisher = to(&receiver.url()).publish_wait(wait).build().unwrap();
        let sent = send(&publisher, event(1)).await;
        let Sent::Unknown { why } = sent else { panic!("{deed}: {sent:?}") };
        assert_eq!(deed != "reset", &*why == "there was no answer in 300ms", "{deed}: {why}");
        // The relay owns the retry: nothing was sent twice.
        assert_eq!(receiver.seen.requests().len(), 1, "{deed}");
    }
}

/// The status is the answer: a body that does not end keeps nobody from believing it.
#[tokio::test]
async fn a_head_whose_body_never_ends_is_an_answer() {
    let begins = |status: u16| format!("HTTP/1.1 {status} Said\r\ncontent-length: 20\r\n\r\nhalf");
    // Shorter and longer than the rest of an answer is waited for.
    let (short, long) = (Duration::from_millis(300), Duration::from_secs(60));
    let refused = Some("it answered 422");
    for (wait, status, says) in [
        (short, 200, None),
        (short, 202, None),
        (short, 422, refused),
        (long, 200, None),
        (long, 422, refused),
    ] {
        let head = begins(status).into_bytes();
        let receiver = Upstream::new(move |_| {
            let head = head.clone();
            async move { Deed::Write(head) }
        })
        .await;
        let publisher = to(&receiver.url()).publish_wait(wait).build().unwrap();
        match (send(&publisher, event(1)).await, says) {
            (Sent::Confirmed, None) => {}
            (Sent::Refused { fault: Fault::Message, why }, Some(says)) => assert_eq!(&*why, says),
            (sent, _) => panic!("{status}: {sent:?}"),
        }
        // The connection is not used again: what is left of the body would come first.
        send(&publisher, event(2)).await;
        assert_eq!(receiver.seen.connections(), 2, "{status}");
    }
}

#[tokio::test]
async fn a_handshake_that_does_not_end_in_time_sent_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let wait = Duration::from_millis(200);
    let publisher = to(&url).tls(trusting(None)).connect_wait(wait).build().unwrap();
    assert_eq!(refused_by(&send(&publisher, event(1)).await), AWAY);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Upstream::counting().await;
    let place = other.url();
    let receiver = Upstream::new(move |_| {
        let place = place.clone();
        async move { Deed::Write(answer(307, &[("location", &place)], "")) }
    })
    .await;
    let publisher = to(&receiver.url()).build().unwrap();
    assert_eq!(refused_by(&send(&publisher, event(1)).await), AWAY);
    assert_eq!((receiver.seen.requests().len(), other.seen.requests().len()), (1, 0));
}

#[tokio::test]
async fn a_connection_is_used_again_and_a_closed_one_costs_no_event() {
    let answers = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&answers);
    let receiver = Upstream::new(move |_| {
        let closes = counted.fetch_add(1, Ordering::SeqCst) % 3 == 2;
        let headers: &[(&str, &str)] = if closes { &[("connection", "close")] } else { &[] };
        let answer = answer(200, headers, "taken");
        async move { Deed::Write(answer) }
    })
    .await;
    let publisher = to(&receiver.url()).build().unwrap();
    for number in 0..9 {
        assert_eq!(send(&publisher, event(number)).await, Sent::Confirmed, "{number}");
    }
    assert_eq!(receiver.seen.requests().len(), 9);
    assert_eq!(receiver.seen.connections(), 3);
}

#[tokio::test]
async fn lanes_are_sent_in_parallel_up_to_the_bound() {
    let waiting = Arc::new(tokio::sync::Barrier::new(4));
    let receiver = Upstream::new(move |_| {
        let waiting = Arc::clone(&waiting);
        async move {
            // Only if four are here at once does any of them get an answer.
            waiting.wait().await;
            Deed::Write(answer(200, &[], ""))
        }
    })
    .await;
    let publisher = Arc::new(to(&receiver.url()).connections(4).build().unwrap());
    let PublisherCapabilities { batch_max, batches_max, pipelined, .. } = publisher.capabilities();
    assert_eq!((batch_max, batches_max, pipelined), (1, 4, false));
    let mut sending = tokio::task::JoinSet::new();
    for number in 0..4 {
        let publisher = Arc::clone(&publisher);
        sending.spawn(async move { send(&publisher, event(number)).await });
    }
    while let Some(sent) = sending.join_next().await {
        assert_eq!(sent.unwrap(), Sent::Confirmed);
    }
}

#[tokio::test]
async fn https_trusts_whom_it_was_told_to_trust() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let der = certified.cert.der().clone();
    let key = rustls_key(&certified.signing_key);
    let config = tokio_rustls::rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![der.clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    let served = tokio::spawn(async move {
        let mut answered = 0;
        while answered < 1 {
            let (tcp, _) = listener.accept().await.unwrap();
            let Ok(mut tls) = acceptor.accept(tcp).await else { continue };
            let mut read = [0; 4096];
            if tls.read(&mut read).await.is_ok_and(|read| read > 0) {
                let done = answer(200, &[], "");
                tokio::io::AsyncWriteExt::write_all(&mut tls, &done).await.unwrap();
                answered += 1;
            }
        }
    });
    let stranger = to(&url).tls(trusting(None)).build().unwrap();
    assert_eq!(refused_by(&send(&stranger, event(1)).await), AWAY);
    let friend = to(&url).tls(trusting(Some(der))).build().unwrap();
    assert_eq!(send(&friend, event(1)).await, Sent::Confirmed);
    served.await.unwrap();
    assert_eq!(to(&url).build().unwrap_err(), PublisherError::NoTls);
}

#[test]
fn what_cannot_be_used_is_refused_and_not_repeated() {
    let refused = |url: &str| to(url).build().unwrap_err().to_string();
    for url in ["ftp://h/", "http://user:hunter2@h/", "/hooks"] {
        assert!(!refused(url).contains("hunter2"), "{url}");
    }
    let key = HeaderValue::from_static("1");
    let header = to("http://h/").header("idempotency-key".parse().unwrap(), key).build();
    assert!(matches!(header.unwrap_err(), PublisherError::Header { .. }));
    let none = to("http://h/").connections(0).build();
    assert!(matches!(none.unwrap_err(), PublisherError::Bound { .. }));
}

fn provider() -> Arc<tokio_rustls::rustls::crypto::CryptoProvider> {
    Arc::new(tokio_rustls::rustls::crypto::ring::default_provider())
}

fn rustls_key(key: &rcgen::KeyPair) -> tokio_rustls::rustls::pki_types::PrivateKeyDer<'static> {
    tokio_rustls::rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap()
}

fn trusting(
    certificate: Option<tokio_rustls::rustls::pki_types::CertificateDer<'static>>,
) -> Arc<tokio_rustls::rustls::ClientConfig> {
    let mut roots = tokio_rustls::rustls::RootCertStore::empty();
    certificate.into_iter().for_each(|certificate| roots.add(certificate).unwrap());
    let config = tokio_rustls::rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}
