//! The claim: what is asked in one statement, and what its answer means.

use std::fmt::Write;

use semel::{
    Call, Fence, Record, Reference, Refusal, State, StoreError, Timestamp, Token,
    decide::{self, Ask, Decision},
    outcome::Pointer,
    store::claims_within_bounds,
};

use super::{Inner, Prepared, Transact, held::Held, source::First, tx::Text};
use crate::{
    error::{Fault, damaged, invalid},
    row,
    value::{Cells, Value},
};

/// What one claim asks.
pub(crate) struct Asked<'a> {
    call: &'a Call,
    ask: Ask,
    lock: i64,
    /// The mark of the lock, and where in it the token begins.
    mark: String,
    token_at: usize,
    idle_ms: i64,
    /// The lock of the business reference, if the call names one.
    reference_lock: i64,
}

/// What the claim's statement said.
pub(super) enum Decided {
    /// The lease was renewed in the future: to be rewritten to now.
    Rewind(Record, Refusal),
    /// The holder is lost: to be written down as unknown.
    Lose(Record, Refusal),
    Refused(Refusal),
    Replay(Box<Record>),
    Run(Box<Held>),
}

/// How the claim's statement fared with the lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Lock {
    Busy,
    Finished,
    Held,
    Taken,
}

impl Lock {
    fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "busy" => Self::Busy,
            "finished" => Self::Finished,
            "held" => Self::Held,
            "taken" => Self::Taken,
            _ => return None,
        })
    }
}

/// Where the record's columns begin in the answer.
const RECORD: usize = 4;
/// Where the reference's columns begin, after those of the record.
const REFERENCE: usize = RECORD + row::OUTCOME + 1;

impl<'a> Asked<'a> {
    pub(super) fn new(
        transact: &Transact,
        call: &'a Call,
        token: Token,
    ) -> Result<Self, StoreError> {
        call.policy
            .check()
            .map_err(|error| invalid("the policy cannot be used").with_source(error))?;
        let ask = call.ask(token);
        claims_within_bounds(std::slice::from_ref(&ask))?;
        let lock = transact.inner.secret.lock_of(&call.id);
        let mut mark = format!(" {lock}:");
        let token_at = mark.len();
        for byte in token.as_bytes() {
            write!(mark, "{byte:02x}").expect("a string can be written to");
        }
        let idle_ms = i64::try_from(transact.inner.idle_timeout.as_millis()).unwrap_or(i64::MAX);
        let reference = call.reference.as_ref();
        let lock_of =
            |name: &Reference| transact.inner.secret.lock_of_reference(&call.id, name.as_str());
        let reference_lock = reference.map(lock_of).unwrap_or_default();
        Ok(Self { call, ask, lock, mark, token_at, idle_ms, reference_lock })
    }

    /// The mark that a granted claim leaves in the transaction.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// Decides by the answer. What the record alone answers is answered whatever became of the lock.
    pub(super) fn decide(mut self, answer: &impl Cells) -> Result<(Lock, Decided), Fault> {
        let lock = answer.text(0)?.and_then(Lock::from_word).ok_or_else(no_answer)?;
        let floor = Fence::new(row::count(answer, 2)?.unwrap_or_default());
        let now = row::instant(answer, 3)?;
        let seen = match answer.text(RECORD)? {
            Some(_) => Some(row::record(self.ask.id.clone(), answer, RECORD)?),
            None => None,
        };
        let mut decision = decide::claim(seen.as_ref(), &self.ask, now);
        if let Decision::Refuse(Refusal::Incomparable { plan }) = &decision {
            self.ask.older =
                self.call.by_plan.iter().filter_map(|by_plan| by_plan(*plan)).collect();
            decision = decide::claim(seen.as_ref(), &self.ask, now);
        }
        let decided = match (decision, seen) {
            (Decision::Replay, Some(record)) => Decided::Replay(Box::new(record)),
            (Decision::Refuse(refusal), _) => Decided::Refused(refusal),
            (Decision::Yours | Decision::Stale | Decision::TooLate, _) => {
                return Err(used_before().into());
            }
            // Finished, and forgotten since the lock was thought of: as good as busy.
            (_, seen) if matches!(lock, Lock::Busy | Lock::Finished) => {
                Decided::Refused(busy(seen.as_ref()))
            }
            (Decision::Lose(refusal), Some(record)) => {
                Decided::Lose(decide::lose(&record, now), refusal)
            }
            (Decision::RefuseAndRewind(refusal), Some(record)) => {
                Decided::Rewind(decide::rewind(&record, now), refusal)
            }
            (Decision::Grant(_), _) if lock == Lock::Held => return Err(nested().into()),
            (Decision::Grant(grant), seen) => {
                if let Some(refusal) = used(self.call, answer)? {
                    return Ok((lock, Decided::Refused(refusal)));
                }
                durable(self.call, answer)?;
                let granted = decide::grant(seen.as_ref(), &self.ask, grant, floor, now);
                let seen = seen.map(|record| (record.token, record.fence, record.state));
                Decided::Run(Box::new(Held::new(seen, granted, grant, self.mark, self.call)))
            }
            _ => return Err(no_answer().into()),
        };
        Ok((lock, decided))
    }
}

