//! `semel reference`: every setting, from the code.

use clap::Args;

use super::exit::{Exit, Failure, say};
use crate::config::{default_file, reference_page};

/// Prints every setting with its type, default and meaning
#[derive(Args, Debug)]
pub(super) struct Reference {
    /// Prints a configuration file with every default instead of a Markdown page
    #[arg(long)]
    toml: bool,
    /// Prints the Markdown page; this is the default
    #[arg(long, conflicts_with = "toml")]
    markdown: bool,
}

impl Reference {
    pub(super) fn run(self) -> Result<Exit, Failure> {
        let text = if self.toml { default_file() } else { reference_page() };
        say(text.trim_end())?;
        Ok(Exit::Fine)
    }
}
