//! `semel migrate`: brings a store to the schema of this version.

use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::{Exit, Failure, say};
use crate::{
    config::{Config, Files, StoreUrl},
    stores,
};

/// Brings a store to the schema of this version, making it if it is missing
#[derive(Args, Debug)]
pub(super) struct Migrate {
    /// The configuration that names the store
    #[arg(long, short, default_value = "semel.toml", value_name = "FILE")]
    config: PathBuf,
    /// The store, such as sqlite:semel.db, instead of a configuration
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    store: Option<String>,
    /// Changes nothing: exits with 1 if there is something to do
    #[arg(long)]
    check: bool,
}

impl Migrate {
    pub(super) fn run(self) -> Result<Exit, Failure> {
        let url = match &self.store {
            Some(text) => StoreUrl::parse(text, Path::new("")).ok_or_else(|| {
                Failure::usage(format!("--store {text} is not a store; write sqlite:PATH"))
            })?,
            None => Config::load_with(&self.config, Files::Ignored)?.store,
        };
        if self.check {
            return check(&url);
        }
        let schema = stores::migrate(&url)?;
        say(&match schema.found {
            found if found == schema.current => format!("{url} has schema {found}, as it must"),
            0 => format!("{url} is new and has schema {} now", schema.current),
            found => format!("{url} had schema {found} and has schema {} now", schema.current),
        })?;
        Ok(Exit::Fine)
    }
}

fn check(url: &StoreUrl) -> Result<Exit, Failure> {
    let schema = stores::schema(url)?;
    if schema.found == schema.current {
        say(&format!("{url} has schema {}, as it must", schema.found))?;
        return Ok(Exit::Fine);
    }
    let (found, current) = (schema.found, schema.current);
    say(&format!("{url} has schema {found}, this version works with {current}"))?;
    Ok(Exit::Refused)
}
