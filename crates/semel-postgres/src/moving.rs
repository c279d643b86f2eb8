//! Taking records out of the schema and into it, while nobody writes.

use async_trait::async_trait;
use semel::{
    Fence, Record, StoreError, codec,
    store::{
        BATCH_MAX,
        capability::AuditRow,
        moving::{
            Brought, Closed, Move, Standing, Trail, not_arriving, records_within_bounds,
            rows_within_bounds,
        },
    },
};

use crate::{
    PostgresStore,
    error::{Fault, damaged, forbidden},
    inspect,
    link::{Step, Work},
    names::{Names, told},
    row,
    value::{self, Cells, Value},
};

#[async_trait]
impl Move for PostgresStore {
    async fn standing(&self) -> Result<Standing, StoreError> {
        self.rest(Stand).await
    }

    async fn close(&self, why: Closed) -> Result<(), StoreError> {
        self.rest(Gate(Some(why))).await
    }

    async fn open(&self) -> Result<(), StoreError> {
        self.rest(Gate(None)).await
    }

    async fn bring(&self, records: Vec<Record>) -> Result<Vec<Brought>, StoreError> {
        records_within_bounds(&records)?;
        self.rest(Bring(records.into_iter().map(kept).collect())).await
    }

    async fn recall(&self, rows: Vec<AuditRow>) -> Result<u64, StoreError> {
        rows_within_bounds(&rows)?;
        let kept =
            |row: AuditRow| AuditRow { actor: told(&row.actor), note: told(&row.note), ..row };
        self.rest(Recall(rows.into_iter().map(kept).collect())).await
    }

    async fn raise(&self, floor: Fence) -> Result<(), StoreError> {
        self.rest(Raise(floor)).await
    }

    async fn trail(&self, from: u64) -> Result<Trail, StoreError> {
        self.rest(Follow(from)).await
    }
}

/// What this store keeps of a record: texts that tell, without what PostgreSQL does not know.
fn kept(mut record: Record) -> Record {
    record.claimed_by = record.claimed_by.as_deref().map(told);
    record.reason = record.reason.as_deref().map(told);
    if let Some(pointer) = &mut record.pointer {
        pointer.kind = told(&pointer.kind);
        pointer.id = told(&pointer.id);
    }
    record
}

struct Stand;

impl Work for Stand {
    type Done = Standing;

    async fn run(&self, step: Step<'_>) -> Result<Standing, Fault> {
        let rows = step.alone(&step.statements().move_standing, &[]).await?;
        let row = rows.first().ok_or_else(|| damaged("the row of semel.meta is missing"))?;
        let floor = Fence::new(row::count(row, 1)?.unwrap_or_default());
        let closed = row.text(0)?.map(|name| match name {
            "closed_arriving" => Closed::Arriving,
            _ => Closed::Away,
        });
        Ok(Standing { closed, floor })
    }
}

/// Closes the store for a reason, or opens it.
struct Gate(Option<Closed>);

impl Work for Gate {
    type Done = ();

    async fn run(&self, step: Step<'_>) -> Result<(), Fault> {
        step.begin(&[]).await?;
        let statement = match self.0 {
            None => &step.statements().move_open,
            Some(why) => {
                let why = Value::Text(Some(why.as_str()));
                step.rows(&step.statements().move_why, &[why.param()]).await?;
                &step.statements().move_close
            }
        };
        let owner = "only the owner of Semel's schema, who migrates it, closes and opens the store";
        let done = step.client().batch_execute(statement).await;
        done.map_err(|error| forbidden(error.into(), owner))?;
        Ok(step.client().batch_execute("COMMIT").await?)
    }
}

impl Step<'_> {
    /// Begins a transaction that may write into a closed store, and only into one.
    async fn pass_the_gate(&self) -> Result<(), Fault> {
        self.begin(&[]).await?;
        let rows = self.rows(&self.statements().move_begin, &[]).await?;
        let row = rows.first().ok_or_else(|| damaged("the schema cannot be looked at"))?;
        if row.truth(0)? == Some(true) { Ok(()) } else { Err(not_arriving().into()) }
    }
}

