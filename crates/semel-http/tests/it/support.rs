//! A server, a ledger that counts effects, and a client that sees every byte.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, body::Body, extract::State, response::IntoResponse, routing::any};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Frame;
use semel::{
    Engine, Policy, Store,
    store::{capability::Bridge, memory::MemoryStore},
};
use semel_http::{
    BoxFuture, Operation, Operations, SemelLayer, SemelLayerBuilder, tenant::trusted_header,
};
use semel_testkit::{FaultyStore, Gate, ManualClock};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};

/// No test waits longer than this for anything.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) const BODY: &[u8] = br#"{"amount":100,"currency":"EUR"}"#;

/// `payments.create` on `POST /payments`, on a store that need not be durable.
pub(crate) fn payments() -> Operation {
    operation("payments.create").on(Method::POST, "/payments")
}

pub(crate) fn operation(name: &str) -> Operation {
    Operation::new(name).unwrap().policy(policy())
}

pub(crate) fn policy() -> Policy {
    Policy { durable: false, ..Policy::default() }
}

/// What a handler sees, beside its request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    rows: Arc<AtomicUsize>,
}

impl Ledger {
    /// Writes a row: this is the effect. Returns its number.
    pub(crate) fn write(&self) -> usize {
        self.rows.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows.load(Ordering::SeqCst)
    }
}

type Handler =
    Arc<dyn Fn(Ledger, Request<Body>) -> BoxFuture<'static, Response<Body>> + Send + Sync>;

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) ledger: Ledger,
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) engine: Engine,
    pub(crate) layer: SemelLayer,
}

/// Puts a server together.
pub(crate) struct Setup {
    pub(crate) operations: Vec<Operation>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) bridge: Option<Arc<dyn Bridge>>,
    pub(crate) clock: Option<Arc<ManualClock>>,
    pub(crate) layer: Box<dyn FnOnce(SemelLayerBuilder) -> SemelLayerBuilder>,
}

impl Setup {
    pub(crate) fn new(operations: impl IntoIterator<Item = Operation>) -> Self {
        Self {
            operations: operations.into_iter().collect(),
            store: Arc::new(MemoryStore::new()),
            bridge: None,
            clock: None,
            layer: Box::new(SemelLayerBuilder::replay_auth_none),
        }
    }

    pub(crate) fn layer(
        mut self,
        layer: impl FnOnce(SemelLayerBuilder) -> SemelLayerBuilder + 'static,
    ) -> Self {
        self.layer = Box::new(layer);
        self
    }

    /// Puts store, engine and layer on a clock that moves by hand.
    pub(crate) fn clock(mut self, clock: &Arc<ManualClock>) -> Self {
        self.store = Arc::new(MemoryStore::with_clock(clock.clone()));
        self.clock = Some(Arc::clone(clock));
        self
    }

