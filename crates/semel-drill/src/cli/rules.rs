//! `semel-drill rules`: what an API with idempotency keys keeps.

use clap::Args;

use super::exit::{Exit, Failure, say};
use crate::{
    http::scenario,
    plan::hint,
    report::{rules_page, rules_table},
};

/// Lists every rule with its sentence
#[derive(Args, Debug)]
pub(super) struct Rules {
    /// As the rows of a table in Markdown
    #[arg(long)]
    markdown: bool,
}

impl Rules {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let rules = scenario::rules();
        say(&if self.markdown { rules_page(rules) } else { rules_table(rules) })?;
        Ok(Exit::Fine)
    }
}

/// Refuses a name that no rule has.
pub(super) fn known(name: &str) -> Result<String, String> {
    let names = || scenario::rules().map(|rule| rule.name);
    if names().any(|known| known == name) {
        return Ok(name.to_owned());
    }
    let near = hint(name, names());
    Err(format!("there is no such rule{near}; `semel-drill rules` lists them"))
}
