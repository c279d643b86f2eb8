//! The protected operations.

use std::time::Duration;

use http::HeaderName;
use semel::{
    Policy,
    decide::{self, Compare},
    fingerprint::{Plan, PlanError},
    horizon,
};
use toml::{Spanned, de::DeValue};

use super::{
    read::{Reading, refuse, text, word},
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
        /// How long the store may take until it is taken to be away.
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
        /// Where an answer names the resource that was made: a kind and a JSON Pointer into the body, such as `"payment:/id"`.
        pointer: Option<PointerFrom>,
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

words! {
    /// Whether a key is demanded.
    pub enum KeyRule {
        /// A request without a key passes through unprotected.
        Optional = "optional",
        /// A request without a key is refused.
        Required = "required",
    }
}

words! {
    /// How a key is written.
    pub enum KeyForm {
        /// Bare or quoted.
        Lenient = "lenient",
        /// Quoted.
        Strict = "strict",
    }
}

words! {
    /// What the next caller meets when a holder was lost.
    pub enum OnLost {
        /// The intent becomes unknown.
        Hold = "hold",
        /// It is sent again, marked as a question.
        Reconcile = "reconcile",
        /// It is sent again.
        Rerun = "rerun",
    }
}

words! {
    /// What a caller meets while another one with the same key runs.
    pub enum InProgress {
        /// 202 and the address to ask.
        Accepted = "accepted",
        /// 409 at once.
        Conflict = "conflict",
        /// It waits.
        Wait = "wait",
    }
}

words! {
    /// Which answers are kept.
    pub enum Keep {
        /// Every definite one.
        Definite = "definite",
        /// Only 2xx and 3xx.
        SuccessOnly = "success_only",
    }
}

words! {
    /// What an answer of 500 and above means.
    pub enum ServerError {
        /// The effect certainly did not happen.
        Retry = "retry",
        /// The effect may have happened.
        Unknown = "unknown",
    }
}

words! {
    /// What happens when the store cannot be asked.
    pub enum Away {
        /// 503, and nothing is sent.
        Closed = "closed",
        /// The request is sent unprotected.
        Open = "open",
    }
}

words! {
    /// What a retry after the end of the memory meets.
    pub enum Late {
        /// It is refused.
        Refuse = "refuse",
        /// It runs.
        Run = "run",
    }
}

/// What other content under a used key meets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mismatch {
    /// Key and content together name the intent.
    NewIntent,
    /// The kept answer.
    ReplayFirst,
    /// A refusal with this status.
    Status(u16),
}

impl Value for Mismatch {
    fn kind() -> Kind {
        Kind::Plain("422, 409, 400, \"new_intent\" or \"replay_first\"")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        if value.get_ref().is_str() {
            let words =
                &[("new_intent", Self::NewIntent), ("replay_first", Self::ReplayFirst)];
            return word(value, path, reading, words);
        }
        let status = value.get_ref().as_integer().and_then(|number| number.as_str().parse().ok());
        if let Some(status @ (400 | 409 | 422)) = status {
            return Some(Self::Status(status));
        }
        refuse(value, path, reading, "422, 409, 400, \"new_intent\" or \"replay_first\"");
        None
    }
}

/// Where an answer names the resource that was made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PointerFrom {
    /// What kind of resource it is.
    pub kind: String,
    /// The JSON Pointer to its id in the body.
    pub at: String,
}

impl Value for PointerFrom {
    fn kind() -> Kind {
        Kind::Plain("kind and JSON Pointer")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let must_be = "a kind and a JSON Pointer into the answer's body, such as \"payment:/id\"";
        text(value, path, reading, must_be, |text| {
            let (kind, at) = text.split_once(':')?;
            let fits = (1..=semel::Outcome::POINTER_MAX).contains(&kind.len());
            (fits && at.starts_with('/')).then(|| Self { kind: kind.into(), at: at.into() })
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
        let on_lost = match self.on_lost {
            OnLost::Hold => decide::OnLost::Hold,
            OnLost::Reconcile => decide::OnLost::Reconcile,
            OnLost::Rerun => decide::OnLost::Rerun,
        };
        Policy {
            lease: self.lease,
            on_lost,
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