    /// Serves one handler for every path.
    pub(crate) async fn serve<F, Fut, R>(self, handler: F) -> Server
    where
        F: Fn(Ledger, Request<Body>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoResponse,
    {
        let handler: Handler = Arc::new(move |ledger, request| {
            let answer = handler(ledger, request);
            Box::pin(async move { answer.await.into_response() })
        });
        let ledger = Ledger::default();
        let served = {
            let ledger = ledger.clone();
            move |State(handler): State<Handler>, request: Request<Body>| handler(ledger, request)
        };
        let router = Router::new()
            .route("/", any(served.clone()))
            .route("/{*rest}", any(served))
            .with_state(handler);
        self.route(router, ledger).await
    }

    /// Serves a router behind the layer.
    pub(crate) async fn route(self, router: Router, ledger: Ledger) -> Server {
        let store = FaultyStore::over(self.store);
        let mut engine = Engine::builder(store.clone());
        if let Some(clock) = self.clock.clone() {
            engine = engine.clock(clock);
        }
        if let Some(bridge) = self.bridge {
            engine = engine.bridge(bridge);
        }
        let engine = engine.build();
        let operations = Operations::new(self.operations).unwrap();
        let mut builder = SemelLayer::builder(engine.clone(), operations);
        if let Some(clock) = self.clock {
            builder = builder.clock(clock);
        }
        let builder = builder.tenant(trusted_header("x-tenant".parse().unwrap()));
        let layer = (self.layer)(builder).build().unwrap();
        let router = router.layer(layer.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Server { address, ledger, store, engine, layer }
    }
}

/// Serves `payments.create` with a handler that writes a row and answers its number.
pub(crate) async fn ledger_server(operations: impl IntoIterator<Item = Operation>) -> Server {
    Setup::new(operations).serve(|ledger, _| async move { created(ledger.write()) }).await
}

pub(crate) fn created(row: usize) -> (http::StatusCode, String) {
    (http::StatusCode::CREATED, format!("{{\"row\":{row}}}"))
}

/// A request as it goes out.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    method: String,
    target: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    chunked: bool,
}

/// `POST /payments` of tenant T1 under key K1, with the usual body.
pub(crate) fn pay() -> Ask {
    post("/payments").key("K1").header("content-type", "application/json").body(BODY)
}

/// A bare POST of tenant T1.
pub(crate) fn post(target: &str) -> Ask {
    ask("POST", target)
}

/// A bare request of tenant T1.
pub(crate) fn ask(method: &str, target: &str) -> Ask {
    Ask {
        method: method.to_owned(),
        target: target.to_owned(),
        headers: vec![("x-tenant".to_owned(), b"T1".to_vec())],
        body: Vec::new(),
        chunked: false,
    }
}

impl Ask {
    pub(crate) fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    pub(crate) fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    pub(crate) fn set(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.without(name).header(name, value)
    }

    pub(crate) fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self
    }

    pub(crate) fn json(self, body: impl AsRef<[u8]>) -> Self {
        self.set("content-type", "application/json").body(body)
    }

    pub(crate) fn target(mut self, target: &str) -> Self {
        self.target = target.to_owned();
        self
    }

    pub(crate) const fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// Writes the head; the length is `length`, if it is given, and else that of the body.
    pub(crate) fn head(&self, length: Option<usize>) -> Vec<u8> {
        let mut out = format!("{} {} HTTP/1.1\r\nhost: test\r\n", self.method, self.target);
        if self.chunked {
            out.push_str("transfer-encoding: chunked\r\n");
        } else if length.is_some() || !self.body.is_empty() || self.method == "POST" {
            out.push_str(&format!("content-length: {}\r\n", length.unwrap_or(self.body.len())));
        }
        let mut out = out.into_bytes();
        for (name, value) in &self.headers {
            out.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        out.extend_from_slice(b"connection: close\r\n\r\n");
        out
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = self.head(None);
        if !self.chunked {
            out.extend_from_slice(&self.body);
            return out;
        }
        for chunk in self.body.chunks(7) {
            out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            out.extend_from_slice(&[chunk, b"\r\n"].concat());
        }
        out.extend_from_slice(b"0\r\n\r\n");
        out
    }
}

/// An answer as it came in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    /// The connection ended before the answer did.
    pub(crate) broken: bool,
}

impl Answer {
    fn parse(raw: &[u8], is_head: bool) -> Self {
        let end = raw.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
        let head = &raw[..end];
        let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let first = String::from_utf8(lines.next().unwrap().to_vec()).unwrap();
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .map(|line| {
                let at = line.iter().position(|byte| *byte == b':').unwrap();
                let name = String::from_utf8(line[..at].to_vec()).unwrap().to_ascii_lowercase();
                (name, line[at + 1..].trim_ascii().to_vec())
            })
            .collect();
        let mut answer = Self { status, headers, body: Vec::new(), broken: false };
        let rest = &raw[end + 4..];
        if answer.is("transfer-encoding", "chunked") {
            answer.unchunk(rest);
        } else if !is_head && let Some(length) = answer.header("content-length") {
            answer.broken = rest.len() != length.parse::<usize>().unwrap();
            answer.body = rest.to_vec();
        } else {
            answer.body = rest.to_vec();
        }
        answer
    }

