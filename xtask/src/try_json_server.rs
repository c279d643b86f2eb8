//! `cargo xtask try-json-server`: fifty requests with one key at once make one row, in somebody else's server behind
//! the gateway and in an axum program with the layer, and all fifty get the same bytes.

mod callers;
mod client;
mod servers;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use self::callers::{CALLERS, Call, Caller};
use self::servers::Server;
use crate::{install, shell};

/// The last version that runs on the Node of Debian 12.
const JSON_SERVER: (&str, &str) = ("json-server", "0.17.4");

/// The program with the layer.
const EXAMPLE: &str = "axum_payments";

/// How long json-server holds every request, so that all callers come while the first one runs.
const DELAY_MS: u32 = 400;

/// How the result is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What fifty callers with one key met.
#[derive(Debug)]
struct Trial {
    name: &'static str,
    rows: usize,
    callers: Vec<Caller>,
}

/// Runs every trial, prints a table, and fails if any of them does not hold.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let quiet = arguments.json;
    let package = install::node_package(JSON_SERVER.0, JSON_SERVER.1, quiet)?;
    let (gateway, example) = build(quiet)?;
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let mut trials = before_json_server(&package, &gateway, folder.path())?;
    trials.push(in_axum(&example, folder.path())?);
    match arguments.json {
        true => println!("{}", json!(trials.iter().map(Trial::json).collect::<Vec<_>>())),
        false => print(&trials),
    }
    let failed: Vec<_> = trials.iter().filter_map(|t| Some((t.name, t.wrong()?))).collect();
    ensure!(failed.is_empty(), "{failed:?}");
    Ok(())
}

/// Builds the gateway and the axum example as the tests do, and returns where they lie.
fn build(quiet: bool) -> Result<(PathBuf, PathBuf)> {
    let what = ["--workspace", "--bin", "semel", "--example", EXAMPLE];
    let arguments = [&["build", "--locked"], &what[..]].concat();
    match quiet {
        true => drop(shell::read(shell::cargo(&arguments))?),
        false => shell::show(shell::cargo(&arguments))?,
    }
    let debug = shell::target().join("debug");
    Ok((debug.join("semel"), debug.join("examples").join(EXAMPLE)))
}

/// The gateway before json-server, once where callers wait and once where they are sent away.
fn before_json_server(package: &Path, gateway: &Path, folder: &Path) -> Result<Vec<Trial>> {
    let upstream = servers::json_server(package, folder, DELAY_MS)?;
    std::fs::write(folder.join("semel.toml"), configuration(upstream.address))
        .context("cannot write the gateway's configuration")?;
    let gateway = Server::announced(
        shell::command(gateway, &["serve", "--config", "semel.toml", "--listen", "127.0.0.1:0"]),
        folder,
        "semel listens on ",
    )?;
    let trial = |name, path| -> Result<Trial> {
        let callers = callers::at_once(&Call { address: gateway.address, path });
        Ok(Trial { name, rows: rows(upstream.address, path)?, callers })
    };
    Ok(vec![
        trial("gateway before json-server, callers wait", "/payments")?,
        trial("gateway before json-server, callers get 409", "/orders")?,
    ])
}

/// The layer in the axum example.
fn in_axum(example: &Path, folder: &Path) -> Result<Trial> {
    let command = shell::command(example, &["127.0.0.1:0", "."]);
    let server = Server::announced(command, &servers::folder(folder, "axum")?, "listening on ")?;
    let path = "/payments";
    let callers = callers::at_once(&Call { address: server.address, path });
    let rows = rows(server.address, path)?;
    Ok(Trial { name: "layer in the axum example, callers wait", rows, callers })
}

fn configuration(upstream: SocketAddr) -> String {
    format!(
        "store = \"sqlite:semel.db\"\nreplay_auth = \"none\"\n\
         [tenant]\nsource = \"single_tenant\"\n\
         [[upstream]]\nname = \"json-server\"\nurl = \"http://{upstream}\"\n\
         [[operation]]\nname = \"payments.create\"\nmethod = \"POST\"\npath = \"/payments\"\n\
         [[operation]]\nname = \"orders.create\"\nmethod = \"POST\"\npath = \"/orders\"\n\
         in_progress = \"conflict\"\n"
    )
}

