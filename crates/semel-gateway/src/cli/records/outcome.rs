//! The verdict that an operator spells out on the command line.

use std::path::Path;

use clap::Args;
use semel::{Outcome, decide::Verdict};

use crate::{bounded, cli::exit::Failure};

/// What was found out.
#[derive(Args, Debug)]
pub(super) struct Said {
    #[command(flatten)]
    which: WhichVerdict,
    /// The status that a retry gets: 200 to 399 for --done, 200 unless said; 400 to 599 for --failed
    #[arg(long, value_parser = clap::value_parser!(u16).range(200..=599), conflicts_with = "not_done")]
    status: Option<u16>,
    /// The body that a retry gets: a text, or @FILE. Without it a status that says enough by itself
    /// (204, 205, 304 and every 4xx) is replayed with no body; for another a retry is told that the
    /// answer was not kept, and gets the pointer
    #[arg(long, value_name = "TEXT|@FILE", conflicts_with = "not_done")]
    body: Option<String>,
    /// The media type of the body
    #[arg(long, default_value = "application/json", value_name = "TYPE", requires = "body")]
    content_type: String,
    /// The resource that the operation made
    #[arg(long, value_name = "KIND/ID", conflicts_with = "not_done")]
    pointer: Option<String>,
    /// For --not-done: keys derived for providers change, since a provider may keep a failure under
    /// the old ones
    #[arg(long, requires = "not_done")]
    new_incarnation: bool,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct WhichVerdict {
    /// The effect happened
    #[arg(long)]
    done: bool,
    /// The operation ended in a final failure; say its --status
    #[arg(long, requires = "status")]
    failed: bool,
    /// The effect did not happen: the next request with the same content runs
    #[arg(long)]
    not_done: bool,
}

impl Said {
    pub(super) fn verdict(self) -> Result<Verdict, Failure> {
        if self.which.not_done {
            return Ok(Verdict::NotDone { new_incarnation: self.new_incarnation });
        }
        let failed = self.which.failed;
        match (failed, self.status) {
            (false, Some(status @ 400..)) => {
                return Err(Failure::usage(format!(
                    "--status {status} says that it failed, and --done has 200 to 399; say --failed, or \
                 --not-done if nothing happened"
                )));
            }
            (true, Some(status @ ..400)) => {
                return Err(Failure::usage(format!(
                    "--status {status} says that it was done, and --failed has 400 to 599; say --done"
                )));
            }
            _ => {}
        }
        let outcome = self.outcome()?;
        Ok(if failed { Verdict::Failed(outcome) } else { Verdict::Done(outcome) })
    }

    fn outcome(self) -> Result<Outcome, Failure> {
        let status = self.status.unwrap_or(200);
        let mut outcome = match &self.body {
            Some(_) if is_bodiless(status) => {
                return Err(Failure::usage(format!("an answer of {status} has no body")));
            }
            None if is_bodiless(status) || (400..500).contains(&status) => {
                Outcome::new(status, Vec::new())
            }
            None => Outcome::without_body(status),
            Some(text) => {
                let body = match text.strip_prefix('@') {
                    Some(file) => bytes(Path::new(file))?,
                    None => text.clone().into_bytes(),
                };
                let content_type = self.content_type.clone().into_bytes();
                Outcome::new(status, body).header(http::header::CONTENT_TYPE.as_str(), content_type)
            }
        };
        if let Some(pointer) = &self.pointer {
            let (kind, id) = pointer
                .split_once('/')
                .filter(|(kind, id)| !kind.is_empty() && !id.is_empty())
                .ok_or_else(|| Failure::usage("--pointer is KIND/ID, such as payment/pay_7"))?;
            outcome = outcome.pointer(kind, id);
        }
        match outcome.broken_bound() {
            Some(bound) => Err(Failure::usage(bound)),
            None => Ok(outcome),
        }
    }
}

/// Says whether an answer of this status has no body.
const fn is_bodiless(status: u16) -> bool {
    matches!(status, 204 | 205 | 304)
}

fn bytes(file: &Path) -> Result<Vec<u8>, Failure> {
    let wrong = |error: std::io::Error| Failure::usage(format!("{}: {error}", file.display()));
    bounded::read(file, Outcome::BODY_MAX).map_err(wrong)
}