    fn unchunk(&mut self, mut rest: &[u8]) {
        loop {
            let Some(at) = rest.windows(2).position(|window| window == b"\r\n") else {
                self.broken = true;
                return;
            };
            let size = std::str::from_utf8(&rest[..at]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            if size == 0 {
                return;
            }
            if rest.len() < at + 2 + size + 2 {
                self.broken = true;
                return;
            }
            self.body.extend_from_slice(&rest[at + 2..at + 2 + size]);
            rest = &rest[at + 2 + size + 2..];
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| std::str::from_utf8(value).unwrap())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let of = move |(known, _): &&(String, Vec<u8>)| known == name;
        self.headers.iter().filter(of).map(|(_, value)| std::str::from_utf8(value).unwrap())
    }

    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.header(name) == Some(value)
    }

    pub(crate) fn replayed(&self) -> bool {
        self.is("idempotent-replayed", "true")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn document(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no document: {self:?}"))
    }

    /// Returns the code of a problem.
    pub(crate) fn code(&self) -> String {
        assert!(self.is("content-type", "application/problem+json"), "{self:?}");
        let document = self.document();
        assert_eq!(document["status"], self.status);
        assert_eq!(
            document["type"],
            format!("urn:semel:problem:{}", document["code"].as_str().unwrap())
        );
        document["code"].as_str().unwrap().to_owned()
    }

    /// Asserts that this is a replay of an answer: equal in status, body and every header that is kept.
    pub(crate) fn assert_replays(&self, first: &Self) {
        assert!(self.replayed(), "{self:?}");
        assert!(!first.replayed(), "{first:?}");
        assert_eq!(self.status, first.status);
        assert_eq!(self.body, first.body);
        let kept = |answer: &Self| {
            let own = [
                "date",
                "idempotent-replayed",
                "connection",
                "transfer-encoding",
                "content-length",
            ];
            let mut headers = answer.headers.clone();
            headers.retain(|(name, _)| !own.contains(&&**name));
            headers
        };
        assert_eq!(kept(self), kept(first));
    }
}

impl Server {
    /// Sends a request and reads the answer to its end.
    pub(crate) async fn send(&self, ask: &Ask) -> Answer {
        let connection = self.open(&ask.bytes()).await;
        read(connection, ask.method == "HEAD").await
    }

    /// Sends a request and expects a problem.
    pub(crate) async fn refused(&self, ask: &Ask) -> (u16, String) {
        let answer = self.send(ask).await;
        (answer.status, answer.code())
    }

    /// Opens a connection and writes to it.
    pub(crate) async fn open(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream
    }

    /// Sends a request in a task.
    pub(crate) fn sending(&self, ask: &Ask) -> tokio::task::JoinHandle<Answer> {
        let (address, ask) = (self.address, ask.clone());
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&ask.bytes()).await.unwrap();
            read(stream, ask.method == "HEAD").await
        })
    }

    /// Sends a request, hangs up when the handler stands at the gate, and waits until the server has
    /// noticed.
    pub(crate) async fn hang_up_at(&self, gate: &Gate, ask: &Ask) {
        let mut connection = self.open(&ask.bytes()).await;
        gate.arrived(1).await;
        connection.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let closed = timeout(DEADLINE, connection.read_to_end(&mut answer)).await;
        closed.expect("the server closes in time").ok();
        assert_eq!(answer, b"", "the handler has not answered");
    }
}

/// Reads an answer to the end of its connection.
pub(crate) async fn read(mut stream: TcpStream, is_head: bool) -> Answer {
    let mut raw = Vec::new();
    let whole = timeout(DEADLINE, stream.read_to_end(&mut raw)).await.expect("an answer in time");
    let mut answer = Answer::parse(&raw, is_head);
    answer.broken |= whole.is_err();
    answer
}

/// Polls a condition until it holds.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    let waited = timeout(DEADLINE, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    waited.await.expect("the condition holds in time");
}

/// What a handler that streams holds to write its body.
pub(crate) type Writer = mpsc::UnboundedSender<Result<Frame<Bytes>, std::io::Error>>;

/// A body that is written by hand.
pub(crate) fn streamed() -> (Writer, Body) {
    let (writer, frames) = mpsc::unbounded_channel();
    (writer, Body::new(Frames(frames)))
}

pub(crate) fn data(text: impl Into<Bytes>) -> Result<Frame<Bytes>, std::io::Error> {
    Ok(Frame::data(text.into()))
}

struct Frames(mpsc::UnboundedReceiver<Result<Frame<Bytes>, std::io::Error>>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.0.poll_recv(cx)
    }
}
