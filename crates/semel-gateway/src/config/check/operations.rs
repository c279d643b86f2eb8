//! What must hold for the operations: names, paths, upstreams, spans, retention, fingerprints.

use semel::{Policy, PolicyError, fingerprint::Plans, horizon, wire};
use semel_http::{Away, Operation, Operations, RouteError};

use super::{
    super::{
        Config, OperationConfig, StoreUrl, problem::ProblemKind, read::Reading, span::written,
    },
    known_upstream, wait,
};

pub(super) fn all(config: &Config, reading: &mut Reading<'_>) {
    let mut before = Vec::new();
    for (index, operation) in config.operation.iter().enumerate() {
        let one = One { config, operation, index };
        one.path(reading);
        one.protected(&mut before, reading);
        one.upstream(reading);
        one.bridged(reading);
        one.policy(reading);
        one.fingerprint(reading);
        one.sizes(reading);
    }
}

struct One<'c> {
    config: &'c Config,
    operation: &'c OperationConfig,
    index: usize,
}

impl One<'_> {
    fn at(&self, setting: &str) -> String {
        format!("operation[{}].{setting}", self.index)
    }

    /// Notes why the layer would not take the operation beside those before it.
    fn protected(&self, before: &mut Vec<Operation>, reading: &mut Reading<'_>) {
        // Whether the upstream is believed changes nothing here.
        let Ok(operation) = self.operation.protected(false) else {
            return;
        };
        let alone = Operations::new([operation.clone()]);
        let beside = Operations::new(before.iter().cloned().chain([operation.clone()]));
        let Err(error) = alone.and(beside) else {
            before.push(operation);
            return;
        };
        let (setting, message) = self.route_problem(&error);
        reading.problem(ProblemKind::Conflict, &self.at(setting), message);
    }

    fn route_problem(&self, error: &RouteError) -> (&'static str, String) {
        let name = &self.operation.name;
        match error {
            RouteError::Ambiguous { method, first, second } => {
                let of = |o: &&OperationConfig| o.path == *first && o.method.0.contains(method);
                let other = self.config.operation[..self.index].iter().find(of);
                let other = other.map_or(name, |other| &other.name);
                let message = format!(
                    "{method} {second} of \"{name}\" matches paths that {first} of \"{other}\" matches \
                     too, and neither is more exact"
                );
                ("path", message)
            }
            RouteError::Duplicate { name } => {
                ("name", format!("two operations are named \"{name}\""))
            }
            RouteError::Headers { source, .. } => ("keep_headers", source.to_string()),
            RouteError::Setting { .. } if self.operation.store_away == Away::Open => {
                ("store_away", error.to_string())
            }
            RouteError::Setting { .. } => ("outcome_max", error.to_string()),
            RouteError::Template { template, why } => {
                ("path", format!("the path \"{template}\" {why}"))
            }
            other => ("path", other.to_string()),
        }
    }

    /// Other routers write a name as `:id`; here that would be a fixed segment, silently.
    fn path(&self, reading: &mut Reading<'_>) {
        let path = &self.operation.path;
        if path.split('/').any(|segment| segment.starts_with([':', '*'])) {
            let message = format!(
                "the path \"{path}\" names a segment in another router's way: write `{{name}}` for one \
                 segment and `{{*rest}}` for all that follow"
            );
            reading.problem(ProblemKind::Value, &self.at("path"), message);
        } else if let Some(why) = unreachable(path) {
            let message =
                format!("the path \"{path}\" {why}, so the operation would protect nothing");
            reading.problem(ProblemKind::Value, &self.at("path"), message);
        }
    }

    fn upstream(&self, reading: &mut Reading<'_>) {
        match &self.operation.upstream {
            Some(name) => known_upstream(self.config, name, &self.at("upstream"), reading),
            None if self.config.upstream.len() > 1
                && self.config.upstream_of(self.operation).is_none() =>
            {
                let message = format!(
                    "the operation \"{}\" has no upstream: there are several, so say which",
                    self.operation.name
                );
                reading.problem(ProblemKind::Missing, &self.at("upstream"), message);
            }
            None => {}
        }
    }

    /// A bridge needs the application's own database and an upstream that knows what to do with a
    /// permit; the record decides, so that what classifies answers has no meaning.
    fn bridged(&self, reading: &mut Reading<'_>) {
        let name = &self.operation.name;
        if !self.operation.bridged {
            return;
        }
        if !matches!(self.config.store, StoreUrl::Postgres(_)) {
            let message = format!(
                "the operation \"{name}\" is bridged, and the store {} is not the application's own \
                 database; use postgres://USER@HOST/DATABASE",
                self.config.store
            );
            reading.problem(ProblemKind::Conflict, &self.at("bridged"), message);
        }
        if let Some(upstream) = self.config.upstream_of(self.operation).filter(|u| !u.bridged) {
            let message = format!(
                "the operation \"{name}\" is bridged, and its upstream \"{}\" is sent no permits; say \
                 bridged = true there too, if it completes them in the store's own database",
                upstream.name
            );
            reading.problem(ProblemKind::Conflict, &self.at("bridged"), message);
        }
        for setting in ["keep", "server_error"] {
            if reading.says(&self.at(setting)) {
                let message = format!("`operation.{setting}` has no meaning with bridged = true");
                reading.problem(ProblemKind::Conflict, &self.at(setting), message);
            }
        }
    }

    /// Notes every span that cannot be used: each one found is put back to its default, so that the
    /// next one is found too.
    fn policy(&self, reading: &mut Reading<'_>) {
        let mut policy = self.operation.policy();
        for _ in 0..16 {
            let Err(error) = policy.check() else {
                break;
            };
            let (setting, message) = self.policy_problem(&error, reading);
            reading.problem(ProblemKind::Policy, &self.at(setting), message);
            if !put_back(&mut policy, &error) {
                break;
            }
        }
        let Some(upstream) = self.config.upstream_of(self.operation) else {
            return;
        };
        if self.operation.settle_for < upstream.answer_wait {
            let message = format!(
                "`operation.settle_for` is {}, shorter than the {} for which the upstream \"{}\" may \
                 still be working (its `answer_wait`)",
                written(self.operation.settle_for),
                written(upstream.answer_wait),
                upstream.name
            );
            reading.problem(ProblemKind::Policy, &self.at("settle_for"), message);
        }
    }

    fn policy_problem(&self, error: &PolicyError, reading: &Reading<'_>) -> (&'static str, String) {
        let name = &self.operation.name;
        match error {
            PolicyError::Bounds { name: "remember_for", value, .. }
                if *value < self.operation.replay_for
                    && !reading.says(&self.at("remember_for")) =>
            {
                let message = format!(
                    "`operation.replay_for` is {}, longer than `remember_for`, which is {} by default; \
                     raise `remember_for` too",
                    written(self.operation.replay_for),
                    written(*value)
                );
                ("replay_for", message)
            }
            PolicyError::Bounds { name: setting, value, min, max } => {
                let (value, min, max) = (written(*value), written(*min), written(*max));
                let message = format!(
                    "`operation.{setting}` is {value}; it must lie between {min} and {max}"
                );
                (setting, message)
            }
            PolicyError::Settlement => (
                "horizons.settlement",
                format!(
                    "the operation \"{name}\" moves money (money = true) and declares no settlement \
                     horizon: set `settlement` in [operation.horizons] to the longest time until a \
                     payment is settled for good"
                ),
            ),
            PolicyError::TooShort { remember_for, horizon, needed } => (
                "remember_for",
                format!(
                    "`operation.remember_for` is {}, shorter than the {horizon} horizon of {}: a \
                     retry could still come when the operation \"{name}\" is forgotten",
                    written(*remember_for),
                    written(*needed)
                ),
            ),
            other => ("name", format!("the operation \"{name}\" cannot be used: {other}")),
        }
    }

    fn fingerprint(&self, reading: &mut Reading<'_>) {
        let plan = match self.operation.plan() {
            Ok(plan) => plan,
            Err(error) => {
                use semel::fingerprint::PlanError as E;
                let setting = match &error {
                    E::HeaderSyntax { .. } | E::HeaderRefused { .. } => "include_headers",
                    E::SecretId => "secret_id",
                    E::SecretTooShort { .. } => "secret",
                    _ if self.operation.exclude.is_empty() => "include",
                    _ => "exclude",
                };
                let message = format!("`operation.{setting}` cannot be used: {error}");
                reading.problem(ProblemKind::Value, &self.at(setting), message);
                return;
            }
        };
        let mut plans = Plans::new(plan);
        for (index, old) in self.operation.old_plan.iter().enumerate() {
            let kept = plans.clone();
            match old.plan().and_then(|old| kept.with_old(old)) {
                Ok(more) => plans = more,
                Err(error) => {
                    let message = format!("`operation.old_plan` cannot be used: {error}");
                    let path = self.at(&format!("old_plan[{index}]"));
                    reading.problem(ProblemKind::Value, &path, message);
                }
            }
        }
    }

    fn sizes(&self, reading: &mut Reading<'_>) {
        let operation = self.operation;
        if operation.header.0.as_str().starts_with(wire::SEMEL_PREFIX) {
            let message = "`operation.header` cannot begin with `semel-`: such headers are stripped \
                           from every request";
            reading.problem(ProblemKind::Value, &self.at("header"), message);
        }
        for (setting, size) in
            [("body_max", operation.body_max), ("outcome_max", operation.outcome_max)]
        {
            if size > self.config.in_flight {
                let message = format!(
                    "`operation.{setting}` is {size}, more than `in_flight`, which is {}",
                    self.config.in_flight
                );
                reading.problem(ProblemKind::Conflict, &self.at(setting), message);
            }
        }
        for (setting, span) in
            [("body_wait", operation.body_wait), ("outcome_wait", operation.outcome_wait)]
        {
            wait(reading, &self.at(setting), span);
        }
    }
}

