//! What is protected: one operation, and everything that holds for it.
//!
//! The defaults, all in one place; those of [`Policy`] stand there.
//!
//! | setting | default |
//! |---|---|
//! | `key` | required |
//! | `header` | `Idempotency-Key` |
//! | `key_form` | lenient: `"abc"` and `abc` name the same key |
//! | `quality` | off |
//! | `mismatch` | 422 |
//! | `in_progress` | wait (`policy.wait`, 10 s), then 409 |
//! | `keep` | definite |
//! | `server_error` | unknown |
//! | `when_store_is_away` | closed |
//! | `late` | run |
//! | `scope_path` | off |
//! | `bridged` | no |
//! | `body_max` | 1 MiB |
//! | `body_timeout` | 30 s |
//! | `outcome_max` | 1 MiB |
//! | `body_wait` | 10 s |

use std::{sync::Arc, time::Duration};

use http::{HeaderName, Method};
use semel::{
    NameError, Policy,
    decide::Compare,
    fingerprint::{Plan, PlanError, Plans},
    wire,
};

use crate::{
    capture::{HeaderRules, PointerRule},
    route::RouteError,
};

const MIB: usize = 1 << 20;

/// Whether a request must carry a key.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum KeyRule {
    /// A request without a key passes untouched and unprotected.
    Optional,
    /// A request without a key is refused.
    #[default]
    Required,
}

/// How a key may be written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum KeyForm {
    /// A quoted string and a bare value name the same key.
    #[default]
    Lenient,
    /// Only a quoted string (RFC 9651) is a key, as the IETF draft says.
    Strict,
}

/// What a used key with other content meets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mismatch {
    /// Key and content together are the identity: other content is another intent.
    NewIntent,
    /// What was kept under the key is replayed, whatever the content.
    ReplayFirst,
    /// A refusal with this status: 400, 409 or 422.
    Status(u16),
}

impl Default for Mismatch {
    fn default() -> Self {
        Self::Status(422)
    }
}

/// What a repeat meets while the first request runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum InProgress {
    /// 202 at once, with the address to ask and `Retry-After`.
    Accepted,
    /// 409 at once, with `Retry-After`.
    Conflict,
    /// It waits for `policy.wait`, and gets the answer or then 409.
    #[default]
    Wait,
}

/// Which answers are kept and replayed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Keep {
    /// Successes, and failures that are final.
    #[default]
    Definite,
    /// Successes alone; after a final failure the intent may be tried again.
    SuccessOnly,
}

/// What a server error (5xx) or a panic of the handler says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ServerError {
    /// The handler rolls back whatever it did before it answers so: the intent may be tried again.
    Retry,
    /// The effect may have happened.
    #[default]
    Unknown,
}

/// What happens while the store cannot be asked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Away {
    /// 503, and nothing runs.
    #[default]
    Closed,
    /// The request runs without protection, and is counted as such.
    Open,
}

/// What a retry meets whose key tells a time before everything that is still remembered.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Late {
    /// It is refused: nobody remembers whether it was done.
    Refuse,
    /// It runs.
    #[default]
    Run,
}

/// One protected operation.
///
/// ```
/// use http::Method;
/// use semel_http::{KeyRule, Operation, Operations};
///
/// let capture = Operation::new("payments.capture")?
///     .on(Method::POST, "/payments/{id}/capture")
///     .key(KeyRule::Required);
/// let operations = Operations::new([capture])?;
/// assert!(operations.find(&Method::POST, "/payments/7/capture").is_some());
/// assert!(operations.find(&Method::GET, "/payments/7/capture").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Operation {
    pub(crate) name: semel::Operation,
    pub(crate) routes: Vec<(Method, String)>,
    pub(crate) key: KeyRule,
    pub(crate) header: HeaderName,
    pub(crate) key_form: KeyForm,
    pub(crate) quality: bool,
    pub(crate) policy: Arc<Policy>,
    pub(crate) plans: Plans,
    pub(crate) old_plans: Vec<Plan>,
    pub(crate) scope_path: bool,
    pub(crate) mismatch: Mismatch,
    pub(crate) in_progress: InProgress,
    pub(crate) keep: Keep,
    pub(crate) server_error: ServerError,
    pub(crate) away: Away,
    pub(crate) late: Late,
    pub(crate) body_max: usize,
    pub(crate) body_timeout: Duration,
    pub(crate) outcome_max: usize,
    pub(crate) body_wait: Duration,
    pub(crate) outcome_headers: HeaderRules,
    pub(crate) pointer: PointerRule,
    pub(crate) trust_effect_header: bool,
    pub(crate) bridged: bool,
}

