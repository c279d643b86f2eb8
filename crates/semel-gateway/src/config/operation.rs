//! The protected operations.

use std::time::Duration;

use http::HeaderName;
use semel::{
    Policy,
    decide::{Compare, OnLost},
    fingerprint::{Plan, PlanError},
    horizon,
};
use semel_http::{
    Away, HeaderRules, InProgress, Keep, KeyForm, KeyRule, Late, Mismatch, Operation, PointerRule,
    ServerError,
};
use toml::{Spanned, de::DeValue};

use super::{
    read::{Reading, refuse, text},
    schema::{Kind, Value, settings, words},
    secret::Secret,
    span::{Horizon, Size},
    value::{KeyHeader, Methods},
};

settings! {
    /// A protected operation.
    pub struct OperationConfig {
        /// Its name, explicit and stable: with the tenant it is the space of its keys. A renamed operation forgets its keys.
        name: semel::Operation,
        /// The methods it answers to.
        method: Methods = ["POST", "PATCH"],
        /// The path, with `{name}` for one segment and `{*rest}` for all that follow.
        path: String,
        /// The upstream it goes to. Without it, where the path goes anyway.
        upstream: Option<String>,
        /// Whether a request without a key is refused or passes through unprotected.
        key: KeyRule = "required",
        /// The header that carries the key.
        header: KeyHeader,
        /// `lenient` takes `abc` and `"abc"` as the same key, `strict` only the quoted form of the standard's draft.
        key_form: KeyForm = "lenient",
        /// Whether keys that look like timestamps, counters, constants, e-mail addresses, card numbers or IBANs are refused.
        key_quality: bool = false,
        /// Whether the path is part of the name of the intent: one key on two paths is then two intents, not a mismatch.
        path_scope: bool = false,
        /// How long a holder may be believed alive without a renewal; it is renewed while the request runs.
        lease: Duration = "30s",
        /// What the next caller meets when a holder was lost: `hold` makes the intent unknown until somebody resolves it, `rerun` sends it again and is safe only if the upstream honours the forwarded key, `reconcile` sends it again marked as a question.
        on_lost: OnLost = "hold",
        /// Whether the upstream completes it in its own transaction, in the store's own database, by the permit in the header `semel-permit`. The record is then read before its answer is believed; `on_lost = "rerun"` is safe for effects inside that transaction.
        bridged: bool = false,
        /// How long an answer is replayed.
        replay_for: Duration = "24h",
        /// How long it is remembered that the intent was done. Never shorter than `replay_for` and every horizon.
        remember_for: Duration = "30d",
        /// How long a caller waits for another one with the same key.
        wait: Duration = "10s",
        /// What a caller meets while another one with the same key runs: it waits, gets 409 at once, or gets 202 and the address to ask.
        in_progress: InProgress = "wait",
        /// What other content under a used key meets: a status, or by explicit choice `"new_intent"` (key and content are the name) or `"replay_first"` (the kept answer, whatever is asked).
        mismatch: Mismatch = 422,
        /// Which answers are kept: every definite one, or only 2xx and 3xx.
        keep: Keep = "definite",
        /// What an answer of 500 and above means: that the effect may have happened, or that it certainly did not.
        server_error: ServerError = "unknown",
        /// What happens when the store cannot be asked: `closed` answers 503 and sends nothing, `open` sends the request unprotected.
        store_away: Away = "closed",
        /// What a retry meets after `remember_for`, when the age of its key can be seen: it is refused, or it runs.
        late: Late = "refuse",
        /// Whether only a durable store may serve it.
        durable: bool = true,
        /// The largest body of a request.
        body_max: Size = "1 MiB",
        /// The largest body of an answer that is kept. A larger one is sent on, and its retry is told where to look.
        outcome_max: Size = "1 MiB",
        /// How long the body of a request may take.
        body_wait: Duration = "30s",
        /// How long the body of an answer may take to be kept; past it, it is sent on and not kept.
        outcome_wait: Duration = "10s",
        /// How long after the end of a lease "not done" may first be said without force. Never shorter than what the upstream may still be doing.
        settle_for: Duration = "60s",
        /// How long a request waits for a store that is away, loads or does not answer, as while another server takes over. Past it, `store_away` decides.
        claim_timeout: Duration = "5s",
        /// How long the end of a request is tried to be stored.
        store_for: Duration = "30s",
        /// JSON Pointers to the values of the body that count. Without any, all do.
        include: Vec<String> = [],
        /// JSON Pointers to values of the body that do not count, such as `["/trace_id"]`.
        exclude: Vec<String> = [],
        /// Headers that count, such as `["if-match"]`.
        include_headers: Vec<String> = [],
        /// Makes fingerprints keyed, so that one of a guessable body tells nothing. At least 16 bytes.
        secret: Option<Secret>,
        /// The name of `secret`; a new secret needs a new name.
        secret_id: String = "1",
        /// Headers of an answer that are kept besides the usual ones.
        keep_headers: Vec<HeaderName> = [],
        /// Headers of an answer that are not kept.
        drop_headers: Vec<HeaderName> = [],
        /// Where an answer names the resource that was made: a kind, and a JSON Pointer into the body or the header `Location`, such as `"payment:/id"` or `"payment:location"`. It is shown when the answer itself is no longer kept.
        pointer: PointerRule,
        /// Whether it moves money: it must then declare its settlement horizon.
        money: bool = false,
        /// For how long the parts around the operation may still deliver an intent.
        horizons: Option<Horizons>,
        /// How fingerprints were made before: kept until `remember_for` has passed since the change.
        old_plan: Vec<OldPlan>,
    }
}

