//! Who changes something, why, and whether they are asked first.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;
use semel::store::Actor;

use super::exit::{Failure, say};

/// How many rows are shown before a word is said about them.
const SHOWN: usize = 20;

/// Who does it, and why: kept in the audit.
#[derive(Args, Debug)]
pub(super) struct Signed {
    /// Who does it
    #[arg(long, env = "USER", value_parser = bounded::<255>)]
    actor: String,
    /// Why: kept in the audit
    #[arg(long, value_parser = bounded::<1000>)]
    note: String,
}

/// Who does it, and whether they are asked first.
#[derive(Args, Debug)]
pub(super) struct Who {
    #[command(flatten)]
    pub(super) signed: Signed,
    /// Does not ask before it changes anything
    #[arg(long, short)]
    yes: bool,
}

/// Lays out what is to be changed, a line each: the first ones, and how many more there are.
pub(super) fn seen<T>(rows: &[T], line: impl Fn(&T) -> String) -> String {
    let mut lines: Vec<_> = rows.iter().take(SHOWN).map(line).collect();
    if rows.len() > SHOWN {
        lines.push(format!("and {} more", rows.len() - SHOWN));
    }
    lines.join("\n")
}

fn bounded<const MAX: usize>(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.len() > MAX {
        return Err(format!("must have 1 to {MAX} bytes"));
    }
    Ok(text.to_owned())
}

impl Signed {
    pub(super) fn actor(&self) -> Actor {
        Actor { name: self.actor.as_str().into(), note: self.note.as_str().into() }
    }
}

impl Who {
    /// Refuses to begin where nobody said yes and nobody can be asked.
    pub(super) fn can_answer(&self) -> Result<(), Failure> {
        if self.yes || io::stdin().is_terminal() {
            return Ok(());
        }
        Err(Failure::usage(
            "the standard input is no terminal, so nobody can be asked: say --yes; nothing was changed",
        ))
    }

    /// Shows what was seen, unless the answer is for a program, and asks.
    pub(super) fn confirm(&self, json: bool, seen: &str, what: &str) -> Result<(), Failure> {
        if !json {
            say(seen)?;
        }
        if self.yes {
            return Ok(());
        }
        eprint!("\n{what} [y/N] ");
        io::stderr().flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        match answer.trim() {
            "y" | "Y" | "yes" => Ok(()),
            _ => Err(Failure::refused("nothing was changed")),
        }
    }
}