impl Operation {
    /// Begins an operation. Its name is explicit and survives renames and deploys.
    ///
    /// # Errors
    ///
    /// Refuses what is not the name of an operation.
    pub fn new(name: impl AsRef<str>) -> Result<Self, NameError> {
        Ok(Self {
            name: semel::Operation::new(name)?,
            routes: Vec::new(),
            key: KeyRule::default(),
            header: HeaderName::from_static(wire::IDEMPOTENCY_KEY),
            key_form: KeyForm::default(),
            quality: false,
            policy: Arc::new(Policy::default()),
            plans: Plans::new(Plan::new()),
            old_plans: Vec::new(),
            scope_path: false,
            mismatch: Mismatch::default(),
            in_progress: InProgress::default(),
            keep: Keep::default(),
            server_error: ServerError::default(),
            away: Away::default(),
            late: Late::default(),
            body_max: MIB,
            body_timeout: Duration::from_secs(30),
            outcome_max: MIB,
            body_wait: Duration::from_secs(10),
            outcome_headers: HeaderRules::default(),
            pointer: PointerRule::default(),
            trust_effect_header: true,
            bridged: false,
        })
    }

    /// Adds a method and a path template: `{name}` stands for one segment, `{*rest}` at the end for
    /// the rest. An operation may have several.
    pub fn on(mut self, method: Method, template: impl Into<String>) -> Self {
        self.routes.push((method, template.into()));
        self
    }

    /// Says whether a request must carry a key.
    pub const fn key(mut self, rule: KeyRule) -> Self {
        self.key = rule;
        self
    }

    /// Sets the header that carries the key.
    pub fn header(mut self, name: HeaderName) -> Self {
        self.header = name;
        self
    }

    /// Says how a key may be written.
    pub const fn key_form(mut self, form: KeyForm) -> Self {
        self.key_form = form;
        self
    }

    /// Refuses keys that are easily used twice or that tell secrets: timestamps, counters, constants,
    /// e-mail addresses, card numbers, IBANs.
    pub const fn quality(mut self, on: bool) -> Self {
        self.quality = on;
        self
    }

