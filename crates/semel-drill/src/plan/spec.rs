//! The settings of a plan, each declared once: its type, its default, its words.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use super::{
    mask::Secrets,
    schema::{table, table_words, words},
};

table! {
    /// A drill of one operation of one API.
    pub struct Plan {
        /// What is drilled, for the report.
        name: String,
        /// Where the API listens, such as `http://127.0.0.1:8080`. `--target` of the command line
        /// wins.
        target: Option<String>,
        /// Whose documented answers are expected where `[answers]` does not say.
        contract: Contract = "ietf",
        /// How the key is sent.
        key: KeySpec,
        /// The operation: what is asked once, and must happen once however often it is asked.
        request: RequestSpec,
        /// Other bodies of the operation. Each names `{{intent}}` too.
        variants: Variants,
        /// Another operation that takes a key, for the same key at two operations. Its effects are
        /// counted as those of the first: by `{{intent}}`.
        other: Option<RequestSpec>,
        /// Another caller, for the same key of two callers.
        tenant: Option<TenantSpec>,
        /// How the effects of one intent are counted: by a URL that answers JSON, or by SQL. One of the
        /// two must be set.
        effects: EffectsSpec,
        /// What the operation makes, and how it is changed or deleted afterwards: a replay must be
        /// the first answer all the same.
        resource: Option<ResourceSpec>,
        /// How long a key is remembered.
        lifetime: LifetimeSpec,
        /// How the API is started, so that the drill can kill it and start it again.
        process: Option<ProcessSpec>,
        /// What the API documents, where it differs from its contract.
        answers: AnswersSpec,
        /// Bounds of the drill.
        bounds: Bounds,
    }
    and {
        /// What no output shows.
        secrets: Secrets,
    }
}

words! {
    /// A published contract.
    pub enum Contract {
        /// draft-ietf-httpapi-idempotency-key-header: 422 for other content, 409 while it runs, 400
        /// without a key.
        Ietf = "ietf",
        /// Stripe's v1 API: 400 for other content and for another operation, 409 while it runs.
        Stripe = "stripe",
        /// Semel's gateway and layer: 422 for other content, 409 while it runs, 400 without a key.
        Semel = "semel",
    }
}

table! {
    /// How the key is sent.
    pub struct KeySpec {
        /// The header that carries it; `idempotency-key` unless said.
        header: Option<String>,
        /// What a key looks like: `"uuid"`, a random UUID of version 4, or `"quoted"`, the same in
        /// double quotes, as a structured field's string. Otherwise by the contract.
        style: Option<KeyStyle>,
        /// The longest key that is documented, in characters; 1 to 8192. Otherwise by the contract.
        max_length: Option<usize>,
        /// Whether a request without a key is documented to be refused. Otherwise by the contract.
        required: Option<bool>,
    }
}

words! {
    /// What a key looks like.
    pub enum KeyStyle {
        /// A random UUID, version 4.
        Uuid = "uuid",
        /// A random UUID in double quotes, as a structured field's string.
        Quoted = "quoted",
    }
}

table! {
    /// A request.
    pub struct RequestSpec {
        /// The method.
        method: String = "POST",
        /// The target's path with its query.
        path: String,
        /// Headers beside the key; `content-type: application/json` is sent unless one is said.
        headers: BTreeMap<String, String>,
        /// The body. What names neither here nor in the path the intent could not be counted.
        body: String = "",
    }
}

table! {
    /// Other bodies of the operation. Each names `{{intent}}` too.
    pub struct Variants {
        /// Another command, such as another amount: under a used key it is a mismatch.
        changed: Option<String>,
        /// Two bodies whose numbers differ only beyond what a double can tell apart, such as
        /// 9007199254740993 and 9007199254740992.
        twins: Option<[String; 2]>,
        /// The same command in other bytes. Made from a JSON body unless said: members turned round,
        /// and white space.
        reformatted: Option<String>,
        /// A body that makes the operation take long, so that others come meanwhile.
        slow: Option<String>,
        /// A body that the operation refuses for good, such as an amount below zero, and that has no
        /// effect.
        refused: Option<String>,
    }
}

table! {
    /// Another caller.
    pub struct TenantSpec {
        /// Headers that replace those of the request, such as another token.
        headers: BTreeMap<String, String>,
    }
}

table! {
    /// How the effects of one intent are counted: by a URL that answers JSON, or by SQL.
    pub struct EffectsSpec {
        /// A path of the target, or a whole URL, that answers JSON. The answer 404 counts zero.
        url: Option<String>,
        /// Headers of that request.
        headers: BTreeMap<String, String>,
        /// Where the count stands, as a JSON pointer: a number counts itself, an array or an object
        /// its members; nothing there counts zero. The empty pointer is the whole document.
        pointer: String = "",
        /// Where the SQL is asked: `sqlite:PATH` or `postgres://…`, in either case read only.
        database: Option<String>,
        /// A query whose first column of its first row is the count; no row counts zero. `$1` is the
        /// intent's name, and must stand in it.
        sql: Option<String>,
    }
}