settings! {
    /// For how long the parts around an operation may still deliver an intent: a duration, or the name of a sender whose horizon is known (`github` 3d, `stripe` 3d, `sqs` 14d, `pubsub` 31d, `paypal` 45d).
    pub struct Horizons {
        /// The longest time over which a client retries, its largest back-off included.
        client: Option<Horizon>,
        /// The longest time for which a queue redelivers.
        queue: Option<Horizon>,
        /// The longest time for which a webhook's sender redelivers.
        webhook: Option<Horizon>,
        /// The longest time after which an operator still replays by hand.
        operator: Option<Horizon>,
        /// The longest time until a payment is settled for good.
        settlement: Option<Horizon>,
    }
}

settings! {
    /// How fingerprints were made before a change of `include`, `exclude`, `include_headers` or `secret`.
    pub struct OldPlan {
        /// As it was.
        include: Vec<String> = [],
        /// As it was.
        exclude: Vec<String> = [],
        /// As it was.
        include_headers: Vec<String> = [],
        /// As it was.
        secret: Option<Secret>,
        /// As it was.
        secret_id: String = "1",
    }
}

words! { KeyRule: Required = "required", Optional = "optional" }
words! { KeyForm: Lenient = "lenient", Strict = "strict" }
words! { OnLost: Hold = "hold", Rerun = "rerun", Reconcile = "reconcile" }
words! { InProgress: Wait = "wait", Conflict = "conflict", Accepted = "accepted" }
words! { Keep: Definite = "definite", SuccessOnly = "success_only" }
words! { ServerError: Unknown = "unknown", Retry = "retry" }
words! { Away: Closed = "closed", Open = "open" }
words! { Late: Refuse = "refuse", Run = "run" }

impl Value for Mismatch {
    fn kind() -> Kind {
        Kind::Plain("422, 409, 400, \"new_intent\" or \"replay_first\"")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let status = value.get_ref().as_integer().and_then(|number| number.as_str().parse().ok());
        match (status, value.get_ref().as_str()) {
            (Some(status @ (400 | 409 | 422)), _) => return Some(Self::Status(status)),
            (_, Some("new_intent")) => return Some(Self::NewIntent),
            (_, Some("replay_first")) => return Some(Self::ReplayFirst),
            _ => {}
        }
        refuse(value, path, reading, "422, 409, 400, \"new_intent\" or \"replay_first\"");
        None
    }
}

impl Value for PointerRule {
    fn kind() -> Kind {
        Kind::Plain("kind, and JSON Pointer or \"location\"")
    }

    fn absent() -> Option<Self> {
        Some(Self::Named)
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let must_be = "a kind and a JSON Pointer into the answer's body, such as \"payment:/id\", or a \
                       kind and the word location, such as \"payment:location\"";
        text(value, path, reading, must_be, |text| {
            let (kind, from) = text.split_once(':')?;
            if !(1..=semel::Outcome::POINTER_MAX).contains(&kind.len()) {
                return None;
            }
            match from {
                "location" => Some(Self::Location { kind: kind.into() }),
                pointer if pointer.starts_with('/') => {
                    Some(Self::Body { kind: kind.into(), pointer: pointer.into() })
                }
                _ => None,
            }
        })
    }
}

