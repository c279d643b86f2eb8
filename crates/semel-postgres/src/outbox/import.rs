//! Takes over a table of another outbox, such as one that Debezium reads, and gives it back. Done once, by
//! the owner of the schema and of the table, on a connection of its own.

use semel::{StoreError, StoreErrorKind};
use tokio_postgres::Row;

use super::no_answer;
use crate::{
    PostgresBuilder, PostgresStore,
    error::{Fault, damaged},
    value::{Cells, Value},
};

/// A table of another outbox, and what its columns are called.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ImportOutbox {
    /// The table, as SQL names it, such as `public.outboxevent`.
    pub table: Box<str>,
    /// Whether what is in it already becomes events too, before all that comes.
    pub existing: bool,
    /// The column by which that is ordered.
    pub order_by: Option<Box<str>>,
    /// The column of ids; one that is no UUID becomes the UUID of its digest.
    pub id_column: Box<str>,
    /// The column of the types of aggregates.
    pub aggregatetype_column: Box<str>,
    /// The column of the ids of aggregates.
    pub aggregateid_column: Box<str>,
    /// The column of the types of events.
    pub type_column: Box<str>,
    /// The column of payloads: bytes, or anything that has a text.
    pub payload_column: Box<str>,
    /// The column of headers, in JSON.
    pub headers_column: Option<Box<str>>,
}

impl ImportOutbox {
    /// Names a table whose columns are called as Debezium's documentation does.
    #[must_use]
    pub fn of(table: impl Into<Box<str>>) -> Self {
        Self {
            table: table.into(),
            existing: false,
            order_by: None,
            id_column: "id".into(),
            aggregatetype_column: "aggregatetype".into(),
            aggregateid_column: "aggregateid".into(),
            type_column: "type".into(),
            payload_column: "payload".into(),
            headers_column: None,
        }
    }
}

/// A table that was taken over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Imported {
    /// How many rows that were in it became events.
    pub copied: u64,
    /// The place in the server's log behind which every row is an event: whoever read the table before
    /// goes on until it has confirmed that place.
    pub switched_at: Box<str>,
    /// The columns that may be NULL, though no event can do without: a row in which one is fails no
    /// producer, and is parked by the relay.
    pub may_be_null: Box<[Box<str>]>,
}

/// How far a take-over is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ImportState {
    /// Since which place in the server's log the table is taken over; `None` if it is not.
    pub switched_at: Option<Box<str>>,
    /// What the replication slot has; `None` if none was named.
    pub slot: Option<ImportSlot>,
}

/// What a replication slot has of what was in a table before it was taken over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ImportSlot {
    /// Not all of it yet.
    Behind,
    /// All of it: whoever reads the slot is not needed any more.
    Confirmed,
    /// Not all of it, and it never will: the server has dropped what it had not read.
    Lost,
    /// There is no such slot in the database.
    Missing,
    /// Nobody can tell: the table was taken over in another cluster, from which it came with a dump, and
    /// places in its log say nothing of the log of this one.
    Moved,
    /// Nothing: it was made after the switch, under a name of its own or that of one before.
    New,
    /// All of it, if it is the slot that was there at the switch, and nothing shows that. It is shown by a
    /// connection that has read it ever since, or by statistics that bear the reset that they had: an
    /// import resets those of slots whose never were, where its role may.
    Unproven,
}

