//! Turns a checked configuration into what the gateway runs with.

use http::{HeaderValue, header::AUTHORIZATION, request::Parts};
use semel::outbox::relay::RelayPolicy;
use semel_http::tenant::{
    TenantError, TenantSource, api_key_header, single_tenant, trusted_header,
};

use super::{
    Config, DestinationConfig, DestinationKind, Forwarded, Host, RelayConfig, ReplayAuth,
    TenantConfig, TenantFrom, UpstreamConfig,
};
use crate::settings::{
    self, AdminSettings, AuthSettings, CircuitSettings, DestinationSettings, HostHeader, HttpSink,
    KafkaSink, ListenerLimits, PostgresSettings, Protected, RedisSettings, RelaySettings,
    RelaySource, Settings, Sink, StoreSettings, TlsFiles, UpstreamSettings,
};

impl Config {
    /// Returns what the gateway runs with.
    ///
    /// # Panics
    ///
    /// Never for a configuration that was checked, as every one is that [`Config::load`] returns.
    #[must_use]
    pub fn gateway(&self) -> Settings {
        let tenant = self.tenant.as_ref().expect("a configuration without a tenant is refused");
        let mut settings = with_tenant(self, tenant);
        settings.upstreams = self.upstream.iter().map(|upstream| self.reached(upstream)).collect();
        settings.operations =
            self.operation.iter().map(|operation| self.protected(operation)).collect();
        settings.authorize = match &self.replay_auth {
            Some(ReplayAuth::Ask(ask)) => {
                let mut upstream = UpstreamSettings::new("replay_auth", ask.url.0.clone());
                upstream.connect_wait = ask.connect_wait;
                upstream.ca_file.clone_from(&ask.ca);
                Some(AuthSettings { upstream, wait: ask.wait, without: ask.without.clone() })
            }
            Some(ReplayAuth::None) | None => None,
        };
        settings.tls = self
            .tls
            .as_ref()
            .map(|tls| TlsFiles { certificate: tls.certificate.clone(), key: tls.key.clone() });
        settings.admin = self.admin.map(AdminSettings::new);
        settings.limits = self.listener_limits();
        settings.forwarded = match self.forwarded {
            Forwarded::Append => settings::Forwarded::Append,
            Forwarded::Replace => settings::Forwarded::Replace,
        };
        settings.in_flight_max = self.in_flight.bytes();
        settings.waiters_max = count(self.waiters);
        settings.sweep_every = self.sweep_every;
        settings.sweep_records = self.sweep_records;
        settings.shutdown_wait = self.shutdown_wait;
        settings.relay = self.relaying().filter(|_| self.relay.as_ref().is_none_or(|r| r.serve));
        settings
    }

    /// Returns how events are relayed, if there is anywhere for them to go.
    #[must_use]
    pub fn relaying(&self) -> Option<RelaySettings> {
        if self.destination.is_empty() {
            return None;
        }
        let policy = self.relay.as_ref().map_or_else(RelayPolicy::default, RelayConfig::policy);
        let destinations = self.destination.iter().map(destination).collect();
        let source = self.relay.as_ref().map_or_else(RelaySource::default, |relay| relay.source);
        Some(RelaySettings { destinations, policy, source })
    }

    /// Returns where records live, and how that place is used.
    #[must_use]
    pub fn stored(&self) -> StoreSettings {
        let mut store = StoreSettings::from(self.store.clone());
        if let Some(postgres) = &self.postgres {
            store.postgres = PostgresSettings {
                schema: postgres.schema.clone(),
                password: postgres.password.clone(),
                ca: postgres.ca.clone(),
                connections: count(postgres.connections),
                prepared: postgres.prepared,
                flushed: postgres.flushed,
                listen: postgres.listen,
                migrate: postgres.migrate,
            };
        }
        if let Some(redis) = &self.redis {
            store.redis = RedisSettings {
                prefix: redis.prefix.clone(),
                password: redis.password.clone(),
                ca: redis.ca.clone(),
                client: redis.client_cert.clone().zip(redis.client_key.clone()),
                accept_volatile: redis.accept_volatile,
                stated: redis.stated,
                wait_replicas: redis.wait_replicas,
                wait_flushed: redis.wait_flushed,
                wait_replicas_flushed: redis.wait_replicas_flushed,
                wait_for: redis.wait_for,
            };
        }
        store
    }