/// Counts the rows that a server shows.
fn rows(server: SocketAddr, path: &str) -> Result<usize> {
    let answer = client::send(server, "GET", path, None, "").context("cannot count the rows")?;
    let rows: Value = serde_json::from_slice(&answer.body).context("the rows are not JSON")?;
    Ok(rows.as_array().context("the rows are no list")?.len())
}

impl Trial {
    fn count(&self, which: impl Fn(&Caller) -> bool) -> usize {
        self.callers.iter().filter(|caller| which(caller)).count()
    }

    /// How many callers got the bytes that the first one got.
    fn equal(&self) -> usize {
        let first = self.callers.iter().find_map(|caller| caller.answer.as_ref().ok());
        self.count(|caller| {
            let answer = caller.answer.as_ref().ok();
            answer.is_some_and(|answer| {
                answer.status == 201 && first.is_some_and(|first| first.body == answer.body)
            })
        })
    }

    fn replayed(&self) -> usize {
        self.count(|caller| caller.answer.as_ref().is_ok_and(|answer| answer.replayed))
    }

    fn sent_away(&self) -> usize {
        self.count(|caller| caller.sent_away > 0)
    }

    /// What does not hold, if anything.
    fn wrong(&self) -> Option<String> {
        if let Some(Err(why)) = self.callers.iter().map(|c| &c.answer).find(|a| a.is_err()) {
            return Some(format!("a caller got no answer: {why}"));
        }
        let (rows, equal, replayed) = (self.rows, self.equal(), self.replayed());
        if rows != 1 {
            return Some(format!("{rows} rows"));
        }
        if equal != CALLERS {
            return Some(format!("only {equal} callers got the same bytes"));
        }
        (replayed != CALLERS - 1).then(|| format!("{replayed} replays"))
    }

    fn json(&self) -> Value {
        json!({
            "trial": self.name,
            "callers": self.callers.len(),
            "rows": self.rows,
            "byte_equal": self.equal(),
            "replayed": self.replayed(),
            "sent_away": self.sent_away(),
            "wrong": self.wrong(),
        })
    }
}

fn print(trials: &[Trial]) {
    println!(
        "\n{:<46}{:>8}{:>6}{:>12}{:>10}{:>10}  verdict",
        "50 POSTs with one key at once", "callers", "rows", "same bytes", "replays", "told 409"
    );
    for trial in trials {
        println!(
            "{:<46}{:>8}{:>6}{:>12}{:>10}{:>10}  {}",
            trial.name,
            trial.callers.len(),
            trial.rows,
            trial.equal(),
            trial.replayed(),
            trial.sent_away(),
            trial.wrong().unwrap_or_else(|| "holds".into())
        );
    }
}

#[cfg(test)]
mod tests {
    use super::client::Answer;
    use super::*;

    fn trial(rows: usize, body: impl Fn(usize) -> &'static str) -> Trial {
        let caller = |number| {
            let body = body(number).as_bytes().to_vec();
            Caller { sent_away: 0, answer: Ok(Answer { status: 201, replayed: number > 0, body }) }
        };
        Trial { name: "a", rows, callers: (0..CALLERS).map(caller).collect() }
    }

    #[test]
    fn one_row_and_fifty_times_the_same_bytes_hold() {
        assert_eq!(trial(1, |_| "{}").wrong(), None);
    }

    #[test]
    fn a_second_row_another_body_a_second_run_and_a_lost_caller_do_not() {
        assert_eq!(trial(2, |_| "{}").wrong().unwrap(), "2 rows");
        let other = trial(1, |number| if number == 7 { "{ }" } else { "{}" });
        assert_eq!(other.wrong().unwrap(), "only 49 callers got the same bytes");
        let mut twice = trial(1, |_| "{}");
        twice.callers[9].answer.as_mut().unwrap().replayed = false;
        assert_eq!(twice.wrong().unwrap(), "48 replays");
        let mut lost = trial(1, |_| "{}");
        lost.callers[3].answer = Err(anyhow::anyhow!("reset"));
        assert_eq!(lost.wrong().unwrap(), "a caller got no answer: reset");
    }
}
