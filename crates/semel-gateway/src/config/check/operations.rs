//! What must hold for the operations: names, paths, upstreams, spans, retention, fingerprints.

use std::{collections::BTreeMap, time::Duration};

use semel::{Outcome, Policy, PolicyError, fingerprint::Plans, horizon, wire};

use super::{
    super::{Config, OperationConfig, problem::ProblemKind, read::Reading, span::written},
    known_upstream,
};

pub(super) fn all(config: &Config, reading: &mut Reading<'_>) {
    let mut names = BTreeMap::new();
    let mut routes = BTreeMap::new();
    for (index, operation) in config.operation.iter().enumerate() {
        let one = One { config, operation, index };
        if names.insert(&operation.name, index).is_some() {
            let message = format!("two operations are named \"{}\"", operation.name);
            reading.problem(ProblemKind::Conflict, &one.at("name"), message);
        }
        if one.path(reading) {
            one.routes(&mut routes, reading);
        }
        one.upstream(reading);
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

    fn path(&self, reading: &mut Reading<'_>) -> bool {
        let Err(why) = template(&self.operation.path) else {
            return true;
        };
        let message = format!("the path \"{}\" {why}", self.operation.path);
        reading.problem(ProblemKind::Value, &self.at("path"), message);
        false
    }

    /// Two operations must not answer to the same method and shape of path.
    fn routes(&self, routes: &mut BTreeMap<(String, String), usize>, reading: &mut Reading<'_>) {
        let shape = shape(&self.operation.path);
        for method in &self.operation.method.0 {
            let route = (method.to_string(), shape.clone());
            let Some(other) = routes.insert(route, self.index).filter(|o| *o != self.index) else {
                continue;
            };
            let other = &self.config.operation[other];
            let message = format!(
                "{method} {} belongs to two operations, \"{}\" and \"{}\"",
                self.operation.path, other.name, self.operation.name
            );
            reading.problem(ProblemKind::Conflict, &self.at("path"), message);
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

    /// Notes every span that cannot be used: each one found is put back to its default, so that the
    /// next one is found too.
    fn policy(&self, reading: &mut Reading<'_>) {
        let mut policy = self.operation.policy();
        for _ in 0..16 {
            let Err(error) = policy.check() else {
                break;
            };
            let (setting, message) = self.policy_problem(&error);
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

    fn policy_problem(&self, error: &PolicyError) -> (&'static str, String) {
        let name = &self.operation.name;
        match error {
            PolicyError::Bounds { name: setting, value, min, max } => {
                let (value, min, max) = (written(*value), written(*min), written(*max));
                let message =
                    format!("`operation.{setting}` is {value}; it must lie between {min} and {max}");
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
                    E::HeaderName { .. } | E::HeaderRefused { .. } => "include_headers",
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
        if operation.outcome_max.bytes() > Outcome::BODY_MAX {
            let message = format!(
                "`operation.outcome_max` is {}; no store keeps more than {} MiB",
                operation.outcome_max,
                Outcome::BODY_MAX >> 20
            );
            reading.problem(ProblemKind::Value, &self.at("outcome_max"), message);
        }
        for (setting, span) in
            [("body_wait", operation.body_wait), ("outcome_wait", operation.outcome_wait)]
        {
            if span < Duration::from_millis(10) {
                let message = format!("`operation.{setting}` must be at least 10ms");
                reading.problem(ProblemKind::Value, &self.at(setting), message);
            }
        }
    }
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

/// Says why a text is no template of a path.
fn template(path: &str) -> Result<(), &'static str> {
    let Some(below) = path.strip_prefix('/') else {
        return Err("does not begin with a slash");
    };
    if path.contains(['?', '#']) {
        return Err("holds a query or a fragment; a template is of the path alone");
    }
    let mut names = Vec::new();
    let segments: Vec<_> = below.split('/').collect();
    for (index, segment) in segments.iter().enumerate() {
        if segment.is_empty() && index + 1 < segments.len() {
            return Err("has an empty segment");
        }
        let Some(inside) = segment.strip_prefix('{') else {
            if segment.contains(['{', '}', '*']) || segment.starts_with(':') {
                return Err("has a segment that is only partly a name: write `{name}` for one \
                            segment and `{*rest}` for all that follow");
            }
            continue;
        };
        let Some(name) = inside.strip_suffix('}') else {
            return Err("has a name without its closing brace");
        };
        let (rest, name) = name.strip_prefix('*').map_or((false, name), |name| (true, name));
        if rest && index + 1 < segments.len() {
            return Err("has a `{*rest}` that is not its end");
        }
        if name.is_empty() || name.contains(['{', '}', '*']) {
            return Err("has a segment without a name in its braces");
        }
        if names.contains(&name) {
            return Err("names two segments alike");
        }
        names.push(name);
    }
    Ok(())
}

/// The path with the names of its segments taken out: two templates of one shape match the same.
fn shape(path: &str) -> String {
    let blank = |segment: &str| match segment {
        rest if rest.starts_with("{*") => "{*}".to_owned(),
        name if name.starts_with('{') => "{}".to_owned(),
        fixed => fixed.to_owned(),
    };
    path.split('/').map(blank).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_read_as_the_router_reads_them() {
        for good in ["/", "/a", "/a/{id}", "/a/{id}/b", "/a/{*rest}", "/a/"] {
            assert_eq!(template(good), Ok(()), "{good}");
        }
        let bad = ["", "a", "//", "/a//b", "/a/:id", "/a/x{id}", "/{*a}/b", "/{}", "/{a}/{a}", "/{a"];
        for bad in bad {
            assert!(template(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_do_not_make_a_shape() {
        assert_eq!(shape("/a/{id}/b"), shape("/a/{name}/b"));
        assert_ne!(shape("/a/{id}"), shape("/a/{*id}"));
    }
}