struct Bring(Vec<Record>);

impl Work for Bring {
    type Done = Vec<Brought>;

    async fn run(&self, step: Step<'_>) -> Result<Vec<Brought>, Fault> {
        step.pass_the_gate().await?;
        let outcomes = self.0.iter().map(|record| record.outcome.as_ref().map(codec::encode));
        let outcomes: Vec<_> = outcomes.collect();
        let columns = Columns::of(&self.0, &outcomes);
        let values = columns.values();
        let params: Vec<_> = values.iter().map(Value::param).collect();
        let rows = step.rows(&step.statements().record_bring, &params).await?;
        let mut is_stored = vec![false; self.0.len()];
        for row in &rows {
            let nr = row::count(row, 0)?.and_then(|nr| usize::try_from(nr).ok()?.checked_sub(1));
            if let Some(stored) = nr.and_then(|at| is_stored.get_mut(at)) {
                *stored = true;
            }
        }
        let answers = self.judged(step, &is_stored).await?;
        step.client().batch_execute("COMMIT").await?;
        Ok(answers)
    }
}

impl Bring {
    /// Answers what was not written by what is there.
    async fn judged(&self, step: Step<'_>, is_stored: &[bool]) -> Result<Vec<Brought>, Fault> {
        let rest: Vec<_> = self.0.iter().zip(is_stored).filter(|(_, stored)| !**stored).collect();
        let ids: Vec<_> = rest.iter().map(|(record, _)| &record.id).collect();
        let mut answers = Vec::new();
        if !ids.is_empty() {
            let looks = step.look(&ids, Names::of_ids(ids.iter().copied())).await?;
            for (look, (record, _)) in looks.into_iter().zip(rest) {
                let answer = Brought::of(look.record.as_ref(), record, look.now);
                answers.push(answer.unwrap_or(Brought::Over));
            }
        }
        let mut rest = answers.into_iter();
        let answer = |stored: &bool| if *stored { Some(Brought::Stored) } else { rest.next() };
        Ok(is_stored.iter().filter_map(answer).collect())
    }
}

