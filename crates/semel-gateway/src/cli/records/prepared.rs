//! `semel records prepared`: transactions that their coordinator forgot, and that hold keys.

use clap::Args;
use serde_json::json;

use super::{target::Desk, view};
use crate::{
    cli::{
        exit::{Exit, Failure, say},
        table,
    },
    stores::{self, Prepared},
};

/// Lists prepared transactions of a PostgreSQL database that can hold keys, oldest first: what they hold
/// is in progress until somebody commits them or rolls them back
#[derive(Args, Debug)]
pub(super) struct PreparedArgs;

impl PreparedArgs {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let prepared = stores::prepared(&desk.store).await?;
        if desk.json {
            let listed: Vec<_> = prepared
                .iter()
                .map(|one| {
                    json!({
                        "name": one.name,
                        "owner": one.owner,
                        "prepared_at_us": one.at.as_micros(),
                    })
                })
                .collect();
            say(&json!({ "prepared": listed }).to_string())?;
        } else {
            say(&listed(&prepared))?;
        }
        Ok(Exit::Fine)
    }
}

fn listed(prepared: &[Prepared]) -> String {
    if prepared.is_empty() {
        return "no prepared transactions".into();
    }
    let mut table = table::plain(["name", "owner", "prepared"]);
    for Prepared { name, owner, at, now } in prepared {
        let age = format!("{} ago", view::short(*now, *at));
        table.add_row([view::printable(name), view::printable(owner), age]);
    }
    table.trim_fmt()
}