impl OperationConfig {
    /// Returns what holds for it.
    #[must_use]
    pub fn policy(&self) -> Policy {
        let compare = match self.mismatch {
            Mismatch::ReplayFirst => Compare::ReplayFirst,
            Mismatch::NewIntent | Mismatch::Status(_) => Compare::Strict,
        };
        Policy {
            lease: self.lease,
            on_lost: self.on_lost,
            compare,
            wait: self.wait,
            replay_for: self.replay_for,
            remember_for: self.remember_for,
            settle_for: self.settle_for,
            claim_timeout: self.claim_timeout,
            store_for: self.store_for,
            durable: self.durable,
            horizons: self.horizons(),
        }
    }

    /// Returns the operation that the layer protects. `trusted` says whether its upstream is believed
    /// when it speaks about its effects.
    ///
    /// # Errors
    ///
    /// Fails for a pointer, a header or a secret that cannot be used.
    #[expect(clippy::missing_panics_doc, reason = "the name is one already")]
    pub fn protected(&self, trusted: bool) -> Result<Operation, PlanError> {
        let mut operation = Operation::new(self.name.as_str())
            .expect("the name was parsed when it was read")
            .key(self.key)
            .header(self.header.0.clone())
            .key_form(self.key_form)
            .quality(self.key_quality)
            .policy(self.policy())
            .plan(self.plan()?)
            .scope_path(self.path_scope)
            .mismatch(self.mismatch)
            .in_progress(self.in_progress)
            .keep(self.keep)
            .server_error(self.server_error)
            .when_store_is_away(self.store_away)
            .late(self.late)
            .body_max(self.body_max.bytes())
            .body_timeout(self.body_wait)
            .outcome_max(self.outcome_max.bytes())
            .body_wait(self.outcome_wait)
            .outcome_headers(self.outcome_headers())
            .pointer(self.pointer.clone())
            .trust_effect_header(trusted)
            .bridged(self.bridged);
        for method in &self.method.0 {
            operation = operation.on(method.clone(), self.path.as_str());
        }
        for old in &self.old_plan {
            operation = operation.old_plan(old.plan()?);
        }
        Ok(operation)
    }

    fn outcome_headers(&self) -> HeaderRules {
        let kept = self.keep_headers.iter().fold(HeaderRules::new(), HeaderRules::keep);
        self.drop_headers.iter().fold(kept, HeaderRules::drop)
    }

    /// Returns the plan by which its requests are fingerprinted.
    ///
    /// # Errors
    ///
    /// Fails for a pointer, a header or a secret that cannot be used.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        let secret = self.secret.as_ref().map(|secret| (self.secret_id.as_str(), secret));
        plan(&self.include, &self.exclude, &self.include_headers, secret)
    }

    fn horizons(&self) -> horizon::Horizons {
        let span = |of: fn(&Horizons) -> Option<Horizon>| {
            self.horizons.as_ref().and_then(of).map_or(Duration::ZERO, |horizon| horizon.0)
        };
        horizon::Horizons {
            client: span(|h| h.client),
            queue: span(|h| h.queue),
            webhook: span(|h| h.webhook),
            operator: span(|h| h.operator),
            settlement: span(|h| h.settlement),
            money: self.money,
        }
    }
}

impl OldPlan {
    /// Returns the plan as it was.
    ///
    /// # Errors
    ///
    /// Fails for a pointer, a header or a secret that cannot be used.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        let secret = self.secret.as_ref().map(|secret| (self.secret_id.as_str(), secret));
        plan(&self.include, &self.exclude, &self.include_headers, secret)
    }
}

fn plan(
    include: &[String],
    exclude: &[String],
    headers: &[String],
    secret: Option<(&str, &Secret)>,
) -> Result<Plan, PlanError> {
    let plan = Plan::new().include(include)?.exclude(exclude)?.headers(headers)?;
    match secret {
        Some((id, secret)) => plan.secret(id, secret.expose()),
        None => Ok(plan),
    }
}
