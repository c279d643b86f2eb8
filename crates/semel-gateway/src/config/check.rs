//! What single settings cannot say: names that must exist, things that must agree, and what has no
//! safe default.

mod destinations;
mod files;
mod operations;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use semel::wire;

use super::{
    Config, ReplayAuth, StoreUrl, TenantConfig, TenantFrom,
    problem::{ProblemKind, listed, nearest},
    read::{Reading, without_index},
    span::written,
    value::Url,
};

/// The shortest and the longest wait for a client or an upstream.
const WAIT_MIN: Duration = Duration::from_millis(10);
const WAIT_MAX: Duration = Duration::from_secs(86_400);

/// The most waiters and connections that can be asked for.
const COUNT_MAX: u32 = 1_000_000;

/// Notes everything that is wrong with a configuration whose settings were read.
pub(super) fn all(config: &Config, reading: &mut Reading<'_>) {
    let says_of_requests = ["tenant", "replay_auth", "upstream", "operation"];
    let serves = says_of_requests.iter().any(|setting| reading.says(setting));
    // A file for a relay alone says nothing of requests, also if what it says of a relay is wrong.
    let relays = ["destination", "destinations", "relay"].iter().any(|said| reading.says(said));
    if serves || !relays {
        tenant(config, reading);
        replay_auth(config, reading);
        upstreams(config, reading);
    } else if config.destination.is_empty() && !reading.says("destination") {
        let message = "no destination: add [[destination]] with a `name` and a `url`; or say of \
                       [tenant], replay_auth and [[upstream]] what a gateway needs";
        reading.problem(ProblemKind::Missing, "destination", message);
    }
    destinations::all(config, reading);
    store(config, reading);
    bounds(config, reading);
    operations::all(config, reading);
}

/// Notes files and folders that cannot be used.
pub(super) fn environment(config: &Config, reading: &mut Reading<'_>) {
    files::all(config, reading);
}

fn tenant(config: &Config, reading: &mut Reading<'_>) {
    let Some(tenant) = &config.tenant else {
        // A table with a problem of its own was told already.
        if reading.says("tenant") {
            return;
        }
        let message = "no tenant source: say whose keys they are by [tenant] source = \"header\" or \
                       \"api_key\" with its `header`, or source = \"single_tenant\" if all callers \
                       may share one space of keys";
        reading.problem(ProblemKind::Missing, "tenant", message);
        return;
    };
    match (tenant.source, &tenant.header) {
        (TenantFrom::SingleTenant, Some(_)) => {
            let message = "`tenant.header` has no meaning with source = \"single_tenant\"";
            reading.problem(ProblemKind::Conflict, "tenant.header", message);
        }
        (TenantFrom::SingleTenant, None) => {}
        (_, None) => {
            let message = "`tenant.header` is not set: say which header carries the tenant";
            reading.problem(ProblemKind::Missing, "tenant.header", message);
        }
        (TenantFrom::ApiKey | TenantFrom::Header, Some(_)) => {
            tenant_header(config, tenant, reading)
        }
    }
}

fn tenant_header(config: &Config, tenant: &TenantConfig, reading: &mut Reading<'_>) {
    let Some(header) = &tenant.header else {
        return;
    };
    let credentials = header.as_str() == "authorization";
    let message = if header.as_str().starts_with(wire::SEMEL_PREFIX) {
        "`tenant.header` cannot begin with `semel-`: such headers are stripped from every request"
    } else if config.operation.iter().any(|operation| operation.header.0 == *header) {
        "`tenant.header` is the header of the key: the tenant must come from the authenticated caller"
    } else if credentials && tenant.source == TenantFrom::Header {
        "`tenant.header` cannot be `authorization` with source = \"header\": the credential itself \
         would be the tenant's name; use source = \"api_key\", which keeps a digest"
    } else if credentials && !tenant.static_credentials {
        "`tenant.header` is `authorization`: a refreshed credential would be a new tenant and every \
         key a new intent; say static_credentials = true if its value never changes for a caller"
    } else {
        return;
    };
    reading.problem(ProblemKind::Conflict, "tenant.header", message);
}