/// Records, column by column, in the order of the statement.
struct Columns<'a> {
    /// The name, and all that is text or bytes.
    texts: [Vec<Option<&'a str>>; 8],
    blobs: [Vec<Option<&'a [u8]>>; 5],
    plans: Vec<Option<Vec<u8>>>,
    numbers: [Vec<Option<i64>>; 12],
}

impl<'a> Columns<'a> {
    fn of(records: &'a [Record], outcomes: &'a [Option<Vec<u8>>]) -> Self {
        let text = |of: fn(&'a Record) -> Option<&'a str>| records.iter().map(of).collect();
        let blob = |of: fn(&'a Record) -> Option<&'a [u8]>| records.iter().map(of).collect();
        let number = |of: fn(&Record) -> Option<i64>| records.iter().map(of).collect();
        Self {
            texts: [
                text(|record| Some(record.id.scope.tenant.as_str())),
                text(|record| Some(record.id.scope.operation.as_str())),
                text(|record| Some(record.id.key.as_str())),
                text(|record| Some(record.state.as_str())),
                text(|record| record.claimed_by.as_deref()),
                text(|record| record.reason.as_deref()),
                text(|record| record.pointer.as_ref().map(|pointer| &*pointer.kind)),
                text(|record| record.pointer.as_ref().map(|pointer| &*pointer.id)),
            ],
            blobs: [
                blob(|record| Some(row::facet(&record.id))),
                blob(|record| Some(record.token.as_bytes())),
                blob(|record| Some(record.fingerprint.digest())),
                blob(|record| record.resolved_by.as_ref().map(<[u8; 16]>::as_slice)),
                outcomes.iter().map(Option::as_deref).collect(),
            ],
            plans: records
                .iter()
                .map(|record| Some(record.fingerprint.plan().as_bytes().to_vec()))
                .collect(),
            numbers: [
                number(|record| Some(row::number(record.fence))),
                number(|record| Some(row::micros(record.lease.renewed_at))),
                number(|record| Some(row::span(record.lease.length))),
                number(|record| Some(i64::from(record.takeovers))),
                number(|record| Some(i64::from(record.compare))),
                number(|record| Some(i64::from(record.incarnation))),
                number(|record| Some(row::micros(record.created_at))),
                number(|record| Some(row::micros(record.claimed_at))),
                number(|record| record.settled_at.map(row::micros)),
                number(|record| Some(row::micros(record.replay_until))),
                number(|record| Some(row::micros(record.remember_until))),
                number(row::sweep_at),
            ],
        }
    }

    fn values(&self) -> Vec<Value<'_>> {
        let [tenant, operation, key, state, claimed_by, reason, kind, id] =
            self.texts.each_ref().map(|column| Value::Texts(column));
        let [facet, token, digest, resolved_by, outcome] =
            self.blobs.each_ref().map(|column| Value::Blobs(column));
        let plan = Value::Bodies(&self.plans);
        let numbers = self.numbers.each_ref().map(|column| Value::Bigints(column));
        let [fence, renewed_at, lease, takeovers, compare, incarnation, numbers @ ..] = numbers;
        let [created_at, claimed_at, settled_at, replay_until, remember_until, sweep_at] = numbers;
        vec![
            tenant,
            operation,
            key,
            facet,
            state,
            token,
            fence,
            plan,
            digest,
            renewed_at,
            lease,
            takeovers,
            compare,
            incarnation,
            created_at,
            claimed_at,
            settled_at,
            claimed_by,
            reason,
            resolved_by,
            kind,
            id,
            replay_until,
            remember_until,
            sweep_at,
            outcome,
        ]
    }
}

struct Recall(Vec<AuditRow>);

impl Work for Recall {
    type Done = u64;

    async fn run(&self, step: Step<'_>) -> Result<u64, Fault> {
        step.pass_the_gate().await?;
        let text =
            |of: fn(&AuditRow) -> &str| -> Vec<_> { self.0.iter().map(|r| Some(of(r))).collect() };
        let at: Vec<_> = self.0.iter().map(|row| Some(row::micros(row.at))).collect();
        let texts = [
            text(|row| row.kind.as_str()),
            text(|row| row.id.scope.tenant.as_str()),
            text(|row| row.id.scope.operation.as_str()),
            text(|row| row.id.key.as_str()),
            text(|row| &row.actor),
            text(|row| &row.note),
        ];
        let facets: Vec<_> = self.0.iter().map(|row| Some(row::facet(&row.id))).collect();
        let [kind, tenant, operation, key, actor, note] = texts.each_ref().map(|t| Value::Texts(t));
        let (at, facet) = (Value::Bigints(&at), Value::Blobs(&facets));
        let values = [at, kind, tenant, operation, key, facet, actor, note];
        let client = step.client();
        let added = value::execute(client, &step.statements().audit_recall, &values).await?;
        client.batch_execute("COMMIT").await?;
        Ok(added)
    }
}

struct Raise(Fence);

impl Work for Raise {
    type Done = ();

    async fn run(&self, step: Step<'_>) -> Result<(), Fault> {
        step.begin(&[]).await?;
        let floor = [Value::Bigint(Some(row::number(self.0)))];
        value::execute(step.client(), &step.statements().move_raise, &floor).await?;
        Ok(step.client().batch_execute("COMMIT").await?)
    }
}

/// Reads a page of the audit.
struct Follow(u64);

impl Work for Follow {
    type Done = Trail;

    async fn run(&self, step: Step<'_>) -> Result<Trail, Fault> {
        let limit = i64::try_from(BATCH_MAX).unwrap_or(i64::MAX);
        let from = i64::try_from(self.0).unwrap_or(i64::MAX);
        let values = [Value::Bigint(Some(from)), Value::Bigint(Some(limit))];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        let rows = step.rows(&step.statements().audit_trail, &params).await?;
        let last = rows.last().filter(|_| rows.len() == BATCH_MAX);
        let next = last.map(|row| row::count(row, 8)).transpose()?.flatten();
        let rows = rows.iter().map(inspect::entry).collect::<Result<_, _>>()?;
        Ok(Trail { rows, next })
    }
}