/// Says why no request ever reaches a path, if none does.
fn unreachable(path: &str) -> Option<&'static str> {
    if path == "/.semel" || path.starts_with("/.semel/") {
        return Some("lies below /.semel/, which the gateway answers itself");
    }
    let steps = path.split('/').any(|segment| matches!(segment, "." | ".."));
    steps.then_some("has a segment . or .., and every such request is refused")
}

/// Puts the setting that an error names back to its default; `false` if there is none.
fn put_back(policy: &mut Policy, error: &PolicyError) -> bool {
    let default = Policy::default();
    match error {
        PolicyError::Bounds { name: "lease", .. } => policy.lease = default.lease,
        PolicyError::Bounds { name: "wait", .. } => policy.wait = default.wait,
        PolicyError::Bounds { name: "claim_timeout", .. } => {
            policy.claim_timeout = default.claim_timeout;
        }
        PolicyError::Bounds { name: "store_for", .. } => policy.store_for = default.store_for,
        PolicyError::Bounds { name: "settle_for", .. } => policy.settle_for = default.settle_for,
        PolicyError::Bounds { name: "replay_for", .. } => policy.replay_for = default.replay_for,
        PolicyError::Bounds { name: "remember_for", .. } => {
            policy.remember_for = default.remember_for.max(policy.replay_for);
        }
        PolicyError::Settlement => policy.horizons.money = false,
        PolicyError::TooShort { .. } => policy.horizons = horizon::Horizons::default(),
        _ => return false,
    }
    true
}