    /// Sets leases, retention and what is done about a lost holder. `policy.compare` follows from
    /// [`mismatch`](Self::mismatch) and is set by it.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Arc::new(policy);
        self.with_compare()
    }

    /// Sets what counts in a fingerprint.
    pub fn plan(mut self, plan: Plan) -> Self {
        self.plans = Plans::new(plan);
        self
    }

    /// Keeps a plan of an earlier deploy, so that a retry across the deploy can be compared.
    pub fn old_plan(mut self, plan: Plan) -> Self {
        self.old_plans.push(plan);
        self
    }

    /// Makes the path part of an intent's identity: one key on two paths means two intents.
    pub const fn scope_path(mut self, on: bool) -> Self {
        self.scope_path = on;
        self
    }

    /// Says what a used key with other content meets.
    pub fn mismatch(mut self, mismatch: Mismatch) -> Self {
        self.mismatch = mismatch;
        self.with_compare()
    }

    /// Says what a repeat meets while the first request runs.
    pub const fn in_progress(mut self, mode: InProgress) -> Self {
        self.in_progress = mode;
        self
    }

    /// Says which answers are kept.
    pub const fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Says what a server error means.
    pub const fn server_error(mut self, means: ServerError) -> Self {
        self.server_error = means;
        self
    }

    /// Says what happens while the store cannot be asked.
    pub const fn when_store_is_away(mut self, away: Away) -> Self {
        self.away = away;
        self
    }

    /// Says what a retry meets that comes after everything was forgotten. Keys that are UUIDs of
    /// version 7, and the header `Repeatability-First-Sent`, tell when an intent was first sent.
    pub const fn late(mut self, late: Late) -> Self {
        self.late = late;
        self
    }

    /// Sets the largest request body, in bytes; the decoded body may not be larger either.
    pub const fn body_max(mut self, bytes: usize) -> Self {
        self.body_max = bytes;
        self
    }

    /// Sets how long a request body may take to arrive.
    pub const fn body_timeout(mut self, span: Duration) -> Self {
        self.body_timeout = span;
        self
    }

    /// Sets the largest answer that is kept, in bytes. A larger one is sent, but not kept.
    pub const fn outcome_max(mut self, bytes: usize) -> Self {
        self.outcome_max = bytes;
        self
    }

    /// Sets how long an answer may take from its head to its end to be kept.
    pub const fn body_wait(mut self, span: Duration) -> Self {
        self.body_wait = span;
        self
    }

    /// Says which headers of an answer are kept.
    pub fn outcome_headers(mut self, rules: HeaderRules) -> Self {
        self.outcome_headers = rules;
        self
    }

    /// Says where the pointer to the resource comes from.
    pub fn pointer(mut self, rule: PointerRule) -> Self {
        self.pointer = rule;
        self
    }

    /// Says whether the response header `Semel-Effect` is believed; the default is yes. Say no for an
    /// upstream that is not trusted to speak about its effects.
    pub const fn trust_effect_header(mut self, on: bool) -> Self {
        self.trust_effect_header = on;
        self
    }

    /// Says whether the handler, or the application behind it, ends the run by itself, in its own
    /// transaction, by the permit it is given; the default is no. Its record is then read before
    /// anything is said of the answer, and [`keep`](Self::keep) and
    /// [`server_error`](Self::server_error) mean nothing: see [`classify`](crate::classify).
    pub const fn bridged(mut self, on: bool) -> Self {
        self.bridged = on;
        self
    }

    /// Says whether it is bridged.
    #[must_use]
    pub const fn is_bridged(&self) -> bool {
        self.bridged
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(&self) -> &semel::Operation {
        &self.name
    }

    /// Returns the policy.
    #[must_use]
    pub fn policy_ref(&self) -> &Policy {
        &self.policy
    }

    /// Returns the header that carries the key.
    #[must_use]
    pub const fn header_ref(&self) -> &HeaderName {
        &self.header
    }

    /// Returns the methods and path templates.
    #[must_use]
    pub fn routes(&self) -> &[(Method, String)] {
        &self.routes
    }

    /// Puts the old plans behind the current one.
    pub(crate) fn with_plans(mut self) -> Result<Self, PlanError> {
        for old in self.old_plans.clone() {
            self.plans = self.plans.with_old(old)?;
        }
        Ok(self)
    }

    fn with_compare(mut self) -> Self {
        let compare = match self.mismatch {
            Mismatch::ReplayFirst => Compare::ReplayFirst,
            Mismatch::NewIntent | Mismatch::Status(_) => Compare::Strict,
        };
        if self.policy.compare != compare {
            Arc::make_mut(&mut self.policy).compare = compare;
        }
        self
    }
}

impl Operation {
    /// Checks every setting but the policy, which the layer checks together with the store.
    pub(crate) fn checked(mut self) -> Result<Self, RouteError> {
        let name = self.name.clone();
        let setting = |what| RouteError::Setting { name: name.clone(), what };
        if self.routes.is_empty() {
            return Err(RouteError::Nowhere { name });
        }
        if let Mismatch::Status(status) = self.mismatch
            && ![400, 409, 422].contains(&status)
        {
            return Err(setting("a mismatch has the status 400, 409 or 422"));
        }
        if self.outcome_max > semel::Outcome::BODY_MAX {
            return Err(setting("outcome_max is larger than what any store keeps"));
        }
        if self.bridged && self.away == Away::Open {
            return Err(setting("a bridged operation never runs without a permit"));
        }
        if self.in_progress != InProgress::Wait && !self.policy.wait.is_zero() {
            Arc::make_mut(&mut self.policy).wait = Duration::ZERO;
        }
        self.outcome_headers
            .check()
            .map_err(|source| RouteError::Headers { name: name.clone(), source })?;
        self.with_plans().map_err(|source| RouteError::Plan { name, source })
    }
}
