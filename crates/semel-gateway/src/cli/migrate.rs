//! `semel migrate`: brings a store to the schema of this version.

use clap::Args;
use serde_json::json;

use super::{
    exit::{Exit, Failure, say},
    store::StoreArgs,
};
use crate::{
    config::StoreUrl,
    settings::StoreSettings,
    stores::{self, Schema},
};

/// Brings a store to the schema of this version, making it if it is missing
#[derive(Args, Debug)]
pub(super) struct Migrate {
    #[command(flatten)]
    store: StoreArgs,
    /// Changes nothing: exits with 1 if this version cannot work with the store as it is
    #[arg(long)]
    check: bool,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
    /// Makes the roles semel_app, semel_reader and semel_store too, and grants each the least it needs:
    /// again after every migration
    #[arg(long, conflicts_with_all = ["check", "print_roles"])]
    roles: bool,
    /// Prints the statements of --roles and does nothing else
    #[arg(long, conflicts_with_all = ["check", "json"])]
    print_roles: bool,
}

impl Migrate {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let (store, _) = self.store.read()?;
        if self.print_roles {
            say(stores::roles_sql(&store)?.trim_end())?;
            return Ok(Exit::Fine);
        }
        if self.check {
            return check(&store, self.json).await;
        }
        let schema = stores::migrate(&store).await?;
        if self.roles {
            stores::grant_roles(&store).await?;
        }
        let Schema { found, current, .. } = schema;
        let url = shown(&store);
        say(&match found {
            _ if self.json => told(&store, schema).to_string(),
            _ if !has_schema(&store) => format!("{url} has no schema, and needs none"),
            0 => format!("{url} is new and has schema {current} now"),
            found if found < current => {
                format!("{url} had schema {found} and has schema {current} now")
            }
            found if found > current => format!("{url} has the newer schema {found}, as it may"),
            found => format!("{url} has schema {found}, as it must"),
        })?;
        Ok(Exit::Fine)
    }
}

async fn check(store: &StoreSettings, json: bool) -> Result<Exit, Failure> {
    let schema = stores::schema(store).await?;
    let Schema { found, current, fits } = schema;
    let lacks = if fits { stores::schema_lacks(store).await? } else { Vec::new() };
    let (url, todo) = (shown(store), if schema.is_due() { "semel migrate" } else { "an upgrade" });
    say(&match fits {
        _ if json => {
            let mut told = told(store, schema);
            told["lacks"] = json!(lacks);
            told.to_string()
        }
        _ if !has_schema(store) => format!("{url} has no schema, and needs none"),
        true if !lacks.is_empty() => {
            format!("{url} has schema {found}, but lacks {}: make it again", lacks.join(", "))
        }
        true if found > current => format!("{url} has the newer schema {found}, as it may"),
        true => format!("{url} has schema {found}, as it must"),
        false => {
            format!("{url} has schema {found}, this version works with {current}: {todo} is due")
        }
    })?;
    Ok(if fits && lacks.is_empty() { Exit::Fine } else { Exit::Refused })
}

/// Records of Redis and of the memory say their version one by one.
const fn has_schema(store: &StoreSettings) -> bool {
    !matches!(store.url, StoreUrl::Memory | StoreUrl::Redis(_))
}

fn told(store: &StoreSettings, schema: Schema) -> serde_json::Value {
    json!({
        "store": store.url.to_string(),
        "found": schema.found,
        "current": schema.current,
        "due": schema.is_due(),
        "fits": schema.fits,
    })
}

fn shown(store: &StoreSettings) -> String {
    match &store.url {
        StoreUrl::Postgres(url) if store.postgres.schema != "semel" => {
            format!("{url} ({})", store.postgres.schema)
        }
        url => url.to_string(),
    }
}
