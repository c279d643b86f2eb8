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

use crate::message::{Message, Wire, answer};

/// What an upstream does with a request.
pub(crate) enum Deed {
    /// Writes these bytes and goes on.
    Write(Vec<u8>),
    /// Writes these bytes and closes.
    WriteAndClose(Vec<u8>),
    /// Closes with a reset.
    Reset,
    /// Waits until the gateway closes.
    Hang,
    /// Does whatever it likes with the connection.
    Take(Box<dyn FnOnce(Wire<TcpStream>) -> Work + Send>),
}

pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;
type Doing = dyn Fn(Message) -> Pin<Box<dyn Future<Output = Deed> + Send>> + Send + Sync;

/// What an upstream saw.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    requests: Arc<Mutex<Vec<Message>>>,
    connections: Arc<Mutex<usize>>,
    changed: Arc<Notify>,
}

impl Seen {
    pub(crate) fn requests(&self) -> Vec<Message> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }

    /// How often each key was asked for: the effects.
    pub(crate) fn effects(&self) -> HashMap<String, usize> {
        let mut effects = HashMap::new();
        for request in self.requests() {
            let key = request.header("idempotency-key").unwrap_or_default().to_owned();
            *effects.entry(key).or_default() += 1;
        }
        effects
    }

    /// Waits until as many requests were seen.
    pub(crate) async fn until(&self, requests: usize) {
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
        tokio::time::timeout(crate::message::PATIENCE, wait).await.expect("the requests came");
    }
}

/// An upstream on a port of its own, until it is dropped.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Seen,
    task: JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Upstream {
    /// Answers every request by `deed`.
    pub(crate) async fn new<F>(deed: impl Fn(Message) -> F + Send + Sync + 'static) -> Self
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
    pub(crate) async fn counting() -> Self {
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
    pub(crate) async fn saying(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::new(move |_| {
            let bytes = bytes.clone();
            async move { Deed::Write(bytes) }
        })
        .await
    }

    pub(crate) fn url(&self) -> String {
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
