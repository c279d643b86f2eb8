//! The plan: what to ask of an API, how its effects are counted, and what it documents.
//!
//! In every text of a plan `{{intent}}` stands for the name of the intent, fresh for each one: what
//! the API writes down, and by what the effects are counted. `{{key}}` stands for its key, `{{id}}`
//! for what the first answer named at `resource.id`, and `{{env:NAME}}` for a variable of the
//! environment, so that no secret stands in the file.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;

/// A drill of one operation of one API.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What is drilled, for the report.
    pub name: String,
    /// Where the API listens, such as `http://127.0.0.1:8080`; the command line wins.
    pub target: Option<String>,
    /// Whose documented answers are expected where `[answers]` does not say.
    #[serde(default)]
    pub contract: Contract,
    /// How the key is sent.
    #[serde(default)]
    pub key: KeySpec,
    /// The operation.
    pub request: RequestSpec,
    /// Bodies that a retry must not be taken for, or must be taken for.
    #[serde(default)]
    pub variants: Variants,
    /// Another operation that takes a key.
    pub other: Option<RequestSpec>,
    /// Another caller.
    pub tenant: Option<TenantSpec>,
    /// How effects are counted.
    pub effects: EffectsSpec,
    /// What the operation makes, and how it is changed or deleted afterwards.
    pub resource: Option<ResourceSpec>,
    /// How long a key is remembered.
    #[serde(default)]
    pub lifetime: LifetimeSpec,
    /// How the API is started and killed.
    pub process: Option<ProcessSpec>,
    /// What the API documents, where it differs from the contract.
    #[serde(default)]
    pub answers: AnswersSpec,
    /// Bounds of the drill.
    #[serde(default)]
    pub bounds: Bounds,
}

/// A published contract.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Contract {
    /// draft-ietf-httpapi-idempotency-key-header-07: 422 for other content, 409 while it runs, 400
    /// without a key.
    #[default]
    Ietf,
    /// Stripe's v1 API: 400 for other content and other operations, 409 while it runs.
    Stripe,
    /// Semel's gateway and layer.
    Semel,
}

/// How the key is sent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeySpec {
    /// The header; `Idempotency-Key` unless said.
    pub header: Option<String>,
    /// What a key looks like.
    pub style: KeyStyle,
    /// The longest key that is documented, in characters.
    pub max_length: Option<usize>,
    /// Whether a request without a key is documented to be refused.
    pub required: Option<bool>,
}

/// What a key looks like.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum KeyStyle {
    /// A random UUID, version 4.
    #[default]
    Uuid,
    /// A random UUID in double quotes, as a structured field's string.
    Quoted,
}

/// A request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    /// The method; `POST` unless said.
    #[serde(default = "post")]
    pub method: String,
    /// The target's path with its query.
    pub path: String,
    /// Headers beside the key; `content-type: application/json` unless one is said.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body.
    #[serde(default)]
    pub body: String,
}

fn post() -> String {
    "POST".to_owned()
}

/// Other bodies of the operation; each may name `{{intent}}` too.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Variants {
    /// Another command: a key with this body is a mismatch.
    pub changed: Option<String>,
    /// Two bodies whose numbers differ only beyond what a double can tell apart.
    pub twins: Option<[String; 2]>,
    /// The same command in other bytes; made from a JSON body unless said: members turned round, and
    /// white space.
    pub reformatted: Option<String>,
    /// A body that makes the operation take long, so that others come meanwhile.
    pub slow: Option<String>,
    /// A body that the operation refuses for good, such as an amount below zero, and that has no
    /// effect.
    pub refused: Option<String>,
}

/// What makes the caller somebody else.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantSpec {
    /// Headers that replace those of the request.
    pub headers: BTreeMap<String, String>,
}

/// How the effects of one intent are counted: by a URL, or by SQL.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectsSpec {
    /// A path of the target, or a whole URL, that answers JSON.
    pub url: Option<String>,
    /// Headers of that request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Where the count stands: a number counts itself, an array or an object its members; nothing
    /// there counts zero.
    #[serde(default)]
    pub pointer: String,
    /// `sqlite:PATH` or `postgres://…`.
    pub database: Option<String>,
    /// A query whose first column of its first row is the count; `$1` is the intent's name.
    pub sql: Option<String>,
}

/// What the operation makes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResourceSpec {
    /// Where the answer names it, as a JSON pointer.
    pub id: String,
    /// Changes it.
    pub change: Option<RequestSpec>,
    /// Deletes it.
    pub delete: Option<RequestSpec>,
}

/// How long a key is remembered.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LifetimeSpec {
    /// After how many seconds the outcome is no longer replayed; a late retry is drilled if the drill
    /// may wait so long.
    pub replay_seconds: Option<u64>,
    /// What a retry after that is documented to meet.
    pub late: Late,
}

/// What a late retry is documented to meet.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Late {
    /// A refusal: the fact is remembered.
    #[default]
    Refused,
    /// A new run: the key is free again.
    Runs,
}

/// The API's process.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessSpec {
    /// The program and its arguments; it must stay in the foreground.
    pub start: Vec<String>,
    /// Where it runs; relative to the plan.
    pub folder: Option<PathBuf>,
    /// A path that answers 2xx once the API is ready.
    pub ready: String,
}

/// What the API documents.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AnswersSpec {
    /// Statuses of a first run.
    pub first: Option<Vec<u16>>,
    /// Statuses for other content under a used key.
    pub mismatch: Option<Vec<u16>>,
    /// Statuses while the first still runs; an API that lets the second wait answers the first's.
    pub in_progress: Option<Vec<u16>>,
    /// Statuses without a key.
    pub missing_key: Option<Vec<u16>>,
    /// Statuses for a key that is no key.
    pub bad_key: Option<Vec<u16>>,
    /// Statuses of a late retry that is refused.
    pub late: Option<Vec<u16>>,
    /// Statuses that say "the same key again, later", beside 429 and 503.
    pub retry: Option<Vec<u16>>,
    /// What the same key names at another operation.
    pub other_operation: Option<Other>,
    /// Whether the same command in other bytes is the same command.
    pub reformatted: Option<Other>,
    /// A header that marks a replay, in lower case, with its value.
    pub replay_header: Option<[String; 2]>,
    /// A JSON pointer, and the value there by which an answer says that nobody can know whether the
    /// intent was done; `/code` and `unknown` under the contract `semel`.
    pub unknown: Option<[String; 2]>,
}

/// How a variation is documented to be taken.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Other {
    /// As another intent, which runs.
    Independent,
    /// As other content under a used key.
    Mismatch,
    /// As the same intent, which is replayed.
    Same,
}

/// Bounds of the drill.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bounds {
    /// How many race with one key.
    pub racers: usize,
    /// Intents of the storm.
    pub storm: usize,
    /// How long one answer may take, in seconds.
    pub answer_seconds: u64,
    /// How long the drill may wait for an expiry or for a lost holder's lease, in seconds.
    pub patience_seconds: u64,
    /// What the chance of the storm and of the kills starts from; drawn afresh unless said.
    pub seed: Option<u64>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { racers: 20, storm: 40, answer_seconds: 30, patience_seconds: 60, seed: None }
    }
}