impl PostgresStore {
    /// Makes every row that is inserted into a table from now on an event too, in the same transaction.
    /// It waits at most 2 s for transactions that have inserted and are still open.
    ///
    /// A table that is taken over already is taken over anew only for what is in it: with
    /// [`existing`](ImportOutbox::existing), rows that are no events yet become some, known by their ids.
    ///
    /// # Errors
    ///
    /// Fails, and changes nothing, if the table or a column of it is missing, it is taken over already
    /// and nothing else is asked for, or by other columns, or the role owns neither table nor schema. The
    /// kind is [`Busy`](semel::StoreErrorKind::Busy) if a transaction stays open for too long, or rows
    /// that are to become events have no id.
    pub async fn import_outbox(
        builder: &PostgresBuilder,
        import: &ImportOutbox,
    ) -> Result<Imported, StoreError> {
        let values = [
            Value::Text(Some(&import.table)),
            Value::Truth(import.existing),
            Value::Text(import.order_by.as_deref()),
            Value::Text(Some(&import.id_column)),
            Value::Text(Some(&import.aggregatetype_column)),
            Value::Text(Some(&import.aggregateid_column)),
            Value::Text(Some(&import.type_column)),
            Value::Text(Some(&import.payload_column)),
            Value::Text(import.headers_column.as_deref()),
        ];
        let row = one(builder, |statements| &statements.import_begin, &values).await?;
        let copied = row.bigint(0)?.and_then(|copied| u64::try_from(copied).ok());
        let switched_at = row.text(1)?.map(Into::into);
        let (copied, switched_at) = copied.zip(switched_at).ok_or_else(no_answer)?;
        let may_be_null = row.text(2)?.unwrap_or_default().lines().map(Into::into).collect();
        Ok(Imported { copied, switched_at, may_be_null })
    }

    /// Says how far the take-over of a table is, seen from the replication slot of whoever read it
    /// before.
    ///
    /// # Errors
    ///
    /// Fails if there is no such table, or the server cannot be asked.
    pub async fn outbox_import(
        builder: &PostgresBuilder,
        table: &str,
        slot: Option<&str>,
    ) -> Result<ImportState, StoreError> {
        let values = [Value::Text(Some(table)), Value::Text(slot)];
        let row = one(builder, |statements| &statements.import_state, &values).await?;
        let slot = row.text(1)?.map(slot_of).transpose()?;
        Ok(ImportState { switched_at: row.text(0)?.map(Into::into), slot })
    }

    /// Ends the take-over of a table, and says whether there was one: its rows are no longer events.
    ///
    /// # Errors
    ///
    /// Fails, and changes nothing, if there is no such table, a transaction stays open for too long, or
    /// the role owns neither table nor schema.
    pub async fn end_outbox_import(
        builder: &PostgresBuilder,
        table: &str,
    ) -> Result<bool, StoreError> {
        let values = [Value::Text(Some(table))];
        let row = one(builder, |statements| &statements.import_end, &values).await?;
        Ok(row.truth(0)? == Some(true))
    }
}

/// Asks one statement on a connection of its own.
async fn one(
    builder: &PostgresBuilder,
    statement: impl Fn(&crate::queries::Statements) -> &str,
    values: &[Value<'_>],
) -> Result<Row, StoreError> {
    let (client, statements) = builder.alone().await?;
    let params: Vec<_> = values.iter().map(Value::param).collect();
    let asked = client.client.query_typed(statement(&statements), &params).await;
    let rows = asked.map_err(|error| said(error.into()))?;
    rows.into_iter().next().ok_or_else(|| no_answer().into())
}

fn slot_of(word: &str) -> Result<ImportSlot, StoreError> {
    Ok(match word {
        "behind" => ImportSlot::Behind,
        "confirmed" => ImportSlot::Confirmed,
        "lost" => ImportSlot::Lost,
        "moved" => ImportSlot::Moved,
        "new" => ImportSlot::New,
        "none" => ImportSlot::Missing,
        "unproven" => ImportSlot::Unproven,
        _ => return Err(damaged("a replication slot is in no state that this version knows")),
    })
}

/// Says in the server's own words what an operator can do something about: what was asked for is not
/// there or is not allowed, or it is not the time for it.
fn said(fault: Fault) -> StoreError {
    let Fault::Postgres(error) = &fault else { return fault.into() };
    let Some(db) = error.as_db_error() else { return fault.into() };
    let code = db.code().code();
    let kind = match code {
        "55P03" => {
            let message = "a transaction that has inserted into the table stays open; nothing was \
                           changed: end it, or ask again";
            return StoreError::new(StoreErrorKind::Busy, message);
        }
        "55000" => StoreErrorKind::Busy,
        "SM007" | "0A000" => StoreErrorKind::Invalid,
        _ if ["22", "3F", "42"].iter().any(|class| code.starts_with(class)) => {
            StoreErrorKind::Invalid
        }
        _ => return fault.into(),
    };
    let hint = db.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    let message = db.message().trim_start_matches("semel: ");
    StoreError::new(kind, format!("{message}{hint}"))
}
