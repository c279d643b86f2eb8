//! Which brokers, and how they are reached.

use std::fmt;

use rdkafka::{ClientConfig, error::KafkaError};

use crate::error::Error;

/// Settings that promises rest on: who sets them is refused, and told so.
const KEPT: &[&str] = &[
    "acks",
    "auto.offset.reset",
    "bootstrap.servers",
    "delivery.timeout.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "enable.partition.eof",
    "group.id",
    "isolation.level",
    "message.send.max.retries",
    "message.timeout.ms",
    "metadata.broker.list",
    "request.required.acks",
    "retries",
    "transactional.id",
];

/// The brokers, and the settings of librdkafka that reach them.
#[derive(Clone)]
pub struct KafkaConfig {
    brokers: Box<str>,
    settings: Vec<(Box<str>, Box<str>)>,
}

impl KafkaConfig {
    /// Names one or more brokers of a cluster, as `host:port` separated by commas.
    #[must_use]
    pub fn new(brokers: impl Into<Box<str>>) -> Self {
        Self { brokers: brokers.into(), settings: Vec::new() }
    }

    /// Sets a setting of librdkafka, such as `security.protocol` or `client.id`; the last word counts.
    ///
    /// Those that a promise rests on, such as `acks` or `isolation.level`, are refused when something is
    /// opened.
    #[must_use]
    pub fn set(mut self, name: impl Into<Box<str>>, value: impl Into<Box<str>>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Checks the settings as far as that can be done without a client.
    ///
    /// # Errors
    ///
    /// Fails with kind `Invalid` if one is set that a promise rests on, or that this build of librdkafka
    /// does not know or cannot do.
    pub fn check(&self) -> Result<(), Error> {
        match self.client(&[], &[])?.create_native_config() {
            Ok(_) => Ok(()),
            Err(KafkaError::ClientConfig(_, says, name, _)) => {
                Err(Error::invalid(format!("the setting {name}: {says}")))
            }
            Err(error) => Err(Error::invalid(error.to_string())),
        }
    }

    /// Returns the configuration of a client: what this kind of client does by default, then what the
    /// user said, then what is kept.
    pub(crate) fn client(
        &self,
        defaults: &[(&str, &str)],
        kept: &[(&str, &str)],
    ) -> Result<ClientConfig, Error> {
        let mut client = ClientConfig::new();
        client.set("client.id", "semel");
        // A broker that was away is found again within a second, not within ten.
        client.set("reconnect.backoff.max.ms", "1000");
        for (name, value) in defaults {
            client.set(*name, *value);
        }
        for (name, value) in &self.settings {
            if KEPT.contains(&name.as_ref()) {
                let why = format!("the setting {name} is kept by Semel, whose promises rest on it");
                return Err(Error::invalid(why));
            }
            client.set(name.as_ref(), value.as_ref());
        }
        client.set("bootstrap.servers", self.brokers.as_ref());
        for (name, value) in kept {
            client.set(*name, *value);
        }
        Ok(client)
    }
}

impl fmt::Debug for KafkaConfig {
    /// Shows the names of settings and no value: some are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.settings.iter().map(|(name, _)| name).collect();
        f.debug_struct("KafkaConfig")
            .field("brokers", &self.brokers)
            .field("settings", &names)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_promise_rests_on_cannot_be_set() {
        for name in KEPT {
            let config = KafkaConfig::new("a:1").set(*name, "1");
            let error = config.client(&[], &[]).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn what_this_build_of_librdkafka_cannot_do_is_told() {
        assert!(KafkaConfig::new("a:1").set("compression.type", "lz4").check().is_ok());
        for (name, value) in [("nosuch", "1"), ("message.max.bytes", "abc"), ("acks", "all")] {
            let error = KafkaConfig::new("a:1").set(name, value).check().unwrap_err().to_string();
            assert!(error.contains(&format!("the setting {name}")), "{error}");
        }
    }

    #[test]
    fn the_user_outranks_the_defaults_and_what_is_kept_outranks_both() {
        let config = KafkaConfig::new("a:1").set("linger.ms", "7").set("sasl.password", "secret");
        let client = config.client(&[("linger.ms", "1")], &[("acks", "all")]).unwrap();
        assert_eq!((client.get("linger.ms"), client.get("acks")), (Some("7"), Some("all")));
        assert!(!format!("{config:?}").contains("secret"));
    }
}
