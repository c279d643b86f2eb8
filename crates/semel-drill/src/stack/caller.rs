//! One client with a connection to every gateway, and what an answer means to it.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use semel::wire::IDEMPOTENCY_KEY;
use semel_testkit::{
    history::Told,
    http::{Message, Wire, request},
};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{sleep, timeout},
};

use super::{
    crowd::Crowd,
    intent::{self, Book},
};

/// How long an answer may take until the client hangs up and asks again.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long one gateway may take to settle what was settled before.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);
/// The status of an answer that was not kept.
pub(super) const NOT_KEPT: u16 = 410;
/// How much of a wrong answer is told.
const EXCERPT: usize = 160;
const BETWEEN: Duration = Duration::from_millis(20);

/// What came of one request.
#[derive(Debug)]
pub(super) enum Got {
    /// A final answer.
    Told(Told),
    /// The same key again, later.
    Again(Why),
    /// Nobody can say.
    Unknown,
    /// What must never come.
    Wrong(String),
}

impl Got {
    /// Says what came, for a sentence.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Told(told) => told.to_string(),
            Self::Again(why) => why.word().to_owned(),
            Self::Unknown => "nobody can say".to_owned(),
            Self::Wrong(what) => what.clone(),
        }
    }
}

/// Why the same key is sent again.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Why {
    /// No whole answer.
    Broken,
    /// Another caller is at it.
    InProgress,
    /// The client hung up by itself.
    Left,
    /// The upstream, the store or the gateway is away.
    NotNow,
    /// This run was overtaken.
    Overtaken,
}

impl Why {
    /// Returns its word.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Broken => "no whole answer",
            Self::InProgress => "in progress",
            Self::Left => "hung up",
            Self::NotNow => "not now",
            Self::Overtaken => "overtaken",
        }
    }
}

/// One client.
#[derive(Debug)]
pub(super) struct Caller {
    gateways: Vec<SocketAddr>,
    wires: Vec<Option<Wire<TcpStream>>>,
}

impl Caller {
    pub(super) fn new(gateways: &[SocketAddr]) -> Self {
        Self { gateways: gateways.to_vec(), wires: gateways.iter().map(|_| None).collect() }
    }

    /// Asks a gateway, or the next one that takes a connection, as a load balancer does.
    pub(super) async fn ask(
        &mut self,
        number: u64,
        gateway: usize,
        patience: Option<Duration>,
        book: &Book,
    ) -> Got {
        let count = self.gateways.len();
        for gateway in (gateway..gateway + count).map(|gateway| gateway % count) {
            let Some(wire) = self.connected(gateway).await else { continue };
            book.asked(number, gateway);
            let Ok(answer) = timeout(patience.unwrap_or(PATIENCE), send(wire, number)).await else {
                return Got::Again(if patience.is_some() { Why::Left } else { Why::Broken });
            };
            let Some((wire, answer)) = answer else { return Got::Again(Why::Broken) };
            if answer.header("connection") != Some("close") {
                self.wires[gateway] = Some(wire);
            }
            return read(&answer);
        }
        Got::Again(Why::NotNow)
    }

    /// Asks one gateway until it is definite, or for too long.
    pub(super) async fn until_definite(
        &mut self,
        number: u64,
        gateway: usize,
        crowd: &Crowd,
    ) -> Got {
        let deadline = Instant::now() + SETTLED_WITHIN;
        loop {
            let got = match self.connected(gateway).await {
                None => Got::Again(Why::NotNow),
                Some(wire) => match timeout(PATIENCE, send(wire, number)).await {
                    Ok(Some((wire, answer))) => {
                        self.wires[gateway] = Some(wire);
                        read(&answer)
                    }
                    Ok(None) | Err(_) => Got::Again(Why::Broken),
                },
            };
            crowd.watch.saw(&got);
            match got {
                Got::Again(_) if Instant::now() <= deadline => sleep(BETWEEN).await,
                definite => return definite,
            }
        }
    }

    /// Returns the connection to a gateway, a new one if need be.
    async fn connected(&mut self, gateway: usize) -> Option<Wire<TcpStream>> {
        if let Some(wire) = self.wires[gateway].take() {
            return Some(wire);
        }
        let tcp = timeout(PATIENCE, TcpStream::connect(self.gateways[gateway])).await.ok()?.ok()?;
        tcp.set_nodelay(true).ok()?;
        Some(Wire::new(tcp))
    }
}

/// Sends the request of an intent, and reads the answer if there is a whole one.
async fn send(mut wire: Wire<TcpStream>, number: u64) -> Option<(Wire<TcpStream>, Message)> {
    let (key, (_, path)) = (intent::key(number), intent::operation(number));
    let headers = [(IDEMPOTENCY_KEY, key.as_str()), ("content-type", "application/json")];
    let bytes = request(&format!("POST {path}"), &headers, &format!("{{\"intent\":{number}}}"));
    wire.io.write_all(&bytes).await.ok()?;
    let answer = wire.answer("POST").await.filter(|answer| answer.whole)?;
    Some((wire, answer))
}

/// What a caller has who is told that it was done once, and that nobody kept the answer. The problem
/// document tells more to whoever asks later, and is no part of the answer.
pub(super) fn not_kept() -> Told {
    Told { status: NOT_KEPT, body: Bytes::from_static(b"not kept") }
}

/// Says what an answer means.
fn read(answer: &Message) -> Got {
    let status = answer.status();
    if matches!(status, 201 | 402) {
        return Got::Told(Told { status, body: answer.body.clone().into() });
    }
    match (status, answer.code().as_str()) {
        (NOT_KEPT, "outcome-not-kept") => Got::Told(not_kept()),
        (409, "unknown") => Got::Unknown,
        (409, "in-progress") => Got::Again(Why::InProgress),
        (409, "stale-permit") => Got::Again(Why::Overtaken),
        // What the upstream, the store or the gateway itself could not do now.
        (500 | 502 | 503 | 504, _) => Got::Again(Why::NotNow),
        (status, code) => {
            let text: String = answer.text().chars().take(EXCERPT).collect();
            Got::Wrong(format!("{status} {code} {text:?}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, body: &str, is_wanted: impl Fn(&Got) -> bool) {
        let answer = Message {
            start: format!("HTTP/1.1 {status} x"),
            body: body.into(),
            whole: true,
            ..Message::default()
        };
        let got = read(&answer);
        assert!(is_wanted(&got), "{got:?}");
    }

    #[test]
    fn only_a_success_and_a_refusal_for_good_are_final() {
        check(201, "x", |got| matches!(got, Got::Told(told) if told.body == "x"));
        check(402, "no", |got| matches!(got, Got::Told(told) if told.status == 402));
        check(409, "{\"code\":\"unknown\"}", |got| matches!(got, Got::Unknown));
        check(409, "{\"code\":\"stale-permit\"}", |got| matches!(got, Got::Again(Why::Overtaken)));
        check(503, "", |got| matches!(got, Got::Again(Why::NotNow)));
        let not_kept = |got: &Got| matches!(got, Got::Told(told) if *told == super::not_kept());
        check(410, "{\"code\":\"outcome-not-kept\"}", not_kept);
        check(410, "{\"code\":\"forgotten\"}", |got| matches!(got, Got::Wrong(_)));
        check(422, "{\"code\":\"mismatch\"}", |got| matches!(got, Got::Wrong(_)));
    }
}