fn replay_auth(config: &Config, reading: &mut Reading<'_>) {
    match &config.replay_auth {
        Some(ReplayAuth::Ask(_) | ReplayAuth::None) => {}
        // A table with a problem of its own was told already.
        None if reading.says("replay_auth") => {}
        None => {
            let message = "nobody is asked before an answer from the store is sent, and a key is not \
                           permission: set `url` in [replay_auth], or replay_auth = \"none\" if \
                           whoever reaches the gateway as a tenant may see that tenant's answers";
            reading.problem(ProblemKind::Missing, "replay_auth", message);
        }
    }
}

fn upstreams(config: &Config, reading: &mut Reading<'_>) {
    if config.upstream.is_empty() && !reading.says("upstream") {
        let message = "no upstream: add [[upstream]] with a `name` and a `url`";
        reading.problem(ProblemKind::Missing, "upstream", message);
    }
    let mut names = BTreeMap::new();
    let mut prefixes = BTreeMap::new();
    for (index, upstream) in config.upstream.iter().enumerate() {
        let at = |setting: &str| format!("upstream[{index}].{setting}");
        if names.insert(&upstream.name, index).is_some() {
            let message = format!("two upstreams are named \"{}\"", upstream.name);
            reading.problem(ProblemKind::Conflict, &at("name"), message);
        }
        if upstream.name.is_empty() || upstream.name.len() > 64 {
            let message = "`upstream.name` has 1 to 64 bytes";
            reading.problem(ProblemKind::Value, &at("name"), message);
        }
        for prefix in &upstream.prefixes {
            if !prefix.starts_with('/') {
                let message = format!("the prefix \"{prefix}\" does not begin with a slash");
                reading.problem(ProblemKind::Value, &at("prefixes"), message);
            }
            if prefixes.insert(prefix, index).is_some() {
                let message = format!("two upstreams have the prefix \"{prefix}\"");
                reading.problem(ProblemKind::Conflict, &at("prefixes"), message);
            }
        }
        if is_itself(config.listen, &upstream.url) {
            let message = format!(
                "the upstream \"{}\" is the gateway itself: `listen` is {}",
                upstream.name, config.listen
            );
            reading.problem(ProblemKind::Conflict, &at("url"), message);
        }
        count(reading, &at("connections"), upstream.connections);
        for (setting, span) in [
            ("connect_wait", upstream.connect_wait),
            ("answer_wait", upstream.answer_wait),
            ("body_wait", upstream.body_wait),
            ("circuit_for", upstream.circuit_for),
        ] {
            wait(reading, &at(setting), span);
        }
    }
    if let Some(name) = &config.default_upstream {
        known_upstream(config, name, "default_upstream", reading);
    }
}

/// Says whether a URL leads back to the listener, as far as its text tells.
fn is_itself(listen: SocketAddr, url: &Url) -> bool {
    let default = if url.0.scheme_str() == Some("https") { 443 } else { 80 };
    if listen.port() == 0 || url.0.port_u16().unwrap_or(default) != listen.port() {
        return false;
    }
    let host = url.0.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let any = listen.ip().is_unspecified();
    if host.eq_ignore_ascii_case("localhost") {
        return any || listen.ip().is_loopback();
    }
    let ip: Option<IpAddr> = host.parse().ok();
    ip.is_some_and(|ip| ip == listen.ip() || (any && ip.is_loopback()))
}

fn known_upstream(config: &Config, name: &str, path: &str, reading: &mut Reading<'_>) {
    if config.upstream_named(name).is_some() {
        return;
    }
    let names = || config.upstream.iter().map(|upstream| upstream.name.as_str());
    let hint = match nearest(name, names()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("there is {}", listed(names())),
    };
    let message = format!("there is no upstream \"{name}\"; {hint}");
    reading.problem(ProblemKind::Unknown, path, message);
}