    fn protected(&self, operation: &super::OperationConfig) -> Protected {
        let upstream = self.upstream_of(operation);
        let trusted = upstream.is_some_and(|upstream| upstream.trusted);
        Protected {
            operation: operation
                .protected(trusted)
                .expect("a configuration whose plans cannot be made is refused"),
            upstream: upstream.map(|upstream| upstream.name.clone()),
        }
    }

    fn reached(&self, upstream: &UpstreamConfig) -> UpstreamSettings {
        let mut prefixes = upstream.prefixes.clone();
        if self.is_default(upstream) && !prefixes.iter().any(|prefix| prefix == "/") {
            prefixes.push("/".to_owned());
        }
        UpstreamSettings {
            name: upstream.name.clone(),
            url: upstream.url.0.clone(),
            prefixes,
            ca_file: upstream.ca.clone(),
            host: match upstream.host {
                Host::Client => HostHeader::Client,
                Host::Upstream => HostHeader::Upstream,
            },
            trusted: upstream.trusted,
            bridged: upstream.bridged,
            connect_wait: upstream.connect_wait,
            answer_wait: upstream.answer_wait,
            body_wait: upstream.body_wait,
            connections_max: count(upstream.connections),
            idle_max: count(upstream.idle),
            idle_for: upstream.idle_for,
            circuit: CircuitSettings {
                failures: upstream.circuit_failures,
                open_for: upstream.circuit_for,
            },
        }
    }

    fn listener_limits(&self) -> ListenerLimits {
        let Some(limits) = &self.limits else {
            return ListenerLimits::default();
        };
        ListenerLimits {
            connections_max: count(limits.connections),
            handshake_wait: limits.handshake_wait,
            head_wait: limits.head_wait,
            body_wait: limits.body_wait,
            write_wait: limits.write_wait,
            head_max: limits.head.bytes(),
            headers_max: count(limits.headers),
        }
    }
}

fn destination(config: &DestinationConfig) -> DestinationSettings {
    let sink = match (config.kind, &config.url) {
        (DestinationKind::Http, Some(url)) => Sink::Http(HttpSink {
            url: url.expose().clone(),
            authorization: config.authorization.clone(),
            content_type: config.content_type.clone(),
            ca_file: config.ca.clone(),
            connections_max: count(config.connections),
            connect_wait: config.connect_wait,
        }),
        _ => Sink::Kafka(config.kafka()),
    };
    DestinationSettings {
        name: config.name.clone(),
        sink,
        types: config.types.clone(),
        start: config.start,
        publish_wait: config.wait,
    }
}

impl DestinationConfig {
    /// Returns how events are sent to Kafka.
    pub(super) fn kafka(&self) -> KafkaSink {
        let settings = self.librdkafka.0.clone();
        KafkaSink { brokers: self.brokers.clone(), topic: self.topic.clone(), settings }
    }
}

fn with_tenant(config: &Config, tenant: &TenantConfig) -> Settings {
    let store = config.stored();
    match (tenant.source, &tenant.header) {
        (TenantFrom::ApiKey, Some(header)) if *header == AUTHORIZATION => {
            Settings::new(store, static_credential())
        }
        (TenantFrom::ApiKey, Some(header)) => Settings::new(store, api_key_header(header.clone())),
        (TenantFrom::Header, Some(header)) => Settings::new(store, trusted_header(header.clone())),
        _ => Settings::new(store, single_tenant()),
    }
}

/// Makes the tenant of a credential that never changes, and refuses Bearer tokens: a refreshed token
/// would be a new tenant, and every retry under it a second effect.
fn static_credential() -> impl TenantSource {
    let digest = api_key_header(AUTHORIZATION);
    move |parts: &Parts| {
        let bearer = |value: &HeaderValue| {
            value.as_bytes().get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer"))
        };
        if parts.headers.get_all(AUTHORIZATION).iter().any(bearer) {
            let what = "a Bearer token does not say who asks: it changes when it is refreshed";
            return Err(TenantError::Malformed { what });
        }
        digest.tenant(parts)
    }
}

fn count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
