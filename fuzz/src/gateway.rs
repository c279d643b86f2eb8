//! A gateway on a port of its own, between a client and an upstream that write whatever they are given.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use semel_gateway::{
    Gateway, Settings, Shutdown,
    config::StoreUrl,
    settings::{Protected, StoreSettings, UpstreamSettings},
    stores,
};
use semel_http::tenant::single_tenant;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    signal::unix::{SignalKind, signal},
    time::timeout,
};

use crate::behind::operation;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long whoever could still say something may be silent.
const SILENCE: Duration = Duration::from_millis(5);
/// After how many inputs a gateway makes room for a new one: it remembers every key.
const INPUTS_MAX: usize = 500;

/// What an upstream says when nobody said otherwise.
pub(crate) const MADE: &[u8] =
    b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";

/// A gateway with one operation, `POST /pay`.
pub(crate) struct Served {
    address: SocketAddr,
    upstream: Upstream,
    shutdown: Shutdown,
    inputs: usize,
}

/// What the upstream saw and says.
#[derive(Clone, Default)]
struct Upstream(Arc<Mutex<Exchange>>);

#[derive(Default)]
struct Exchange {
    seen: Vec<Vec<u8>>,
    says: Vec<u8>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.shutdown.end_now();
    }
}

impl Served {
    /// Returns the gateway that is kept, or a new one.
    pub(crate) async fn of(kept: Option<Self>) -> Self {
        match kept {
            Some(kept) if kept.inputs < INPUTS_MAX => Self::begun(kept),
            _ => Self::new().await,
        }
    }

    fn begun(mut self) -> Self {
        self.inputs += 1;
        self.says(MADE);
        self
    }

    async fn new() -> Self {
        // The fuzzer's own main leaves the signal deadly that Rust's ignores.
        let _caught = signal(SignalKind::pipe()).expect("the signal can be caught");
        let upstream = Upstream::default();
        let below = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", below.local_addr().expect("an address"));
        tokio::spawn(upstream.clone().serve(below));
        let mut settings = Settings::new(StoreUrl::Memory, single_tenant());
        let mut behind = UpstreamSettings::new("api", url.parse().expect("a URL"));
        behind.prefixes = vec!["/".into()];
        behind.circuit.failures = 0;
        settings.upstreams.push(behind);
        let pay = operation("pay").on(http::Method::POST, "/pay");
        settings.operations.push(Protected { operation: pay, upstream: None });
        let opened = stores::open(&StoreSettings::from(StoreUrl::Memory)).await.expect("memory");
        let gateway = Gateway::with_store(&settings, opened).await.expect("settings");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shutdown = Shutdown::new();
        tokio::spawn(gateway.serve(listener, None, shutdown.clone()));
        Self { address, upstream, shutdown, inputs: 0 }.begun()
    }

    /// Sets what the upstream writes to every request, before it closes.
    pub(crate) fn says(&self, bytes: &[u8]) {
        self.upstream.lock().says = bytes.to_vec();
    }

    /// Takes what the upstream saw since the last time.
    pub(crate) fn seen(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.upstream.lock().seen)
    }

    /// Which input this is, for this gateway.
    pub(crate) const fn input(&self) -> usize {
        self.inputs
    }

    /// Writes bytes on a connection of their own, and returns what came until it was closed or silent.
    pub(crate) async fn exchange(&self, bytes: &[u8]) -> Vec<u8> {
        let exchange = async {
            let mut tcp = TcpStream::connect(self.address).await.expect("it listens");
            let mut read = Vec::new();
            // A gateway that closes before it has all bytes is no fault.
            if tcp.write_all(bytes).await.is_ok() {
                while let Ok(Ok(1..)) = timeout(SILENCE, tcp.read_buf(&mut read)).await {}
            }
            read
        };
        timeout(PATIENCE, exchange).await.expect("it ends")
    }

    /// Sends a request and returns the whole answer.
    pub(crate) async fn answer(&self, request: &[u8]) -> Vec<u8> {
        let exchange = async {
            let mut tcp = TcpStream::connect(self.address).await.expect("it listens");
            let mut read = Vec::new();
            tcp.write_all(request).await.expect("it reads");
            // A reset ends an answer too.
            let _ = tcp.read_to_end(&mut read).await;
            read
        };
        timeout(PATIENCE, exchange).await.expect("it answers, and closes as it was asked to")
    }
}

impl Upstream {
    fn lock(&self) -> MutexGuard<'_, Exchange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(self, listener: TcpListener) {
        while let Ok((tcp, _)) = listener.accept().await {
            tokio::spawn(self.clone().one(tcp));
        }
    }

    /// Reads one request, and all that came with it.
    async fn one(self, mut tcp: TcpStream) {
        let mut read = Vec::new();
        while !is_whole(&read) {
            match tcp.read_buf(&mut read).await {
                Ok(1..) => {}
                _ => return,
            }
        }
        let says = {
            let mut exchange = self.lock();
            exchange.seen.push(read);
            exchange.says.clone()
        };
        let _ = tcp.write_all(&says).await;
        let _ = tcp.shutdown().await;
        // Closed only when the other side is done: a reset would take what was written with it.
        let mut rest = [0; 64];
        while let Ok(1..) = tcp.read(&mut rest).await {}
    }
}

fn is_whole(read: &[u8]) -> bool {
    let Some((head, body)) = parted(read) else { return false };
    let value = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    if value("transfer-encoding: ").is_some() {
        return body.ends_with(b"0\r\n\r\n");
    }
    let length = value("content-length: ").and_then(|length| length.parse().ok()).unwrap_or(0);
    body.len() >= length
}

/// Parts a message into its head, with names in small letters, and the rest.
pub(crate) fn parted(message: &[u8]) -> Option<(String, &[u8])> {
    let end = message.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&message[..end]);
    let lines = head.split("\r\n").enumerate().map(|(at, line)| match line.split_once(':') {
        Some((name, value)) if at > 0 => format!("{}:{value}", name.to_ascii_lowercase()),
        _ => line.to_owned(),
    });
    Some((lines.collect::<Vec<_>>().join("\n"), &message[end + 4..]))
}