table! {
    /// What the operation makes, and how it is changed or deleted afterwards: a replay must be the
    /// first answer all the same.
    pub struct ResourceSpec {
        /// Where the first answer names it, as a JSON pointer: it is `{{id}}` below.
        id: String = "",
        /// The request that changes it; it is sent with a key of its own.
        change: Option<RequestSpec>,
        /// The request that deletes it; it is sent with a key of its own.
        delete: Option<RequestSpec>,
    }
}

table! {
    /// How long a key is remembered.
    pub struct LifetimeSpec {
        /// After how long the outcome is no longer replayed, up to 366 days. A late retry is drilled
        /// where `bounds.patience` is longer.
        replay_for: Option<Duration>,
        /// What a retry after that is documented to meet: `"refused"`, the fact is remembered, or
        /// `"runs"`, the key is free again. Otherwise by the contract; `ietf` has no answer to that.
        late: Option<Late>,
    }
}

words! {
    /// What a late retry is documented to meet.
    pub enum Late {
        /// A refusal: the fact is remembered.
        Refused = "refused",
        /// A new run: the key is free again.
        Runs = "runs",
    }
}

table! {
    /// How the API is started, so that the drill can kill it and start it again.
    pub struct ProcessSpec {
        /// The program and its arguments; it must stay in the foreground.
        start: Vec<String>,
        /// Where it runs; a relative path starts at the plan's folder, and `"."` is that folder. Unless
        /// said, where the drill runs.
        folder: Option<PathBuf>,
        /// A path that answers 2xx once it is ready.
        ready: String,
    }
}

table! {
    /// What the API documents, where it differs from its contract. Answers of the server itself, 429
    /// and 503, ask for a retry: they are waited out in every rule, as long as `retry-after` says and up
    /// to `bounds.patience` in all.
    pub struct AnswersSpec {
        /// Statuses of a first run.
        first: Option<Vec<u16>>,
        /// Statuses for other content under a used key.
        mismatch: Option<Vec<u16>>,
        /// Statuses while the first still runs. An API that lets the second wait answers as the first
        /// was answered.
        in_progress: Option<Vec<u16>>,
        /// Statuses without a key.
        missing_key: Option<Vec<u16>>,
        /// Statuses for a key that is no key, such as an empty or a far too long one.
        bad_key: Option<Vec<u16>>,
        /// Statuses of a late retry that is refused.
        late: Option<Vec<u16>>,
        /// Statuses that say "the same key again, later", beside those of `in_progress`, 429 and 503.
        retry: Option<Vec<u16>>,
        /// What the same key names at another operation: `"independent"`, another intent, which runs,
        /// `"mismatch"`, a refusal, or `"same"`, which is replayed.
        other_operation: Option<Other>,
        /// How the same command in other bytes is taken: `"same"`, `"mismatch"` or `"independent"`.
        reformatted: Option<Other>,
        /// What may differ from answer to answer: JSON pointers of the body, such as `"/served_at"`,
        /// and names of headers, such as `"etag"`. A retry is held against the first answer by its
        /// status, by the bytes of its body, and by `content-type` (without parameters),
        /// `content-disposition`, `content-encoding`, `content-language`, `etag`, `link` and
        /// `location`; other headers may differ always. Where a pointer is named, bodies are compared
        /// as JSON without what stands there.
        volatile: Vec<String> = [],
        /// A header that marks a replay, with its value.
        replay_header: Option<[String; 2]>,
        /// A JSON pointer into an answer's body, and the text there by which it says that nobody can
        /// know whether the intent was done. `["/code", "unknown"]` under `semel`.
        unknown: Option<[String; 2]>,
    }
}

words! {
    /// How a variation is taken.
    pub enum Other {
        /// As another intent, which runs.
        Independent = "independent",
        /// As other content under a used key, which is refused.
        Mismatch = "mismatch",
        /// As the same intent, which is replayed.
        Same = "same",
    }
}

table! {
    /// Bounds of the drill.
    pub struct Bounds {
        /// How many race with one key; 2 to 500.
        racers: usize = 20,
        /// Intents of the storm; 1 to 5000.
        storm: usize = 40,
        /// How long one answer may take; up to 10 minutes.
        answer_wait: Duration = "30s",
        /// How long the drill may wait for an expiry or for a lost holder's lease; up to 24 hours.
        /// `--patience` of the command line wins.
        patience: Duration = "60s",
        /// What the chance of the storm and of the kills starts from, so that it can be had again.
        /// Drawn afresh unless said; `--seed` of the command line wins.
        seed: Option<u64>,
    }
}
