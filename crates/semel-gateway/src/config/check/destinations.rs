//! What must hold for the destinations of the outbox.

use std::{collections::BTreeMap, time::Duration};

use http::HeaderValue;
use semel::outbox::{Lane, relay::RelayError};

use super::{
    super::{
        Config, DestinationConfig, DestinationKind, RelayConfig, StoreUrl, destination::TOPIC,
        problem::ProblemKind, read::Reading, schema::Word as _, span::written,
    },
    WAIT_MIN, wait,
};
use crate::settings::RelaySource;

/// The longest wait for one send: a lease lasts three times as long.
const PUBLISH_MAX: Duration = Duration::from_secs(20 * 60);

/// The shortest wait for one batch to Kafka.
#[cfg(feature = "kafka")]
const KAFKA_WAIT_MIN: Duration = Duration::from_secs(4);

/// The most requests at once to one destination.
const CONNECTIONS_MAX: u32 = 1_024;

pub(super) fn all(config: &Config, reading: &mut Reading<'_>) {
    let mut names = BTreeMap::new();
    for (index, destination) in config.destination.iter().enumerate() {
        let one = One { destination, index };
        if names.insert(&destination.name, index).is_some() {
            let message = format!("two destinations are named \"{}\"", destination.name);
            reading.problem(ProblemKind::Conflict, &one.at("name"), message);
        }
        one.kind(reading);
        one.bounds(reading);
        one.types(reading);
        one.authorization(reading);
    }
    let has_outbox = matches!(config.store, StoreUrl::Postgres(_) | StoreUrl::Sqlite(_));
    if !has_outbox && !config.destination.is_empty() {
        let message = format!(
            "the store {} has no outbox that an application could append to; use sqlite:PATH or \
             postgres://USER@HOST/DATABASE",
            config.store
        );
        reading.problem(ProblemKind::Conflict, "destination", message);
    }
    if let Some(relay) = &config.relay {
        bounds(relay, reading);
        let has_slots = matches!(config.store, StoreUrl::Postgres(_));
        if relay.source == RelaySource::Slot && !has_slots {
            let message =
                "`relay.source` is \"slot\", and only a store in PostgreSQL has replication slots";
            reading.problem(ProblemKind::Conflict, "relay.source", message);
        }
    }
}

fn bounds(relay: &RelayConfig, reading: &mut Reading<'_>) {
    if let Err(RelayError::Policy(says)) = relay.policy().check() {
        let (bound, rest) = says.split_once(' ').unwrap_or((says, ""));
        let (setting, rest) = match bound {
            "attempts_max" => ("attempts", rest),
            "bytes_max" => ("memory", "must be 1 byte to 2 GiB"),
            "events_max" => ("events", rest),
            "poll_idle" => ("poll", rest),
            "retry_first" => ("retry_max", "must be at least 100 ms"),
            setting => (setting, rest),
        };
        let (path, message) = (format!("relay.{setting}"), format!("`relay.{setting}` {rest}"));
        reading.problem(ProblemKind::Policy, &path, message);
    }
    if relay.lag_max.is_zero() {
        let message = "`relay.lag_max` is 0: no relay would ever be ready";
        reading.problem(ProblemKind::Value, "relay.lag_max", message);
    }
}

struct One<'c> {
    destination: &'c DestinationConfig,
    index: usize,
}