impl First for Asked<'_> {
    /// The claim's statement, with or without a business reference.
    fn text<'t>(&self, transact: &'t Transact, prepared: Option<&'t Prepared>) -> Text<'t> {
        let Inner { statements, keep, .. } = &*transact.inner;
        let (text, prepared) = match self.call.reference {
            None => (&statements.transact_claim, prepared.map(|prepared| &prepared.claim)),
            Some(_) => (&statements.reference_claim, None),
        };
        Text { text, prepared, keep: *keep }
    }

    /// The parameters of the claim's statement.
    fn values(&self) -> Vec<Value<'_>> {
        let scope = &self.ask.id.scope;
        let (prefix, token) = self.mark.split_at(self.token_at);
        let mut values = vec![
            Value::Text(Some(scope.tenant.as_str())),
            Value::Text(Some(scope.operation.as_str())),
            Value::Text(Some(self.ask.id.key.as_str())),
            Value::Bytes(Some(row::facet(&self.ask.id))),
            Value::Bigint(Some(self.lock)),
            Value::Text(Some(prefix)),
            Value::Text(Some(token)),
            Value::Bigint(Some(self.idle_ms)),
        ];
        if let Some(reference) = &self.call.reference {
            values.push(Value::Text(Some(reference.as_str())));
            values.push(Value::Bigint(Some(self.reference_lock)));
        }
        values
    }
}

/// What became of the business reference, if the call names one.
fn used(call: &Call, answer: &impl Cells) -> Result<Option<Refusal>, Fault> {
    if call.reference.is_none() {
        return Ok(None);
    }
    match answer.text(REFERENCE)? {
        Some("free") => Ok(None),
        Some("busy") => Ok(Some(busy(None))),
        Some("used") => {
            let kind = answer.text(REFERENCE + 1)?;
            let pointer = kind.zip(answer.text(REFERENCE + 2)?);
            let pointer = pointer.map(|(kind, id)| Pointer { kind: kind.into(), id: id.into() });
            let used_at = row::count(answer, REFERENCE + 3)?.map(Timestamp::from_micros);
            Ok(Some(Refusal::ReferenceExists { pointer, used_at }))
        }
        _ => Err(no_answer().into()),
    }
}

/// Another transaction has the lock. It may hold this intent, or another one that shares the lock.
fn busy(seen: Option<&Record>) -> Refusal {
    let held = seen.filter(|record| record.state == State::Running);
    Refusal::InProgress {
        claimed_at: held.map(|record| record.claimed_at),
        lease_left: std::time::Duration::ZERO,
        claimed_by: held.and_then(|record| record.claimed_by.clone()),
    }
}

fn durable(call: &Call, answer: &impl Cells) -> Result<(), Fault> {
    let volatile = matches!(answer.text(1)?, Some("off"));
    if call.policy.durable && volatile {
        return Err(invalid(
            "the transaction may lose what it commits; leave synchronous_commit on, or say that the \
             operation need not be durable",
        )
        .into());
    }
    Ok(())
}

fn nested() -> StoreError {
    invalid("this transaction holds the intent already; complete it before claiming it again")
}

fn used_before() -> StoreError {
    invalid("the token of this claim was used before; draw a new one")
}

pub(super) fn no_answer() -> StoreError {
    damaged("the schema did not answer a claim; check the table meta")
}
