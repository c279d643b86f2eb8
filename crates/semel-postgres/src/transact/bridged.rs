//! Ending a run that somebody else holds, by its permit, inside the caller's own transaction: the
//! application behind a bridged gateway.

use semel::{
    Outcome, Policy, Scope, StoreError, codec,
    decide::{Finish, FinishKind},
    store::finish_within_bounds,
};

use super::{Transact, Tx};
use crate::{row, value::Value};

impl Transact {
    /// Completes a run by the permit that a gateway handed on in the header `semel-permit`, inside `tx`,
    /// and gives the transaction back, to be committed. Of `policy` only the retention counts.
    ///
    /// `tx` is the whole transaction of the effect and no savepoint in it: a permit that has ended
    /// must take the effect along.
    ///
    /// # Errors
    ///
    /// Fails, and rolls `tx` back, if the permit has ended, cannot be read, or is of another tenant or
    /// operation than `scope`; if the outcome breaks a bound; and if the server cannot be asked. An
    /// error of kind `Busy` says that another transaction is at work: begin a new one and do the
    /// same again.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, `tx` is rolled back.
    pub async fn complete_bridged<T: Tx>(
        &self,
        tx: T,
        permit: &str,
        scope: &Scope,
        outcome: Outcome,
        policy: &Policy,
    ) -> Result<T, StoreError> {
        self.end_bridged(tx, permit, scope, (FinishKind::Done, outcome), policy).await
    }

    /// Stores a final failure, which is an outcome too, as [`Transact::complete_bridged`] stores a
    /// success. What was mutated in `tx` is committed as well.
    ///
    /// # Errors
    ///
    /// As [`Transact::complete_bridged`].
    ///
    /// # Cancel safety
    ///
    /// As [`Transact::complete_bridged`].
    pub async fn fail_bridged<T: Tx>(
        &self,
        tx: T,
        permit: &str,
        scope: &Scope,
        outcome: Outcome,
        policy: &Policy,
    ) -> Result<T, StoreError> {
        self.end_bridged(tx, permit, scope, (FinishKind::Failed, outcome), policy).await
    }

    async fn end_bridged<T: Tx>(
        &self,
        mut tx: T,
        permit: &str,
        scope: &Scope,
        (kind, outcome): (FinishKind, Outcome),
        policy: &Policy,
    ) -> Result<T, StoreError> {
        tx.admit()?;
        let finish = Finish {
            kind,
            outcome: Some(outcome),
            reason: None,
            replay_for: policy.replay_for,
            remember_for: policy.remember_for,
        };
        finish_within_bounds(&finish, self.inner.body_max)?;
        let pointer = finish.outcome.as_ref().and_then(|outcome| outcome.pointer.as_ref());
        let encoded = finish.outcome.as_ref().map(codec::encode);
        let state = if kind == FinishKind::Done { "done" } else { "failed" };
        let values = [
            Value::Text(Some(permit)),
            Value::Text(Some(scope.tenant.as_str())),
            Value::Text(Some(scope.operation.as_str())),
            Value::Text(Some(state)),
            Value::Bytes(encoded.as_deref()),
            Value::Text(pointer.map(|pointer| &*pointer.kind)),
            Value::Text(pointer.map(|pointer| &*pointer.id)),
            Value::Bigint(Some(row::span(finish.replay_for))),
            Value::Bigint(Some(row::span(finish.remember_for))),
        ];
        tx.ask((&*self.inner.statements.transact_bridged).into(), &values).await?;
        Ok(tx)
    }
}
