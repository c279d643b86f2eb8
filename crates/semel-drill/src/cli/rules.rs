//! `semel-drill rules`: what an API with idempotency keys keeps, and what a consumer of messages does.

use clap::{Args, ValueEnum};

use super::exit::{Exit, Failure, say};
use crate::{
    consumer,
    http::scenario::{self, Rule},
    report::{rules_page, rules_table},
};

/// Lists every rule with its sentence
#[derive(Args, Debug)]
pub(super) struct Rules {
    /// Whose
    #[arg(value_enum, default_value_t = Of::Http)]
    of: Of,
    /// As the rows of a table in Markdown
    #[arg(long)]
    markdown: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Of {
    /// Of a consumer of messages
    Consumer,
    /// Of an HTTP API
    Http,
}

impl Rules {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let rules: Vec<Rule> = match self.of {
            Of::Consumer => consumer::rules().collect(),
            Of::Http => scenario::rules().collect(),
        };
        say(&if self.markdown { rules_page(rules) } else { rules_table(rules) })?;
        Ok(Exit::Fine)
    }
}