impl One<'_> {
    fn at(&self, setting: &str) -> String {
        format!("destination[{}].{setting}", self.index)
    }

    /// Notes what its kind needs, and what says something that has no meaning with it.
    fn kind(&self, reading: &mut Reading<'_>) {
        let DestinationConfig { name, kind, .. } = self.destination;
        let word = kind.word();
        let (needed, there, foreign) = match kind {
            DestinationKind::Http => {
                // A URL with a problem of its own was told already.
                let there = self.destination.url.is_some() || reading.says(&self.at("url"));
                ("url", there, self.foreign_to_http())
            }
            DestinationKind::Kafka => {
                ("brokers", !self.destination.brokers.is_empty(), self.foreign_to_kafka())
            }
        };
        if !there {
            let message = format!(
                "`destination.{needed}` is not set: the destination \"{name}\" of kind \"{word}\" \
                 needs it"
            );
            reading.problem(ProblemKind::Missing, &self.at(needed), message);
        }
        for (setting, _) in foreign.iter().filter(|(_, said)| *said) {
            let message = format!("`destination.{setting}` has no meaning with kind = \"{word}\"");
            reading.problem(ProblemKind::Conflict, &self.at(setting), message);
        }
        if *kind == DestinationKind::Kafka {
            self.kafka(reading);
        }
    }

    #[cfg(feature = "kafka")]
    fn kafka(&self, reading: &mut Reading<'_>) {
        if let Err(error) = crate::relay::kafka_config(&self.destination.kafka()).check() {
            let message = format!("`destination.librdkafka` cannot be used: {error}");
            reading.problem(ProblemKind::Value, &self.at("librdkafka"), message);
        }
        if self.destination.wait < KAFKA_WAIT_MIN {
            let (shown, min) = (written(self.destination.wait), written(KAFKA_WAIT_MIN));
            let message = format!(
                "`destination.wait` is {shown}; with kind = \"kafka\" it is at least {min}"
            );
            reading.problem(ProblemKind::Value, &self.at("wait"), message);
        }
    }

    #[cfg(not(feature = "kafka"))]
    fn kafka(&self, reading: &mut Reading<'_>) {
        let message = "this build of semel has no Kafka: build it with the feature `kafka`";
        reading.problem(ProblemKind::Environment, &self.at("kind"), message);
    }

    fn foreign_to_http(&self) -> Vec<(&'static str, bool)> {
        let DestinationConfig { brokers, topic, librdkafka, .. } = self.destination;
        vec![
            ("brokers", !brokers.is_empty()),
            ("topic", topic != TOPIC),
            ("librdkafka", !librdkafka.0.is_empty()),
        ]
    }

    fn foreign_to_kafka(&self) -> Vec<(&'static str, bool)> {
        let DestinationConfig { url, authorization, ca, .. } = self.destination;
        vec![
            ("url", url.is_some()),
            ("authorization", authorization.is_some()),
            ("ca", ca.is_some()),
        ]
    }

    fn bounds(&self, reading: &mut Reading<'_>) {
        let DestinationConfig { connections, connect_wait, wait: publish, .. } = *self.destination;
        if connections == 0 || connections > CONNECTIONS_MAX {
            let message = format!(
                "`destination.connections` is {connections}; it must lie between 1 and {CONNECTIONS_MAX}"
            );
            reading.problem(ProblemKind::Value, &self.at("connections"), message);
        }
        wait(reading, &self.at("connect_wait"), connect_wait);
        if !(WAIT_MIN..=PUBLISH_MAX).contains(&publish) {
            let (shown, min, max) = (written(publish), written(WAIT_MIN), written(PUBLISH_MAX));
            let message =
                format!("`destination.wait` is {shown}; it must lie between {min} and {max}");
            reading.problem(ProblemKind::Value, &self.at("wait"), message);
        }
    }

    fn authorization(&self, reading: &mut Reading<'_>) {
        let secret = self.destination.authorization.as_ref();
        if secret.is_some_and(|secret| HeaderValue::from_bytes(secret.expose()).is_err()) {
            let message = "what `destination.authorization` names cannot be sent in a header";
            reading.problem(ProblemKind::Value, &self.at("authorization"), message);
        }
    }

    fn types(&self, reading: &mut Reading<'_>) {
        for kind in &self.destination.types {
            if Lane::new(kind, "1").is_err() {
                let message = format!(
                    "{kind:?} is no type of an aggregate: it has 1 to {} bytes without control \
                     characters",
                    Lane::MAX
                );
                reading.problem(ProblemKind::Value, &self.at("types"), message);
            }
        }
    }
}
