//! Any event on its way by HTTP, and any bytes as what its destination answers: what is sent is one request that tells the
//! event as it is, and only an answer that says success confirms it.
//!
//! The event comes in pieces, a length and bytes each; the rest is the answer.

use std::{
    cell::RefCell,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use semel::outbox::{Destination, Event, EventId, Lane, Message, Publisher, Sent};
use semel_http::publisher::HttpPublisher;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use crate::{gateway::parted, kept::Pieces, runtime};

const PATIENCE: Duration = Duration::from_secs(5);

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    thread_local! {
        static KEPT: RefCell<Option<Sending>> = const { RefCell::new(None) };
    }
    let mut pieces = Pieces(data);
    let Some(event) = event(&mut pieces) else { return };
    runtime(async {
        let sending = match KEPT.take() {
            Some(sending) => sending,
            None => Sending::new().await,
        };
        sending.check(event, pieces.0).await;
        KEPT.set(Some(sending));
    });
}

/// An event that a store would take.
fn event(pieces: &mut Pieces<'_>) -> Option<Event> {
    let id = EventId::from_bytes(std::array::from_fn(|at| pieces.0.get(at).copied().unwrap_or(7)));
    let lane = Lane::new(pieces.text(), pieces.text()).ok()?;
    let (kind, payload) = (pieces.text(), pieces.optional().map(Bytes::copy_from_slice));
    let mut event = Event::new(id, lane, kind, payload).ok()?;
    event.trace = pieces.optional().and_then(|trace| Some(std::str::from_utf8(trace).ok()?.into()));
    for _ in 0..pieces.next().len().min(3) {
        event.headers.push((pieces.text().into(), pieces.text().into()));
    }
    event.check().ok().map(|()| event)
}

struct Sending {
    publisher: HttpPublisher,
    answer: Arc<Mutex<Vec<u8>>>,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Sending {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let url = format!("http://{address}/in").parse().expect("a URL");
        let publisher = HttpPublisher::builder(url).publish_wait(PATIENCE).build().expect("one");
        let (answer, seen) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::default());
        tokio::spawn(serve(listener, Arc::clone(&answer), Arc::clone(&seen)));
        Self { publisher, answer, seen }
    }

    async fn check(&self, event: Event, answer: &[u8]) {
        *self.answer.lock().unwrap() = answer.to_vec();
        self.seen.lock().unwrap().clear();
        let destination = Destination::new("d").expect("a name");
        let message = Message { destination, event: Arc::new(event), copies: 0 };
        let sent = self.publisher.publish(vec![message.clone()]);
        let sent = timeout(PATIENCE * 2, sent).await.expect("it ends").remove(0);
        let seen = std::mem::take(&mut *self.seen.lock().unwrap());
        let shown = answer.escape_ascii().to_string();
        match &sent {
            Sent::Confirmed => {
                assert!(says_success(answer), "{shown} confirms");
                assert_eq!(seen.len(), 1, "{shown}");
            }
            Sent::Refused { why, .. } | Sent::Unknown { why } => {
                assert!(!why.is_empty() && !why.chars().any(char::is_control), "{why:?}");
            }
        }
        for request in seen {
            tells(&request, &message.event);
        }
    }
}

/// Takes one request on each connection, and answers it.
async fn serve(listener: TcpListener, answer: Arc<Mutex<Vec<u8>>>, seen: Arc<Mutex<Vec<Vec<u8>>>>) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let request = request(&mut stream).await;
        seen.lock().unwrap().push(request);
        let answer = answer.lock().unwrap().clone();
        let _ = stream.write_all(&answer).await;
        let _ = stream.shutdown().await;
    }
}

async fn request(stream: &mut TcpStream) -> Vec<u8> {
    let mut request = Vec::new();
    loop {
        let whole = parted(&request).is_some_and(|(head, rest)| {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length = length.map_or(0, |length| length.trim().parse().expect("a length"));
            rest.len() >= length
        });
        if whole || stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return request;
        }
    }
}

/// Whether some head in the answer says success.
fn says_success(answer: &[u8]) -> bool {
    answer.windows(10).any(|part| part.starts_with(b"HTTP/1.") && part[8..] == *b" 2")
}

/// The request is one, and tells the event as it is.
fn tells(request: &[u8], event: &Event) {
    let shown = request.escape_ascii().to_string();
    let (head, body) = parted(request).unwrap_or_else(|| panic!("no request: {shown}"));
    let mut lines = head.lines();
    assert_eq!(lines.next(), Some("POST /in HTTP/1.1"), "{shown}");
    let headers: Vec<_> = lines.filter_map(|line| line.split_once(':')).collect();
    let one = |name: &str| -> Option<String> {
        let values: Vec<_> = headers.iter().filter(|(known, _)| *known == name).collect();
        assert!(values.len() <= 1, "{name} twice in {shown}");
        values.first().map(|(_, value)| decoded(value.trim()))
    };
    let id = event.id.to_string();
    assert_eq!((one("idempotency-key"), one("ce-id")), (Some(id.clone()), Some(id)));
    assert_eq!(one("ce-source").as_deref(), Some(event.lane.kind()));
    assert_eq!(one("ce-subject").as_deref(), Some(event.lane.id()));
    assert_eq!(one("ce-type").as_deref(), Some(&*event.kind));
    if let Some(trace) = &event.trace {
        assert_eq!(one("traceparent").as_deref(), Some(&**trace));
    }
    assert!(one("transfer-encoding").is_none() && one("host").is_some(), "{shown}");
    assert_eq!(body, event.payload.as_deref().unwrap_or_default(), "{shown}");
}

/// Undoes the percent-encoding of CloudEvents.
fn decoded(value: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), value.as_bytes());
    while let Some((first, tail)) = rest.split_first() {
        let escaped = tail.get(..2).filter(|_| *first == b'%');
        let escaped = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).expect("it was text")
}
