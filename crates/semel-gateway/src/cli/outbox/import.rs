//! `semel outbox import-debezium`: takes over a table that another relay reads, and says how long that one
//! has to go on.

use clap::Args;
use serde_json::json;

use crate::{
    cli::{
        exit::{Exit, Failure, say},
        store::StoreArgs,
    },
    settings::StoreSettings,
    stores::{self, ImportOutbox, ImportState},
};

/// Takes over a table that Debezium reads: each row that is inserted into it becomes an event too, in the
/// same transaction. Asked again, it tells whether Debezium is still needed
#[derive(Args, Debug)]
pub(super) struct Import {
    /// The table, such as public.outboxevent
    #[arg(long)]
    table: String,
    /// The replication slot that Debezium reads: whether it has confirmed all from before
    #[arg(long)]
    slot: Option<String>,
    /// Makes events of what is in the table already, too
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
        let mut copied = None;
        let mut state = self.state(&store).await?;
        if state.switched_at.is_none() {
            copied = Some(stores::import_outbox(&store, &self.import()).await?.copied);
            state = self.state(&store).await?;
        }
        say(&if json {
            json!({
                "table": self.table,
                "imported_now": copied.is_some(),
                "copied": copied,
                "switched_at": state.switched_at.as_deref(),
                "slot": self.slot,
                "slot_confirmed": state.is_confirmed,
            })
            .to_string()
        } else {
            self.told(&state, copied)
        })?;
        Ok(Exit::Fine)
    }

    async fn state(&self, store: &StoreSettings) -> Result<ImportState, Failure> {
        Ok(stores::outbox_import(store, &self.table, self.slot.as_deref()).await?)
    }

    async fn end(&self, store: &StoreSettings, json: bool) -> Result<Exit, Failure> {
        if !stores::end_outbox_import(store, &self.table).await? {
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

    fn import(&self) -> ImportOutbox {
        let mut import = ImportOutbox::of(self.table.as_str());
        import.existing = self.existing;
        import.order_by = self.order_by.as_deref().map(Into::into);
        import.id_column = self.id_column.as_str().into();
        import.aggregatetype_column = self.aggregatetype_column.as_str().into();
        import.aggregateid_column = self.aggregateid_column.as_str().into();
        import.type_column = self.type_column.as_str().into();
        import.payload_column = self.payload_column.as_str().into();
        import.headers_column = self.headers_column.as_deref().map(Into::into);
        import
    }

    fn told(&self, state: &ImportState, copied: Option<u64>) -> String {
        let at = state.switched_at.as_deref().unwrap_or_default();
        let table = &self.table;
        let mut told = match copied {
            Some(0) => format!("{table} is taken over from {at} on"),
            Some(rows) => {
                format!(
                    "{table} is taken over from {at} on, and {rows} rows from before are events"
                )
            }
            None => format!("{table} is taken over since {at}"),
        };
        told.push('\n');
        told.push_str(&match (&self.slot, state.is_confirmed) {
            (None, _) => format!(
                "let Debezium go on until its slot has confirmed {at}; --slot NAME tells whether it has"
            ),
            (Some(slot), None) => format!("there is no slot {slot} in this database"),
            (Some(slot), Some(false)) => format!(
                "the slot {slot} has not confirmed that yet: let Debezium go on, and ask again"
            ),
            (Some(slot), Some(true)) => format!(
                "the slot {slot} has confirmed that: stop Debezium, then drop the slot, which keeps the \
                 server's log otherwise"
            ),
        });
        told
    }
}
