//! What is expected of an API: its contract, with what the plan says instead.
//!
//! Where the numbers come from: the IETF draft (draft-ietf-httpapi-idempotency-key-header-07, sections
//! 2.1 and 2.7) for `ietf`; Stripe's API reference ("Idempotent requests", "Errors") for `stripe`, and
//! for its 400 on other content an error as it was seen; this repository's `docs/errors` for `semel`.

use std::time::Duration;

use semel::wire;

use super::{AnswersSpec, Contract, KeyStyle, Late, Other, Plan};

/// What is expected of an API, with nothing left open.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Expected {
    /// How the key is sent.
    pub key: KeyRules,
    /// Statuses of a first run.
    pub first: Vec<u16>,
    /// Statuses for other content under a used key.
    pub mismatch: Vec<u16>,
    /// Statuses while the first still runs.
    pub in_progress: Vec<u16>,
    /// Statuses without a key.
    pub missing_key: Vec<u16>,
    /// Statuses for a key that is no key.
    pub bad_key: Vec<u16>,
    /// Statuses of a late retry that is refused.
    pub late: Vec<u16>,
    /// Statuses that say "the same key again, later"; those of `in_progress`, 429 and 503 among them.
    pub retry: Vec<u16>,
    /// How the same key at another operation may be taken; several where the contract leaves it open.
    pub other_operation: Vec<Other>,
    /// How the same command in other bytes may be taken; several where the contract leaves it open.
    pub reformatted: Vec<Other>,
    /// The header that marks a replay, in lower case, with its value; `None` where none is documented.
    pub replay_header: Option<(String, String)>,
    /// A JSON pointer into an answer's body, and the text there by which it says that nobody can know
    /// whether the intent was done; `None` where no such answer is documented.
    pub unknown: Option<(String, String)>,
    /// What may differ from answer to answer: JSON pointers of the body, and names of headers.
    pub volatile: Vec<String>,
    /// After how long an outcome is no longer replayed; `None` where the plan does not say.
    pub replay_for: Option<Duration>,
    /// What a retry after that meets.
    pub late_retry: Late,
}

/// How the key is sent, and what is documented of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyRules {
    /// The header; empty where the plan's texts name the key by themselves, as those of a consumer do.
    pub header: String,
    /// What a key looks like.
    pub style: KeyStyle,
    /// The longest key that is documented, in characters; `None` where no length is.
    pub max_length: Option<usize>,
    /// Whether a request without a key is refused.
    pub required: bool,
}

impl Plan {
    /// Returns what is expected: the contract's answers, and the plan's own where it says some.
    #[must_use]
    pub fn expected(&self) -> Expected {
        let answers = &self.answers;
        let contract = Published::of(self.contract);
        let or =
            |own: &Option<Vec<u16>>, else_: &[u16]| own.clone().unwrap_or_else(|| else_.into());
        let in_progress = or(&answers.in_progress, &[409]);
        Expected {
            key: self.key_rules(&contract),
            first: or(&answers.first, &[200, 201, 202, 204]),
            mismatch: or(&answers.mismatch, contract.mismatch),
            missing_key: or(&answers.missing_key, &[400]),
            bad_key: or(&answers.bad_key, &[400]),
            late: or(&answers.late, contract.late),
            retry: retried(answers, &in_progress),
            in_progress,
            other_operation: taken(answers.other_operation, contract.other_operation),
            reformatted: taken(answers.reformatted, contract.reformatted),
            replay_header: match &answers.replay_header {
                Some([name, value]) => Some((name.to_ascii_lowercase(), value.clone())),
                None => contract.replay_header.map(|(name, value)| (name.into(), value.into())),
            },
            unknown: match &answers.unknown {
                Some([pointer, value]) => Some((pointer.clone(), value.clone())),
                None => contract.unknown.map(|(pointer, value)| (pointer.into(), value.into())),
            },
            volatile: answers.volatile.clone(),
            replay_for: self.lifetime.replay_for,
            late_retry: self.lifetime.late.or(contract.late_retry).unwrap_or(Late::Refused),
        }
    }

    /// Returns the header that carries the key.
    #[must_use]
    pub fn key_header(&self) -> &str {
        self.key.header.as_deref().unwrap_or(wire::IDEMPOTENCY_KEY)
    }

    fn key_rules(&self, contract: &Published) -> KeyRules {
        KeyRules {
            header: self.key_header().to_owned(),
            style: self.key.style.unwrap_or(contract.style),
            max_length: self.key.max_length.or(contract.max_length),
            required: self.key.required.unwrap_or(contract.required),
        }
    }
}

fn retried(answers: &AnswersSpec, in_progress: &[u16]) -> Vec<u16> {
    let own = answers.retry.as_deref().unwrap_or_default();
    let mut all: Vec<u16> = in_progress.iter().chain(own).copied().chain([429, 503]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn taken(own: Option<Other>, published: &[Other]) -> Vec<Other> {
    own.map_or_else(|| published.to_vec(), |own| vec![own])
}

/// What a contract publishes, where contracts differ.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) style: KeyStyle,
    pub(super) max_length: Option<usize>,
    pub(super) required: bool,
    pub(super) mismatch: &'static [u16],
    pub(super) late: &'static [u16],
    /// `None` where the contract has no answer.
    pub(super) late_retry: Option<Late>,
    pub(super) other_operation: &'static [Other],
    pub(super) reformatted: &'static [Other],
    pub(super) replay_header: Option<(&'static str, &'static str)>,
    pub(super) unknown: Option<(&'static str, &'static str)>,
}

impl Published {
    pub(super) const fn of(contract: Contract) -> Self {
        match contract {
            Contract::Ietf => Self::IETF,
            Contract::Semel => Self::SEMEL,
            Contract::Stripe => Self::STRIPE,
        }
    }

    /// The draft has the key as a structured field's string, names no length and no marker, and leaves
    /// to the API what a fingerprint covers and how long a key lives.
    const IETF: Self = Self {
        style: KeyStyle::Quoted,
        max_length: None,
        required: true,
        mismatch: &[422],
        late: &[],
        late_retry: None,
        other_operation: &[Other::Independent, Other::Mismatch],
        reformatted: &[Other::Same, Other::Mismatch],
        replay_header: None,
        unknown: None,
    };

    /// A key is compared with endpoint and parameters; once it is pruned it names a new request.
    const STRIPE: Self = Self {
        style: KeyStyle::Uuid,
        max_length: Some(255),
        required: false,
        mismatch: &[400],
        late: &[],
        late_retry: Some(Late::Runs),
        other_operation: &[Other::Mismatch],
        reformatted: &[Other::Same, Other::Mismatch],
        replay_header: Some((wire::IDEMPOTENT_REPLAYED, "true")),
        unknown: None,
    };

    /// 410 is `forgotten`, 412 is `late`.
    const SEMEL: Self = Self {
        style: KeyStyle::Uuid,
        max_length: Some(255),
        required: true,
        mismatch: &[422],
        late: &[410, 412],
        late_retry: Some(Late::Refused),
        other_operation: &[Other::Independent],
        reformatted: &[Other::Same],
        replay_header: Some((wire::IDEMPOTENT_REPLAYED, "true")),
        unknown: Some(("/code", "unknown")),
    };
}
