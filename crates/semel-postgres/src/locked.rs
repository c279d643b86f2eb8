//! Short transactions under the locks of their names: for whatever one statement cannot judge.
//!
//! Two round trips: begin, try the locks and read in a new statement; then write as seen and commit.

use std::{future::poll_fn, task::Poll};

use futures_util::future::{join, join3, maybe_done};
use semel::{Fence, IntentId, Record, State, Timestamp, Token, codec, store::capability::AuditRow};

use crate::{
    error::{Fault, damaged},
    link::Step,
    migrate,
    names::{Named, Names, told},
    row,
    value::{self, Cells, Value},
};

/// What was read of one name.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) record: Option<Record>,
    /// The server's time, read after the record.
    pub(crate) now: Timestamp,
    /// The largest fence ever deleted.
    pub(crate) floor: Fence,
}

/// What was read of one name, and whether its lock was free.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) is_locked: bool,
    pub(crate) look: Look,
}

/// What is written of one name.
#[derive(Debug)]
pub(crate) enum Write {
    /// A row of the audit.
    Note(AuditRow),
    /// The next state of what was seen, or the record of a name that has none.
    Put { seen: Option<(Token, Fence, State)>, next: Box<Record> },
    /// The lease alone.
    Rewind(Box<Record>),
}

impl Write {
    pub(crate) fn put(seen: Option<&Record>, next: Record) -> Self {
        let seen = seen.map(|record| (record.token, record.fence, record.state));
        Self::Put { seen, next: Box::new(next) }
    }
}

impl Step<'_> {
    /// Reads records by their names, in order; one look without a record if nothing is asked.
    pub(crate) async fn look(
        &self,
        ids: &[&IntentId],
        names: Names<'_>,
    ) -> Result<Vec<Look>, Fault> {
        let rows = self.rows(&self.statements().record_look, &names.params()).await?;
        let mut looks = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            let oldest = row::count(row, 2)?.and_then(|oldest| u32::try_from(oldest).ok());
            migrate::admit(migrate::current(), oldest.unwrap_or(u32::MAX))?;
            let record = match ids.get(at) {
                Some(id) if row.text(3)?.is_some() => Some(row::record((*id).clone(), row, 3)?),
                _ => None,
            };
            let floor = Fence::new(row::count(row, 1)?.unwrap_or_default());
            looks.push(Look { record, now: row::instant(row, 0)?, floor });
        }
        if looks.is_empty() {
            return Err(damaged("the row of semel.meta is missing; restore a backup").into());
        }
        Ok(looks)
    }

    /// Begins a transaction, tries the locks of the names, and reads their records in a new statement.
    pub(crate) async fn begin(&self, names: &[&Named]) -> Result<Vec<Locked>, Fault> {
        let (statements, client) = (self.statements(), self.client());
        let ids: Vec<_> = names.iter().map(|named| &named.id).collect();
        let arrays = Names::of(names.iter().copied());
        let locks = [arrays.locks()];
        let begin = client.batch_execute(&statements.transaction_begin);
        let lock = client.query_typed(&statements.record_lock, &locks);
        let look = self.look(&ids, Names::of(names.iter().copied()));
        let (begun, tried, looks) = join3(begin, lock, look).await;
        begun?;
        let tried = tried?.into_iter().map(|row| row.truth(0));
        let locked = tried
            .zip(looks?)
            .map(|(is_locked, look)| Ok(Locked { is_locked: is_locked? == Some(true), look }));
        locked.collect()
    }

    /// Writes and commits; says which writes found what was seen. With a row of the audit among them
    /// all must, or nothing is written.
    pub(crate) async fn commit(&self, writes: &[Write]) -> Result<Vec<bool>, Fault> {
        let client = self.client();
        let written = in_order(writes.iter().map(|write| self.write(write)));
        if !writes.iter().any(|write| matches!(write, Write::Note(_))) {
            // If a write fails, the commit that was sent behind it rolls back.
            let (written, committed) = join(written, client.batch_execute("COMMIT")).await;
            let found = written.into_iter().collect::<Result<Vec<_>, _>>()?;
            committed?;
            return Ok(found);
        }
        let found = written.await.into_iter().collect::<Result<Vec<_>, _>>()?;
        if found.contains(&false) {
            client.batch_execute("ROLLBACK").await?;
            return Ok(vec![false; found.len()]);
        }
        client.batch_execute("COMMIT").await?;
        Ok(found)
    }

    async fn write(&self, write: &Write) -> Result<bool, Fault> {
        let (statements, client) = (self.statements(), self.client());
        match write {
            Write::Note(entry) => self.note(entry).await.map(|()| true),
            Write::Put { seen, next } => {
                let outcome = next.outcome.as_ref().map(codec::encode);
                let mut values = row::values(next, outcome.as_deref()).to_vec();
                let Some((token, fence, state)) = seen else {
                    return Ok(
                        value::execute(client, &statements.record_insert, &values).await? == 1
                    );
                };
                values.push(Value::Bytes(Some(token.as_bytes())));
                values.push(Value::Bigint(Some(row::number(*fence))));
                values.push(Value::Text(Some(state.as_str())));
                let put = value::execute(client, &statements.record_write, &values);
                // A claim, a release and a finish end the lease that was renewed before; what is
                // unknown keeps it, since a resolution asks when it ended.
                if next.state == State::Unknown {
                    return Ok(put.await? == 1);
                }
                let token = [Value::Bytes(Some(token.as_bytes()))];
                let drop = value::execute(client, &statements.lease_drop, &token);
                let (put, dropped) = join(put, drop).await;
                // The first that failed says why; behind it all fails for that it did.
                let is_put = put? == 1;
                dropped?;
                Ok(is_put)
            }
            Write::Rewind(next) => {
                let values = [
                    Value::Bytes(Some(next.token.as_bytes())),
                    Value::Bigint(Some(row::number(next.fence))),
                    Value::Bigint(Some(row::micros(next.lease.renewed_at))),
                    Value::Bigint(Some(row::span(next.lease.length))),
                ];
                Ok(value::execute(client, &statements.lease_rewind, &values).await? == 1)
            }
        }
    }

    /// Adds a row to the audit, whose oldest rows go.
    async fn note(&self, entry: &AuditRow) -> Result<(), Fault> {
        let (statements, client, scope) = (self.statements(), self.client(), &entry.id.scope);
        let (actor, note) = (told(&entry.actor), told(&entry.note));
        let values = [
            Value::Bigint(Some(row::micros(entry.at))),
            Value::Text(Some(entry.kind.as_str())),
            Value::Text(Some(scope.tenant.as_str())),
            Value::Text(Some(scope.operation.as_str())),
            Value::Text(Some(entry.id.key.as_str())),
            Value::Bytes(Some(row::facet(&entry.id))),
            Value::Text(Some(&actor)),
            Value::Text(Some(&note)),
        ];
        let stay = [Value::Bigint(Some(i64::from(self.links.settings.audit_max)))];
        let noted = value::execute(client, &statements.audit_note, &values);
        let trimmed = value::execute(client, &statements.audit_trim, &stay);
        let (noted, trimmed) = join(noted, trimmed).await;
        noted?;
        trimmed?;
        Ok(())
    }
}

/// Polls futures in order, so that what they send leaves in that order.
pub(crate) async fn in_order<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> =
        futures.into_iter().map(|future| Box::pin(maybe_done(future))).collect();
    poll_fn(|context| {
        let mut done = true;
        for one in &mut running {
            done &= one.as_mut().poll(context).is_ready();
        }
        if done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    running.iter_mut().filter_map(|one| one.as_mut().take_output()).collect()
}
