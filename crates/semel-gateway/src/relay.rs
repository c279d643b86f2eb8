//! The relay of a process: its destinations, how it begins and how it ends.

use std::{path::Path, sync::Arc, time::Duration};

use http::{HeaderValue, header, uri::Scheme};
use semel::{
    Clock, SystemClock,
    outbox::{
        Destination, Publisher,
        relay::{Relay, RelayDestination, RelayError, Routes},
    },
};
use semel_http::publisher::{HttpPublisher, PublisherError};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    admin::{self, Admin},
    bounded,
    serve::{Ended, ServeError},
    settings::{
        AdminSettings, DestinationSettings, HttpSink, KafkaSink, RelaySettings, RelaySource, Sink,
    },
    shutdown::Shutdown,
    stores::{Opened, OutboxPowers},
    tls::{self, TlsError},
};

/// Where Linux says what the machine is called.
const HOST_FILE: &str = "/proc/sys/kernel/hostname";

/// Says why a destination cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The secret cannot be sent.
    #[error("its authorization cannot be sent in a header")]
    Authorization,
    /// Requests cannot be sent to it.
    #[error(transparent)]
    Http(#[from] PublisherError),
    /// Kafka cannot be used as it was said.
    #[cfg(feature = "kafka")]
    #[error(transparent)]
    Kafka(#[from] semel_kafka::Error),
    /// This build has no Kafka.
    #[error("this build of semel has no Kafka: build it with the feature `kafka`")]
    NoKafka,
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Says why events cannot be relayed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RelayingError {
    /// A destination cannot be used.
    #[error("the destination {destination} cannot be used")]
    Destination {
        /// Which.
        destination: Destination,
        /// Why not.
        #[source]
        error: SinkError,
    },
    /// The store has no outbox.
    #[error("the store has no outbox: use sqlite:PATH or postgres://USER@HOST/DATABASE")]
    NoOutbox,
    /// The store has no replication slots.
    #[error("only a store in PostgreSQL has replication slots: leave out `relay.source`")]
    NoSlots,
    /// The relay cannot be made as it was described.
    #[error(transparent)]
    Relay(#[from] RelayError),
}

/// Starts relaying on a store that is open.
///
/// # Errors
///
/// Says what of the settings cannot be used.
///
/// # Panics
///
/// Panics outside of a tokio runtime.
pub async fn start(
    settings: &RelaySettings,
    outbox: Option<OutboxPowers>,
    clock: &Arc<dyn Clock>,
) -> Result<Relay, RelayingError> {
    let outbox = outbox.ok_or(RelayingError::NoOutbox)?;
    let store = match settings.source {
        RelaySource::Slot => outbox.by_slots.ok_or(RelayingError::NoSlots)?,
        RelaySource::Table => outbox.store,
    };
    let mut relay = Relay::builder(store)
        .owner(owner())
        .policy(settings.policy.clone())
        .retain(outbox.retain)
        .clock(Arc::clone(clock));
    if let Some(hints) = outbox.hints {
        relay = relay.hints(hints);
    }
    for destination in &settings.destinations {
        let name = || destination.name.clone();
        let reached = reached(destination, clock).await;
        relay = relay.destination(
            reached.map_err(|error| RelayingError::Destination { destination: name(), error })?,
        );
    }
    Ok(relay.start()?)
}

/// Names this process for people who look at who leads.
fn owner() -> String {
    let host = bounded::read(Path::new(HOST_FILE), 1_024).unwrap_or_default();
    let host = String::from_utf8_lossy(&host);
    let host: String = host.trim().chars().filter(char::is_ascii_graphic).take(200).collect();
    format!("{host}:{}", std::process::id())
}

async fn reached(
    settings: &DestinationSettings,
    clock: &Arc<dyn Clock>,
) -> Result<RelayDestination, SinkError> {
    let publisher = publisher(settings, clock).await?;
    let routes = match settings.types.as_slice() {
        [] => Routes::All,
        types => Routes::only(types.iter().map(String::as_str)),
    };
    let destination = RelayDestination::new(settings.name.clone(), publisher);
    Ok(destination.routes(routes).start(settings.start))
}

async fn publisher(
    settings: &DestinationSettings,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Publisher>, SinkError> {
    match &settings.sink {
        Sink::Http(sink) => http(settings, sink, clock),
        Sink::Kafka(sink) => kafka(settings, sink).await,
    }
}

fn http(
    settings: &DestinationSettings,
    sink: &HttpSink,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Publisher>, SinkError> {
    let mut publisher = HttpPublisher::builder(sink.url.clone())
        .connections(sink.connections_max)
        .connect_wait(sink.connect_wait)
        .publish_wait(settings.publish_wait)
        .content_type(sink.content_type.clone())
        .clock(Arc::clone(clock));
    if sink.url.scheme() == Some(&Scheme::HTTPS) {
        publisher = publisher.tls(tls::client(sink.ca_file.as_deref())?);
    }
    if let Some(secret) = &sink.authorization {
        let value = HeaderValue::from_bytes(secret.expose());
        let value = value.map_err(|_| SinkError::Authorization)?;
        publisher = publisher.header(header::AUTHORIZATION, value);
    }
    Ok(Arc::new(publisher.build()?))
}

#[cfg(feature = "kafka")]
async fn kafka(
    settings: &DestinationSettings,
    sink: &KafkaSink,
) -> Result<Arc<dyn Publisher>, SinkError> {
    let publisher = semel_kafka::KafkaPublisher::builder(kafka_config(sink))
        .topics(sink.topic.as_str())
        .publish_wait(settings.publish_wait)
        .open()
        .await?;
    Ok(Arc::new(publisher))
}

/// Returns the brokers and the settings that reach them.
#[cfg(feature = "kafka")]
pub(crate) fn kafka_config(sink: &KafkaSink) -> semel_kafka::KafkaConfig {
    let config = semel_kafka::KafkaConfig::new(sink.brokers.join(","));
    sink.settings
        .iter()
        .fold(config, |config, (name, value)| config.set(name.as_str(), value.as_str()))
}

#[cfg(not(feature = "kafka"))]
async fn kafka(_: &DestinationSettings, _: &KafkaSink) -> Result<Arc<dyn Publisher>, SinkError> {
    Err(SinkError::NoKafka)
}

/// A process that only relays.
#[derive(Debug)]
pub struct RelayProcess {
    relay: Relay,
    admin: Option<AdminSettings>,
    shutdown_wait: Duration,
    clock: Arc<dyn Clock>,
}

impl RelayProcess {
    /// Starts relaying on a store that is open.
    ///
    /// # Errors
    ///
    /// Says what of the settings cannot be used.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub async fn start(
        settings: &RelaySettings,
        opened: Opened,
        admin: Option<AdminSettings>,
        shutdown_wait: Duration,
    ) -> Result<Self, RelayingError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let relay = start(settings, opened.outbox, &clock).await?;
        Ok(Self { relay, admin, shutdown_wait, clock })
    }

    /// Relays until a shutdown has ended.
    pub async fn run(self, admin: Option<TcpListener>, shutdown: Shutdown) -> Ended {
        let background = TaskTracker::new();
        let over = CancellationToken::new();
        let _ends_background = over.clone().drop_guard();
        if let (Some(tcp), Some(settings)) = (admin, self.admin) {
            let admin = Admin::new(admin::Shared {
                gateway: None,
                relay: Some(self.relay.clone()),
                closing: shutdown.gentle().clone(),
                ready_wait: settings.ready_wait,
                clock: Arc::clone(&self.clock),
            });
            background.spawn(admin.serve(tcp, over.clone()));
        }
        shutdown.gentle().cancelled().await;
        end(&self.relay, self.shutdown_wait, &shutdown).await
    }
}

/// Lets what is on its way arrive, settles, and lets others lead; at most for `wait`, and not past a
/// second word.
pub(crate) async fn end(relay: &Relay, wait: Duration, shutdown: &Shutdown) -> Ended {
    tokio::select! {
        closed = relay.close(wait) => if closed { Ended::Clean } else { Ended::CutShort },
        () = shutdown.now().cancelled() => Ended::CutShort,
    }
}

impl From<RelayingError> for ServeError {
    fn from(error: RelayingError) -> Self {
        Self::Relaying(error)
    }
}
