//! `semel outbox import-debezium`: takes over a table that another relay reads, and says how long that one
//! has to go on.

use clap::Args;
use semel::{StoreError, StoreErrorKind};
use serde_json::json;

use crate::{
    cli::{
        exit::{Exit, Failure, say},
        store::StoreArgs,
    },
    settings::StoreSettings,
    stores::{self, ImportOutbox, ImportSlot, ImportState, Imported},
};

/// Takes over a table that Debezium reads: each row that is inserted into it becomes an event too, in the
/// same transaction. Asked again, it tells whether Debezium is still needed
#[derive(Args, Debug)]
pub(super) struct Import {
    /// The table, such as public.outboxevent
    #[arg(long)]
    table: String,
    /// The replication slot that Debezium reads: exits with 1 for as long as it has not confirmed all from
    /// before
    #[arg(long)]
    slot: Option<String>,
    /// Makes events of what is in the table already, too; asked later, of those rows that are none yet
    #[arg(long, conflicts_with = "end")]
    existing: bool,
    /// The column that orders what is in it already
    #[arg(long, value_name = "COLUMN", requires = "existing")]
    order_by: Option<String>,
    /// The column of ids
    #[arg(long, value_name = "COLUMN", default_value = "id")]
    id_column: String,
    /// The column of the types of aggregates
    #[arg(long, value_name = "COLUMN", default_value = "aggregatetype")]
    aggregatetype_column: String,
    /// The column of the ids of aggregates
    #[arg(long, value_name = "COLUMN", default_value = "aggregateid")]
    aggregateid_column: String,
    /// The column of the types of events
    #[arg(long, value_name = "COLUMN", default_value = "type")]
    type_column: String,
    /// The column of payloads
    #[arg(long, value_name = "COLUMN", default_value = "payload")]
    payload_column: String,
    /// The column of headers, in JSON
    #[arg(long, value_name = "COLUMN")]
    headers_column: Option<String>,
    /// Ends the take-over: what is inserted from then on is no event
    #[arg(long)]
    end: bool,
}

impl Import {
    pub(super) async fn run(self, store: StoreArgs, json: bool) -> Result<Exit, Failure> {
        let (store, _) = store.read()?;
        if self.end {
            return self.end(&store, json).await;
        }
        let mut imported = None;
        let mut state = self.state(&store).await?;
        let is_new = state.switched_at.is_none();
        if is_new && let (Some(slot), Some(ImportSlot::Missing)) = (&self.slot, state.slot) {
            let message = format!("{}; nothing was changed", missing(slot));
            return Err(Failure::refused(message));
        }
        if is_new || self.existing {
            imported = Some(self.import(&store).await?);
            state = self.state(&store).await?;
        }
        let copied = imported.as_ref().map(|imported| imported.copied);
        say(&if json {
            json!({
                "table": self.table,
                "imported_now": is_new,
                "copied": copied,
                "switched_at": state.switched_at.as_deref(),
                "may_be_null": imported.as_ref().map(|imported| &imported.may_be_null),
                "slot": self.slot,
                "slot_state": state.slot.map(word),
                "slot_confirmed": confirmed(state.slot),
            })
            .to_string()
        } else {
            let lines = [
                self.switched(&state, is_new, copied),
                may_be_null(imported.as_ref()),
                self.needed(&state),
            ];
            lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
        })?;
        Ok(self.exit(state.slot))
    }

    /// A script waits for what `--slot` asks. What no slot will ever tell is over once it was read from
    /// the table.
    fn exit(&self, slot: Option<ImportSlot>) -> Exit {
        match slot {
            None | Some(ImportSlot::Confirmed) => Exit::Fine,
            Some(
                ImportSlot::Lost
                | ImportSlot::Missing
                | ImportSlot::Moved
                | ImportSlot::New
                | ImportSlot::Unproven,
            ) if self.existing => Exit::Fine,
            Some(_) => Exit::Refused,
        }
    }

    async fn state(&self, store: &StoreSettings) -> Result<ImportState, Failure> {
        let state = stores::outbox_import(store, &self.table, self.slot.as_deref()).await;
        state.map_err(refused)
    }

    async fn end(&self, store: &StoreSettings, json: bool) -> Result<Exit, Failure> {
        let ended = stores::end_outbox_import(store, &self.table).await;
        if !ended.map_err(refused)? {
            let message = format!("{} is not taken over; nothing was changed", self.table);
            return Err(Failure::refused(message));
        }
        say(&if json {
            json!({ "table": self.table, "result": "ended" }).to_string()
        } else {
            format!("what is inserted into {} is no event any more", self.table)
        })?;
        Ok(Exit::Fine)
    }

