//! A destination of an outbox that gets each event as a request of its own.
//!
//! [`HttpPublisher`] sends `POST` to one URL: the body is the payload, `Idempotency-Key` is the id of the
//! event, and what else is known of it stands in headers as CloudEvents 1.0 names them in binary mode:
//!
//! | header | holds |
//! |---|---|
//! | `idempotency-key`, `ce-id` | the id, the same in every copy |
//! | `ce-type` | what happened |
//! | `ce-source`, `ce-subject` | type and id of the aggregate |
//! | `ce-aggregateversion` | its version, if the producer counts them |
//! | `traceparent` | the trace context, if there is one |
//! | `content-type` | what the event's own header says, else what the publisher was told; none with a tombstone |
//! | its own | the event's own headers; those that HTTP needs for itself begin with `event-` |
//!
//! Values are percent-encoded as CloudEvents says: the space, `"`, `%` and whatever is not printable ASCII.
//!
//! # What an answer means
//!
//! | answer | outcome |
//! |---|---|
//! | 2xx | confirmed: as durable as the receiver makes it before it answers |
//! | no address, no connection, no TLS; the request was not begun | refused by the destination |
//! | 429, and 503 with `Retry-After` | refused by the destination, with its wish when to come again |
//! | 3xx, 401, 405, 407, 410, 421, 426, 501, 505 | refused by the destination: it would say so to every event |
//! | 409 with `Retry-After`, 408, 425 | unknown: a copy is being worked on, or the request was not taken whole |
//! | any other 4xx | refused for what the message is |
//! | any other 5xx, no answer in time, a connection that broke | unknown |
//!
//! Redirects are not followed and nothing is retried: the relay owns every retry. A receiver that knows copies
//! by `Idempotency-Key`, such as any that this crate's layer protects, makes one effect of all of them.

mod answer;
mod connection;
mod request;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use axum::body::Body;
use http::{HeaderName, HeaderValue, Request, Uri, response::Parts};
use rustls::ClientConfig;
use semel::{
    Clock, SystemClock,
    outbox::{Event, Fault, Message, Publisher, PublisherCapabilities, Sent},
};
use thiserror::Error;
use tokio::{sync::Semaphore, time::timeout};

use self::{
    connection::{Address, Connection, NotSent, SendError},
    request::Template,
};

/// For how long a connection that nobody uses is kept: shorter than the five seconds after which many
/// servers close one.
const IDLE_FOR: Duration = Duration::from_secs(4);

/// How long the rest of an answer is waited for once its head is there.
const REST_WAIT: Duration = Duration::from_secs(1);

/// Says why a publisher cannot be built.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum PublisherError {
    /// A bound is zero.
    #[error("{what} of an HTTP publisher must not be zero")]
    Bound {
        /// Which bound.
        what: &'static str,
    },
    /// A header cannot be set for every request.
    #[error("the header {name} of an HTTP publisher is set by each event")]
    Header {
        /// Which header.
        name: HeaderName,
    },
    /// The URL begins with `https`, and nothing says whose certificates are trusted.
    #[error("an https URL needs a configuration of TLS")]
    NoTls,
    /// The URL cannot be used. It is not repeated, since it may hold a secret.
    #[error("the URL of an HTTP publisher cannot be used: {reason}")]
    Url {
        /// What it lacks.
        reason: &'static str,
    },
}

/// Builds an [`HttpPublisher`].
#[derive(Clone)]
#[must_use]
pub struct HttpPublisherBuilder {
    url: Uri,
    tls: Option<Arc<ClientConfig>>,
    connections: usize,
    connect_wait: Duration,
    publish_wait: Duration,
    content_type: HeaderValue,
    headers: Vec<(HeaderName, HeaderValue)>,
    clock: Arc<dyn Clock>,
}

impl HttpPublisherBuilder {
    /// Says how TLS is spoken with an `https` URL: whose certificates are trusted.
    pub fn tls(mut self, config: Arc<ClientConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Says how many requests may be on their way at once, each of another lane: 16 unless said.
    pub const fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Says how long finding the address, connecting and the TLS handshake may take together: 5 s
    /// unless said.
    pub const fn connect_wait(mut self, wait: Duration) -> Self {
        self.connect_wait = wait;
        self
    }

    /// Says how long one event may take altogether: 30 s unless said.
    pub const fn publish_wait(mut self, wait: Duration) -> Self {
        self.publish_wait = wait;
        self
    }

    /// Says of which media type payloads are whose event does not say so by a header of its own:
    /// `application/json` unless said.
    pub fn content_type(mut self, content_type: HeaderValue) -> Self {
        self.content_type = content_type;
        self
    }

    /// Adds a header to every request, such as `authorization`; its value is marked as sensitive.
    pub fn header(mut self, name: HeaderName, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        self.headers.push((name, value));
        self
    }

    /// Reads time from this clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Builds the publisher; nothing is connected.
    ///
    /// # Errors
    ///
    /// Says what cannot be used.
    pub fn build(self) -> Result<HttpPublisher, PublisherError> {
        for (what, zero) in [
            ("the number of connections", self.connections == 0),
            ("the wait for a connection", self.connect_wait.is_zero()),
            ("the wait for an answer", self.publish_wait.is_zero()),
        ] {
            if zero {
                return Err(PublisherError::Bound { what });
            }
        }
        if let Some((name, _)) = self.headers.iter().find(|(name, _)| request::is_taken(name)) {
            return Err(PublisherError::Header { name: name.clone() });
        }
        let address = Address::new(&self.url, self.tls)?;
        let template = Template::new(&self.url, self.content_type, self.headers)?;
        Ok(HttpPublisher {
            address,
            template,
            slots: Semaphore::new(self.connections),
            connections: self.connections,
            connect_wait: self.connect_wait.min(self.publish_wait),
            publish_wait: self.publish_wait,
            idle: Mutex::default(),
            clock: self.clock,
        })
    }
}

impl fmt::Debug for HttpPublisherBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpPublisherBuilder")
            .field("host", &self.url.host())
            .finish_non_exhaustive()
    }
}

