//! The lines of an export, as they are written and read.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use semel::{
    Fence, Fingerprint, IntentId, Key, Lease, Operation, Permit, Record, Scope, State, Tenant,
    Timestamp, Token, codec,
    fingerprint::PlanId,
    outcome::Pointer,
    store::capability::{AuditKind, AuditRow},
};
use serde::{Deserialize, Serialize};

use super::Tally;
use crate::cli::show::{hex, instant, unhex};

/// The version of the format. What was once written is read for ever: the golden file beside the tests is
/// never edited.
pub(super) const VERSION: u32 = 1;

/// The first line: what this is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    /// The version of the format; its name says what kind of file this is.
    pub(super) semel_records: u32,
    /// The version of semel that wrote it.
    pub(super) semel: String,
    /// The kind of store that it came from.
    pub(super) store: String,
    /// When, by that store's clock, for people.
    pub(super) at: String,
    /// The same in microseconds since 1970.
    pub(super) at_us: u64,
    /// How many records it holds, about: for whoever shows how far an import is.
    pub(super) records: u64,
    /// The floor of that store's fences.
    pub(super) floor: u64,
}

/// The part of the first line that every version has.
#[derive(Debug, Deserialize)]
pub(super) struct Peek {
    pub(super) semel_records: u32,
    #[serde(default)]
    pub(super) semel: String,
}

/// Any line behind the first.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Audit(Row),
    End(End),
    Record(Box<Kept>),
}

/// The last line: what must have come before it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    pub(super) records: Tally,
    pub(super) audit: u64,
    /// The digest of every byte before this line.
    pub(super) sha256: String,
}

/// A record. Instants and spans are in microseconds.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    tenant: String,
    operation: String,
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    facet: Option<String>,
    state: String,
    token: String,
    fence: u64,
    plan: String,
    digest: String,
    renewed_at_us: u64,
    lease_us: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    takeovers: u32,
    #[serde(default, skip_serializing_if = "is_false")]
    compare: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    incarnation: u32,
    created_at_us: u64,
    claimed_at_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settled_at_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claimed_by: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resolved_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pointer: Option<(Box<str>, Box<str>)>,
    replay_until_us: u64,
    remember_until_us: u64,
    /// The bytes of semel's codec, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_false(truth: &bool) -> bool {
    !*truth
}

/// A row of the audit.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    at_us: u64,
    kind: String,
    tenant: String,
    operation: String,
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    facet: Option<String>,
    actor: Box<str>,
    note: Box<str>,
}

impl Head {
    pub(super) fn new(store: &str, at: Timestamp, records: u64, floor: Fence) -> Self {
        Self {
            semel_records: VERSION,
            semel: env!("CARGO_PKG_VERSION").to_owned(),
            store: store.to_owned(),
            at: instant(at),
            at_us: at.as_micros(),
            records,
            floor: floor.get(),
        }
    }
}

impl Kept {
    pub(super) fn of(record: &Record) -> Self {
        let scope = &record.id.scope;
        Self {
            tenant: scope.tenant.as_str().to_owned(),
            operation: scope.operation.as_str().to_owned(),
            key: record.id.key.as_str().to_owned(),
            facet: record.id.facet.as_ref().map(hex),
            state: record.state.as_str().to_owned(),
            token: hex(record.token.as_bytes()),
            fence: record.fence.get(),
            plan: hex(record.fingerprint.plan().as_bytes()),
            digest: hex(record.fingerprint.digest()),
            renewed_at_us: record.lease.renewed_at.as_micros(),
            lease_us: micros(record.lease.length),
            takeovers: record.takeovers,
            compare: record.compare,
            incarnation: record.incarnation,
            created_at_us: record.created_at.as_micros(),
            claimed_at_us: record.claimed_at.as_micros(),
            settled_at_us: record.settled_at.map(Timestamp::as_micros),
            claimed_by: record.claimed_by.clone(),
            reason: record.reason.clone(),
            resolved_by: record.resolved_by.map(hex),
            pointer: record.pointer.clone().map(|pointer| (pointer.kind, pointer.id)),
            replay_until_us: record.replay_until.as_micros(),
            remember_until_us: record.remember_until.as_micros(),
            outcome: record.outcome.as_ref().map(|outcome| STANDARD.encode(codec::encode(outcome))),
        }
    }

    /// Reads the record; says which part of it cannot be read.
    pub(super) fn record(self) -> Result<Record, &'static str> {
        let id = id(&self.tenant, &self.operation, &self.key, self.facet.as_deref())?;
        let token = Token::from_bytes(unhex(&self.token).ok_or("token")?);
        let permit =
            Permit { id, token, fence: Fence::new(self.fence), incarnation: self.incarnation };
        let outcome = self.outcome.map(|text| STANDARD.decode(text).map_err(|_| "outcome"));
        let outcome = outcome.transpose()?.map(|bytes| codec::decode(&bytes));
        let at = Timestamp::from_micros;
        Ok(Record {
            state: State::from_word(&self.state).ok_or("state")?,
            fingerprint: Fingerprint::new(
                PlanId::new(unhex(&self.plan).ok_or("plan")?),
                unhex(&self.digest).ok_or("digest")?,
            ),
            lease: Lease {
                renewed_at: at(self.renewed_at_us),
                length: Duration::from_micros(self.lease_us),
            },
            takeovers: self.takeovers,
            compare: self.compare,
            created_at: at(self.created_at_us),
            claimed_at: at(self.claimed_at_us),
            settled_at: self.settled_at_us.map(at),
            claimed_by: self.claimed_by,
            reason: self.reason,
            resolved_by: self
                .resolved_by
                .map(|text| unhex(&text).ok_or("resolved_by"))
                .transpose()?,
            outcome: outcome.transpose().map_err(|_| "outcome")?,
            pointer: self.pointer.map(|(kind, id)| Pointer { kind, id }),
            replay_until: at(self.replay_until_us),
            remember_until: at(self.remember_until_us),
            ..Record::held_by(&permit)
        })
    }
}

impl Row {
    pub(super) fn of(row: &AuditRow) -> Self {
        let scope = &row.id.scope;
        Self {
            at_us: row.at.as_micros(),
            kind: row.kind.as_str().to_owned(),
            tenant: scope.tenant.as_str().to_owned(),
            operation: scope.operation.as_str().to_owned(),
            key: row.id.key.as_str().to_owned(),
            facet: row.id.facet.as_ref().map(hex),
            actor: row.actor.clone(),
            note: row.note.clone(),
        }
    }

    /// Reads the row; says which part of it cannot be read.
    pub(super) fn row(self) -> Result<AuditRow, &'static str> {
        Ok(AuditRow {
            id: id(&self.tenant, &self.operation, &self.key, self.facet.as_deref())?,
            at: Timestamp::from_micros(self.at_us),
            kind: AuditKind::from_word(&self.kind).ok_or("kind")?,
            actor: self.actor,
            note: self.note,
        })
    }
}

fn id(
    tenant: &str,
    operation: &str,
    key: &str,
    facet: Option<&str>,
) -> Result<IntentId, &'static str> {
    let tenant = Tenant::new(tenant).map_err(|_| "tenant")?;
    let operation = Operation::new(operation).map_err(|_| "operation")?;
    let id = Scope::new(tenant, operation).intent(Key::new(key).map_err(|_| "key")?);
    match facet {
        None => Ok(id),
        Some(facet) => Ok(id.narrowed(unhex(facet).ok_or("facet")?)),
    }
}

/// A span in whole microseconds, rounded up as every store rounds it.
fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}