fn store(config: &Config, reading: &mut Reading<'_>) {
    match (&config.store, &config.postgres) {
        (StoreUrl::Postgres(url), Some(postgres)) => {
            count(reading, "postgres.connections", postgres.connections);
            if url.has_password() && postgres.password.is_some() {
                let message = "`store` and `postgres.password` both say a password";
                reading.problem(ProblemKind::Conflict, "postgres.password", message);
            }
        }
        (_, Some(postgres)) if postgres.says_something() => {
            let message = format!("[postgres] has no meaning: the store is {}", config.store);
            reading.problem(ProblemKind::Conflict, "postgres", message);
        }
        _ => {}
    }
    match (&config.store, &config.redis) {
        (StoreUrl::Redis(url), Some(redis)) => {
            if url.has_users_password() && redis.password.is_some() {
                let message = "`store` and `redis.password` both say a password";
                reading.problem(ProblemKind::Conflict, "redis.password", message);
            }
            if redis.client_cert.is_some() != redis.client_key.is_some() {
                let message = "`redis.client_cert` and `redis.client_key` are said together";
                reading.problem(ProblemKind::Conflict, "redis", message);
            }
            if redis.wait_for.is_zero() {
                let message = "`redis.wait_for` is 0: no replica would ever be in time";
                reading.problem(ProblemKind::Value, "redis.wait_for", message);
            }
        }
        (_, Some(redis)) if redis.says_something() => {
            let message = format!("[redis] has no meaning: the store is {}", config.store);
            reading.problem(ProblemKind::Conflict, "redis", message);
        }
        _ => {}
    }
    if config.store != StoreUrl::Memory {
        return;
    }
    for (index, operation) in config.operation.iter().enumerate().filter(|(_, o)| o.durable) {
        let message = format!(
            "the operation \"{}\" must be durable, and the store `memory:` forgets everything at the \
             end of the process; use sqlite:PATH, or say durable = false",
            operation.name
        );
        reading.problem(ProblemKind::Conflict, &format!("operation[{index}].durable"), message);
    }
}

fn bounds(config: &Config, reading: &mut Reading<'_>) {
    count(reading, "waiters", config.waiters);
    count(reading, "sweep_records", config.sweep_records);
    if let Some(limits) = &config.limits {
        count(reading, "limits.connections", limits.connections);
        count(reading, "limits.headers", limits.headers);
        for (setting, span) in [
            ("limits.handshake_wait", limits.handshake_wait),
            ("limits.head_wait", limits.head_wait),
            ("limits.body_wait", limits.body_wait),
            ("limits.write_wait", limits.write_wait),
        ] {
            wait(reading, setting, span);
        }
        if !(4_096..=16 << 20).contains(&limits.head.bytes()) {
            let message =
                format!("`limits.head` is {}; it must lie between 4 KiB and 16 MiB", limits.head);
            reading.problem(ProblemKind::Value, "limits.head", message);
        }
    }
    if config.admin == Some(config.listen) && config.listen.port() != 0 {
        let message = "`admin` and `listen` are the same address";
        reading.problem(ProblemKind::Conflict, "admin", message);
    }
    wait(reading, "sweep_every", config.sweep_every);
    if let Some(ReplayAuth::Ask(ask)) = &config.replay_auth {
        wait(reading, "replay_auth.wait", ask.wait);
        wait(reading, "replay_auth.connect_wait", ask.connect_wait);
    }
}

/// A wait of nothing would end everything before it began.
fn wait(reading: &mut Reading<'_>, path: &str, span: Duration) {
    if span < WAIT_MIN || span > WAIT_MAX {
        let (shown, span) = (without_index(path), written(span));
        let (min, max) = (written(WAIT_MIN), written(WAIT_MAX));
        let message = format!("`{shown}` is {span}; it must lie between {min} and {max}");
        reading.problem(ProblemKind::Value, path, message);
    }
}

fn count(reading: &mut Reading<'_>, path: &str, value: u32) {
    if value == 0 || value > COUNT_MAX {
        let shown = without_index(path);
        let message = format!("`{shown}` is {value}; it must lie between 1 and {COUNT_MAX}");
        reading.problem(ProblemKind::Value, path, message);
    }
}
