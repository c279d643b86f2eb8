//! What is held until the completion writes it.

use std::time::Duration;

use semel::{
    Call, Fence, Outcome, Record, Reference, State, StoreError, Token, codec,
    decide::{self, Finish, FinishKind, Grant, Settle},
    store::finish_within_bounds,
};

use crate::{error::invalid, row, value::Value};

#[derive(Debug)]
pub(crate) struct Held {
    /// The record that the claim saw, if it saw one.
    pub(super) seen: Option<(Token, Fence, State)>,
    pub(super) granted: Record,
    pub(super) grant: Grant,
    mark: String,
    replay_for: Duration,
    remember_for: Duration,
    reference: Option<Reference>,
    reference_for: Option<Duration>,
}

/// The record that a completion writes.
#[derive(Debug)]
pub(super) struct Final {
    held: Box<Held>,
    record: Record,
    outcome: Vec<u8>,
}

impl Held {
    pub(super) fn new(
        seen: Option<(Token, Fence, State)>,
        granted: Record,
        grant: Grant,
        mark: String,
        call: &Call,
    ) -> Self {
        let replay_for = call.policy.replay_for;
        let remember_for = call.policy.remember_for.max(replay_for);
        let (reference, reference_for) = (call.reference.clone(), call.reference_for);
        Self { seen, granted, grant, mark, replay_for, remember_for, reference, reference_for }
    }

    /// Makes what the completion writes. The instants of its end are the server's.
    pub(super) fn finish(
        self: Box<Self>,
        kind: FinishKind,
        outcome: Outcome,
        body_max: usize,
    ) -> Result<Final, StoreError> {
        let outcome = Some(outcome);
        let (replay_for, remember_for) = (self.replay_for, self.remember_for);
        let finish = Finish { kind, outcome, reason: None, replay_for, remember_for };
        finish_within_bounds(&finish, body_max)?;
        let Record { token, fence, claimed_at, .. } = self.granted;
        let settled = decide::complete(Some(&self.granted), token, fence, &finish, claimed_at);
        let (Settle::Write(record), Some(outcome)) = (settled, &finish.outcome) else {
            return Err(invalid("the claim of this transaction cannot be completed"));
        };
        let outcome = codec::encode(outcome);
        Ok(Final { held: self, record: *record, outcome })
    }
}

impl Final {
    /// Whether it replaces a record that the claim saw.
    pub(super) const fn replaces(&self) -> bool {
        self.held.seen.is_some()
    }

    /// The parameters of the statement that keeps the business reference, if one was named: what ended
    /// in failure did not use it.
    pub(super) fn reference(&self) -> Option<[Value<'_>; 8]> {
        let Self { held, record, .. } = self;
        let reference = held.reference.as_ref().filter(|_| record.state == State::Done)?;
        let scope = &record.id.scope;
        let pointer = record.pointer.as_ref();
        Some([
            Value::Text(Some(scope.tenant.as_str())),
            Value::Text(Some(scope.operation.as_str())),
            Value::Text(Some(reference.as_str())),
            Value::Text(Some(record.id.key.as_str())),
            Value::Bytes(Some(row::facet(&record.id))),
            Value::Text(pointer.map(|pointer| &*pointer.kind)),
            Value::Text(pointer.map(|pointer| &*pointer.id)),
            Value::Bigint(held.reference_for.map(row::span)),
        ])
    }

    /// The parameters of the statement that writes it.
    pub(super) fn values(&self) -> Vec<Value<'_>> {
        let Self { held, record, outcome } = self;
        let scope = &record.id.scope;
        let pointer = record.pointer.as_ref();
        let mut values = vec![
            Value::Text(Some(scope.tenant.as_str())),
            Value::Text(Some(scope.operation.as_str())),
            Value::Text(Some(record.id.key.as_str())),
            Value::Bytes(Some(row::facet(&record.id))),
            Value::Text(Some(record.state.as_str())),
            Value::Bytes(Some(record.token.as_bytes())),
            Value::Bigint(Some(row::number(record.fence))),
            Value::Plan(*record.fingerprint.plan().as_bytes()),
            Value::Bytes(Some(record.fingerprint.digest())),
            Value::Bigint(Some(row::micros(record.lease.renewed_at))),
            Value::Bigint(Some(i64::from(record.takeovers))),
            Value::Truth(record.compare),
            Value::Bigint(Some(i64::from(record.incarnation))),
            Value::Bigint(Some(row::micros(record.created_at))),
            Value::Bigint(Some(row::micros(record.claimed_at))),
            Value::Text(record.claimed_by.as_deref()),
            Value::Text(pointer.map(|pointer| &*pointer.kind)),
            Value::Text(pointer.map(|pointer| &*pointer.id)),
            Value::Bigint(Some(row::span(held.replay_for))),
            Value::Bigint(Some(row::span(held.remember_for))),
            Value::Bytes(Some(outcome)),
            Value::Text(Some(&held.mark)),
        ];
        if let Some((token, fence, state)) = &held.seen {
            values.push(Value::Bytes(Some(token.as_bytes())));
            values.push(Value::Bigint(Some(row::number(*fence))));
            values.push(Value::Text(Some(state.as_str())));
        }
        values
    }
}