    async fn import(&self, store: &StoreSettings) -> Result<Imported, Failure> {
        let mut import = ImportOutbox::of(self.table.as_str());
        import.existing = self.existing;
        import.order_by = self.order_by.as_deref().map(Into::into);
        import.id_column = self.id_column.as_str().into();
        import.aggregatetype_column = self.aggregatetype_column.as_str().into();
        import.aggregateid_column = self.aggregateid_column.as_str().into();
        import.type_column = self.type_column.as_str().into();
        import.payload_column = self.payload_column.as_str().into();
        import.headers_column = self.headers_column.as_deref().map(Into::into);
        stores::import_outbox(store, &import).await.map_err(refused)
    }

    fn switched(&self, state: &ImportState, is_new: bool, copied: Option<u64>) -> Option<String> {
        let at = state.switched_at.as_deref()?;
        let table = &self.table;
        let since = if is_new {
            format!("{table} is taken over from {at} on")
        } else {
            format!("{table} is taken over since {at}")
        };
        Some(match copied.filter(|_| self.existing) {
            None => since,
            Some(0) => format!("{since}; no row from before was still to become an event"),
            Some(1) => format!("{since}, and 1 row from before is an event now"),
            Some(rows) => format!("{since}, and {rows} rows from before are events now"),
        })
    }

    /// Says what Debezium is still needed for.
    fn needed(&self, state: &ImportState) -> Option<String> {
        let at = state.switched_at.as_deref()?;
        let (Some(slot), Some(has)) = (&self.slot, state.slot) else {
            return Some(format!(
                "let Debezium go on until its slot has confirmed {at}; --slot NAME tells whether it has"
            ));
        };
        let never = match has {
            ImportSlot::Behind => {
                return Some(format!(
                    "the slot {slot} has not confirmed that yet: let Debezium go on, and ask again"
                ));
            }
            ImportSlot::Confirmed => {
                return Some(format!(
                    "the slot {slot} has confirmed that: stop Debezium, then drop the slot, which keeps \
                     the server's log otherwise"
                ));
            }
            ImportSlot::Missing => missing(slot),
            ImportSlot::Moved => format!(
                "the table was taken over in another cluster and came here with a dump: what the slot {slot} \
                 has confirmed says nothing of that"
            ),
            ImportSlot::Lost => {
                format!("the server has dropped log that the slot {slot} had not read")
            }
            ImportSlot::New => format!("the slot {slot} was made after that"),
            ImportSlot::Unproven => format!(
                "the slot {slot} has confirmed that, but nothing shows that it is the slot that was there: \
                 one that was made anew since never had the rows from before. Look for when it was made, \
                 such as in the logs of Debezium and of the server; if in doubt"
            ),
        };
        Some(if self.existing {
            format!("{never}: rows from before that were deleted since are nowhere to be read")
        } else {
            format!(
                "{never}: --existing makes events of the rows from before that are in the table"
            )
        })
    }
}

fn missing(slot: &str) -> String {
    format!("there is no slot {slot} in this database")
}

fn may_be_null(imported: Option<&Imported>) -> Option<String> {
    let columns = &imported?.may_be_null;
    (!columns.is_empty()).then(|| {
        format!(
            "NULL is allowed in {}: a row that has it there fails no producer, and the relay parks it",
            columns.join(", ")
        )
    })
}

fn word(slot: ImportSlot) -> &'static str {
    match slot {
        ImportSlot::Behind => "behind",
        ImportSlot::Confirmed => "confirmed",
        ImportSlot::Lost => "lost",
        ImportSlot::Missing => "missing",
        ImportSlot::Moved => "moved",
        ImportSlot::New => "new",
        ImportSlot::Unproven => "unproven",
    }
}

fn confirmed(slot: Option<ImportSlot>) -> Option<bool> {
    let slot = slot.filter(|slot| *slot != ImportSlot::Missing)?;
    Some(slot == ImportSlot::Confirmed)
}

/// What was refused because of the moment, such as for a transaction that is open, is no wrong command.
fn refused(error: StoreError) -> Failure {
    match error.kind() {
        StoreErrorKind::Busy => Failure::refused(error.to_string()),
        _ => error.into(),
    }
}
