//! An upstream that does what a test says, and counts what it was asked.

use std::{
    collections::HashMap,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
};

use super::{Message, PATIENCE, Wire, answer};
use crate::faults::Gate;

/// What an upstream does with a request.
#[allow(missing_debug_implementations, reason = "a deed may hold a function")]
pub enum Deed {
    /// Writes these bytes and goes on.
    Write(Vec<u8>),
    /// Writes these bytes and closes.
    WriteAndClose(Vec<u8>),
    /// Closes with a reset.
    Reset,
    /// Waits until the other side closes.
    Hang,
    /// Writes these bytes once the gate is open, and goes on.
    WriteWhen(Arc<Gate>, Vec<u8>),
    /// Does whatever it likes with the connection.
    Take(Box<dyn FnOnce(Wire<TcpStream>) -> Work + Send>),
}

/// What is done with a connection.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;
type Doing = dyn Fn(Message) -> Pin<Box<dyn Future<Output = Deed> + Send>> + Send + Sync;

/// What an upstream saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    requests: Arc<Mutex<Vec<Message>>>,
    connections: Arc<Mutex<usize>>,
    changed: Arc<Notify>,
}

impl Seen {
    /// Returns every request, in the order they came.
    #[must_use]
    pub fn requests(&self) -> Vec<Message> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns how many connections were made.
    #[must_use]
    pub fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }

    /// Returns how often each key was asked for: the effects.
    #[must_use]
    pub fn effects(&self) -> HashMap<String, usize> {
        let mut effects = HashMap::new();
        for request in self.requests() {
            let key = request.header(semel::wire::IDEMPOTENCY_KEY).unwrap_or_default().to_owned();
            *effects.entry(key).or_default() += 1;
        }
        effects
    }

    /// Waits until as many requests were seen.
    pub async fn until(&self, requests: usize) {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if self.requests.lock().unwrap().len() >= requests {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("the requests came");
    }
}

/// An upstream on a port of its own, until it is dropped.
#[derive(Debug)]
pub struct Upstream {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it saw.
    pub seen: Seen,
    task: JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Upstream {
    /// Answers every request by `deed`.
    pub async fn new<F>(deed: impl Fn(Message) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Deed> + Send + 'static,
    {
        let doing: Arc<Doing> = Arc::new(move |message| Box::pin(deed(message)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Seen::default();
        let watching = seen.clone();
        let task = tokio::spawn(async move {
            // Connections end with the upstream.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                *watching.connections.lock().unwrap() += 1;
                connections.spawn(serve(tcp, Arc::clone(&doing), watching.clone()));
            }
        });
        Self { address, seen, task }
    }

    /// Answers 201 and a body that counts.
    pub async fn counting() -> Self {
        let made = Arc::new(Mutex::new(0));
        Self::new(move |message| {
            let number = {
                let mut made = made.lock().unwrap();
                *made += 1;
                *made
            };
            let location = format!("{}/{number}", message.target());
            let body = format!("{{\"id\":{number}}}");
            let headers = [("content-type", "application/json"), ("location", &*location)];
            let written = answer(201, &headers, &body);
            async move { Deed::Write(written) }
        })
        .await
    }

    /// Always writes the same bytes.
    pub async fn saying(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::new(move |_| {
            let bytes = bytes.clone();
            async move { Deed::Write(bytes) }
        })
        .await
    }

    /// Returns its address as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn serve(tcp: TcpStream, doing: Arc<Doing>, seen: Seen) {
    let mut wire = Wire::new(tcp);
    while let Some(message) = wire.request().await {
        seen.requests.lock().unwrap().push(message.clone());
        seen.changed.notify_waiters();
        match doing(message).await {
            Deed::Write(bytes) => wire.write(bytes).await,
            Deed::WriteWhen(gate, bytes) => {
                gate.pass().await;
                wire.write(bytes).await;
            }
            Deed::WriteAndClose(bytes) => return wire.write(bytes).await,
            Deed::Reset => {
                wire.io.set_zero_linger().unwrap();
                return;
            }
            Deed::Hang => {
                while wire.some().await.is_some() {}
                return;
            }
            Deed::Take(take) => return take(wire).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{request, send};

    #[tokio::test]
    async fn effects_are_counted_by_key() {
        let upstream = Upstream::counting().await;
        for key in ["a", "b", "a"] {
            let headers = [(semel::wire::IDEMPOTENCY_KEY, key)];
            let answered = send(upstream.address, "POST /payments", &headers, "{}").await;
            assert_eq!((answered.status(), answered.whole), (201, true));
        }
        let wanted = HashMap::from([("a".to_owned(), 2), ("b".to_owned(), 1)]);
        assert_eq!(upstream.seen.effects(), wanted);
    }

    #[tokio::test]
    async fn half_a_body_is_told_from_a_whole_one() {
        let half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec();
        let upstream = Upstream::new(move |_| {
            let half = half.clone();
            async move { Deed::WriteAndClose(half) }
        });
        let upstream = upstream.await;
        let answered = send(upstream.address, "GET /", &[], "").await;
        assert_eq!((answered.whole, answered.text()), (false, "half"));
    }

    #[tokio::test]
    async fn a_reset_and_a_hang_answer_nothing() {
        let upstream = Upstream::new(|message| async move {
            if message.target() == "/reset" { Deed::Reset } else { Deed::Hang }
        });
        let upstream = upstream.await;
        let mut wire = Wire::to(upstream.address).await;
        wire.write(request("GET /reset", &[], "")).await;
        assert!(wire.answer("GET").await.is_none());
        let mut wire = Wire::to(upstream.address).await;
        wire.write(request("GET /hang", &[], "")).await;
        upstream.seen.until(2).await;
        wire.reset();
        assert_eq!(upstream.seen.connections(), 2);
    }

    #[tokio::test]
    async fn a_slow_answer_waits_for_its_gate() {
        let gate = Gate::shut();
        let held = Arc::clone(&gate);
        let upstream = Upstream::new(move |_| {
            let gate = Arc::clone(&held);
            async move { Deed::WriteWhen(gate, answer(200, &[], "{\"code\": \"late\"}")) }
        });
        let upstream = upstream.await;
        let mut wire = Wire::to(upstream.address).await;
        wire.write(request("GET /", &[], "")).await;
        gate.arrived(1).await;
        gate.open();
        assert_eq!(wire.answer("GET").await.unwrap().code(), "late");
    }
}