/// Sends events as requests. See the [module](self).
pub struct HttpPublisher {
    address: Address,
    template: Template,
    slots: Semaphore,
    connections: usize,
    connect_wait: Duration,
    publish_wait: Duration,
    /// Connections that nobody uses; the one used last stands last.
    idle: Mutex<Vec<Connection>>,
    clock: Arc<dyn Clock>,
}

impl HttpPublisher {
    /// Begins to build a publisher that sends to this URL.
    pub fn builder(url: Uri) -> HttpPublisherBuilder {
        HttpPublisherBuilder {
            url,
            tls: None,
            connections: 16,
            connect_wait: Duration::from_secs(5),
            publish_wait: Duration::from_secs(30),
            content_type: HeaderValue::from_static("application/json"),
            headers: Vec::new(),
            clock: Arc::new(SystemClock::new()),
        }
    }

    async fn send(&self, event: &Event) -> Sent {
        let request = match self.template.request(event) {
            Ok(request) => request,
            Err(why) => return Sent::Refused { fault: Fault::Message, why },
        };
        let (begun, wait) = (AtomicBool::new(false), self.publish_wait);
        let mut head = None;
        let sent = timeout(wait, self.exchange(request, &begun, &mut head)).await;
        match (sent, head) {
            (Ok(sent), _) => sent,
            // What it answered stands in the head.
            (Err(_), Some(head)) => answer::outcome(&head, None, &*self.clock),
            (Err(_), None) if begun.load(Ordering::Relaxed) => {
                Sent::Unknown { why: format!("there was no answer in {wait:?}").into() }
            }
            (Err(_), None) => away(format!("the request could not be begun in {wait:?}")),
        }
    }

    /// Sends one request. `begun` tells whether the destination may have seen something of it, `head`
    /// what it answered while the rest of the answer is still awaited.
    async fn exchange(
        &self,
        request: Request<Body>,
        begun: &AtomicBool,
        head: &mut Option<Parts>,
    ) -> Sent {
        let Ok(_slot) = self.slots.acquire().await else {
            return away("the publisher is closed");
        };
        let mut request = request;
        // An idle connection may have been closed without a word; what it gives back was not sent.
        while let Some(mut connection) = self.take() {
            begun.store(true, Ordering::Relaxed);
            match connection.send(request).await {
                Ok(answer) => return self.judged(connection, answer, head).await,
                Err(SendError::Returned(back)) => request = *back,
                Err(SendError::Broken(why)) => return Sent::Unknown { why },
            }
            begun.store(false, Ordering::Relaxed);
        }
        let connected = timeout(self.connect_wait, self.address.connect()).await;
        let mut connection = match connected {
            Ok(Ok(connection)) => connection,
            Ok(Err(NotSent(why))) => return away(why),
            Err(_) => {
                return away(format!("no connection was made in {:?}", self.connect_wait));
            }
        };
        begun.store(true, Ordering::Relaxed);
        match connection.send(request).await {
            Ok(answer) => self.judged(connection, answer, head).await,
            Err(SendError::Returned(_)) => {
                away("the connection was closed before anything was sent")
            }
            Err(SendError::Broken(why)) => Sent::Unknown { why },
        }
    }

    async fn judged(
        &self,
        mut connection: Connection,
        answer: connection::Answer,
        head: &mut Option<Parts>,
    ) -> Sent {
        let (parts, body) = answer.into_parts();
        let parts = head.insert(parts);
        // The head decides. The rest may tell why, and lets the connection be used again: neither is
        // worth a wait that keeps what comes behind the event.
        let rest = timeout(REST_WAIT, connection.rest(body)).await.unwrap_or_default();
        let sent = answer::outcome(parts, rest.as_deref(), &*self.clock);
        if rest.is_some() && connection.is_ready() {
            self.put(connection);
        }
        sent
    }

    fn take(&self) -> Option<Connection> {
        let now = self.clock.monotonic();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connection| now.since(connection.idle_since) <= IDLE_FOR);
        while let Some(mut connection) = idle.pop() {
            if connection.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    fn put(&self, mut connection: Connection) {
        connection.idle_since = self.clock.monotonic();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < self.connections {
            idle.push(connection);
        }
    }
}

impl fmt::Debug for HttpPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpPublisher").field("address", &self.address).finish_non_exhaustive()
    }
}

#[async_trait]
impl Publisher for HttpPublisher {
    fn capabilities(&self) -> PublisherCapabilities {
        let mut can = PublisherCapabilities::new("http");
        // One message a batch: a slow answer to one keeps no other waiting.
        can.batches_max = self.connections;
        can.publish_wait = self.publish_wait;
        can
    }

    async fn publish(&self, batch: Vec<Message>) -> Vec<Sent> {
        let mut outcomes = Vec::with_capacity(batch.len());
        for message in batch {
            outcomes.push(self.send(&message.event).await);
        }
        outcomes
    }
}

fn away(why: impl Into<Box<str>>) -> Sent {
    Sent::Refused { fault: Fault::Destination { retry_after: None }, why: why.into() }
}
