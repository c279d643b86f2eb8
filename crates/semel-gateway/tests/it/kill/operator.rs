//! What an operator does afterwards: looks, and says what the upstream's rows say.

use std::{collections::BTreeSet, path::Path, time::Duration};

use semel::{
    Key, Outcome, Policy, Scope,
    decide::{Resolution, Verdict as Said},
    store::Actor,
};
use semel_gateway::{
    config::StoreUrl,
    records::{Found, Records},
    stores,
};

use super::till::Rows;
use crate::{command::run, message::PATIENCE};

/// How many unknown intents are resolved on the command line; the others by what it calls.
const BY_COMMAND: usize = 6;

/// Lists the keys of all unknown intents, page by page.
pub(super) fn unknown(folder: &Path) -> BTreeSet<String> {
    let list = ["records", "list", "--state", "unknown", "--json", "--limit", "50"];
    let mut keys = BTreeSet::new();
    let mut page: Option<String> = None;
    loop {
        let after = page.iter().flat_map(|page| ["--after", page]);
        let shown = run(folder, &list.into_iter().chain(after).collect::<Vec<_>>()).json();
        let records = shown["records"].as_array().unwrap();
        keys.extend(records.iter().map(|record| record["key"].as_str().unwrap().to_owned()));
        match shown["next"].as_str() {
            Some(next) => page = Some(next.to_owned()),
            None => return keys,
        }
    }
}

/// Resolves every unknown intent as its rows say, and says what was refused.
pub(super) async fn resolve(
    folder: &Path,
    keys: &BTreeSet<String>,
    rows: &Rows,
    policy: &Policy,
) -> Vec<String> {
    let opened =
        stores::open_existing(&StoreUrl::Sqlite(folder.join("semel.db")).into()).await.unwrap();
    let records = Records::new(opened.store, opened.inspect);
    let mut refused = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let row = rows.of(key).first().cloned();
        let done = match number < BY_COMMAND {
            true => by_command(folder, key, row).await,
            false => by_call(&records, key, row, policy).await,
        };
        refused.extend(done.err().map(|why| format!("{key} could not be resolved: {why}")));
    }
    refused
}

async fn by_command(folder: &Path, key: &str, row: Option<String>) -> Result<(), String> {
    let mut arguments = vec!["records", "resolve", "pay", key, "--yes", "--json"];
    arguments.extend(["--actor", "the test", "--note", "counted rows"]);
    match &row {
        Some(row) => arguments.extend(["--done", "--status", "201", "--body", row]),
        None => arguments.push("--not-done"),
    }
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let ran = run(folder, &arguments);
        match ran.code {
            0 => return Ok(()),
            // The lost holder may still be sending.
            1 if row.is_none() && tokio::time::Instant::now() < deadline => {
                // Between two polls, up to the deadline above.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            _ => return Err(ran.err),
        }
    }
}

async fn by_call(
    records: &Records,
    key: &str,
    row: Option<String>,
    policy: &Policy,
) -> Result<(), String> {
    let scope = Scope::new("single".parse().unwrap(), "pay".parse().unwrap());
    let key: Key = key.parse().unwrap();
    let Ok(Found::One(seen)) = records.find(&scope, &key, None).await else {
        return Err("there is not one record".into());
    };
    let said = match row {
        Some(row) => {
            Said::Done(Outcome::new(201, row).header("content-type", &b"application/json"[..]))
        }
        None => Said::NotDone { new_incarnation: false },
    };
    let id = records.new_id();
    let actor = || Actor { name: "the test".into(), note: "counted rows".into() };
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let done = records.resolve(&seen, id, said.clone(), false, policy, actor()).await;
        match done.map_err(|error| error.to_string())? {
            Resolution::Stored => return Ok(()),
            Resolution::TooEarly(_) if tokio::time::Instant::now() < deadline => {
                // Between two polls, up to the deadline above.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            other => return Err(format!("{other:?}")),
        }
    }
}

/// Counts the records in a state.
pub(super) fn count(folder: &Path, state: &str) -> u64 {
    let counts = run(folder, &["records", "counts", "--json"]).json();
    counts[state].as_u64().unwrap_or_else(|| panic!("{state} in {counts}"))
}
