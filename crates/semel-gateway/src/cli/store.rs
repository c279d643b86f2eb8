//! Which store a command works on.

use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::Failure;
use crate::{
    config::{Config, Files, StoreUrl, may_hold_password},
    settings::StoreSettings,
};

/// The store of a configuration, or one that is named.
#[derive(Args, Debug)]
pub(super) struct StoreArgs {
    /// The configuration that names the store and says what holds for the operations
    #[arg(long, short, global = true, default_value = "semel.toml", value_name = "FILE")]
    config: PathBuf,
    /// The store, such as sqlite:semel.db, postgres://USER@HOST/DATABASE or redis://HOST, instead of a
    /// configuration; the defaults hold for every operation
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,
    /// The schema of the store that --store names in PostgreSQL
    #[arg(long, global = true, value_name = "NAME", requires = "store")]
    schema: Option<String>,
}

impl StoreArgs {
    /// Returns the store, and the configuration that names it, if one does.
    pub(super) fn read(self) -> Result<(StoreSettings, Option<Config>), Failure> {
        let Some(text) = &self.store else {
            let config = Config::load_with(&self.config, Files::Ignored)?;
            return Ok((config.stored(), Some(config)));
        };
        let url = StoreUrl::parse(text, Path::new("")).ok_or_else(|| {
            // What is not understood is not repeated where it may hold a password.
            let shown = if may_hold_password(text) { "" } else { &format!(" {text}") };
            Failure::usage(format!(
                "--store{shown} is not a store; write sqlite:PATH, postgres://USER@HOST/DATABASE or \
                 redis://HOST"
            ))
        })?;
        let mut store = StoreSettings::from(url);
        if let Some(schema) = self.schema {
            store.postgres.schema = schema;
        }
        Ok((store, None))
    }
}
