//! What the drills of an API and of a consumer have in common: what is tried, and how it is told.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};

use super::{
    exit::{Exit, Failure, say},
    interruption::Interruption,
    progress::Watch,
};
use crate::{
    http::{
        Chance, Drill, Progress, run_each,
        scenario::{self, Scenario},
    },
    plan::{Contract, hint, span},
    report::{Report, Show, Verdict, WIDTH_MAX},
};

/// The longest that `--patience` may ask for.
const PATIENCE_MAX: Duration = Duration::from_secs(86_400);

/// The options of a drill by a plan.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Tries these rules only, and the control
    #[arg(long, value_name = "RULE,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Leaves these rules out
    #[arg(long, value_name = "RULE,…", value_delimiter = ',')]
    skip: Vec<String>,
    /// Prints everything as one JSON document instead of a table
    #[arg(long)]
    json: bool,
    /// Writes JUnit's XML there too
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Whose exchanges stand below the table
    #[arg(long, value_enum, default_value_t = Shown::Broken, value_name = "WHICH")]
    show: Shown,
    /// Trusts the certificates of this PEM file, under https and at the database
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// How long an expiry, a lost holder or an acknowledgement is waited for, such as 60s; otherwise the
    /// plan says
    #[arg(long, value_name = "DURATION", value_parser = patience)]
    pub(super) patience: Option<Duration>,
    /// What chance starts from, to have it again; otherwise the plan says, or it is drawn
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shown {
    /// Of every rule that was tried
    All,
    /// Of those that are broken or could not be found out
    Broken,
}

impl Options {
    /// The file of trusted certificates, which is read also where nothing speaks TLS: who names one
    /// means it.
    pub(super) fn ca(&self) -> Result<Option<&Path>, Failure> {
        let ca = self.ca.as_deref();
        if ca.is_some() {
            semel_gateway::tls::client(ca).map_err(|error| Failure::usage(error.to_string()))?;
        }
        Ok(ca)
    }

    /// What chance starts from.
    pub(super) fn seed(&self, of_plan: Option<u64>) -> Result<u64, Failure> {
        match self.seed.or(of_plan) {
            Some(seed) => Ok(seed),
            None => {
                Chance::fresh_seed().map_err(|error| Failure::from(std::io::Error::other(error)))
            }
        }
    }

    /// Refuses a name that no rule has, before anything is read or asked.
    pub(super) fn check(&self, rules: &[&'static str]) -> Result<(), Failure> {
        let unknown =
            self.only.iter().chain(&self.skip).find(|name| !rules.contains(&name.as_str()));
        if let Some(name) = unknown {
            let near = hint(name, rules.iter().copied());
            let why = format!("there is no rule `{name}`{near}; `semel-drill rules` lists them");
            return Err(Failure::usage(why));
        }
        let control = scenario::control().name;
        if self.skip.iter().any(|rule| rule == control) {
            let why =
                format!("`{control}` cannot be left out: without it no count can be believed");
            return Err(Failure::usage(why));
        }
        Ok(())
    }

    fn wants(&self, rule: &str) -> bool {
        let is = |names: &[String]| names.iter().any(|known| known == rule);
        rule == scenario::control().name
            || (!is(&self.skip) && (self.only.is_empty() || is(&self.only)))
    }

    /// Drills, and tells what was found.
    pub(super) async fn tell(
        self,
        drill: &Drill,
        all: Vec<&dyn Scenario>,
        contract: Option<Contract>,
    ) -> Result<Exit, Failure> {
        // Opened before anything is asked: a drill whose report has no place is not begun.
        let junit = self.junit.as_ref().map(|path| {
            File::create(path)
                .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
        });
        let junit = junit.transpose()?;
        let wanted: Vec<_> = all.into_iter().filter(|one| self.wants(one.rule().name)).collect();
        let report = drilled(drill, &wanted, contract).await?;
        if let Some(mut file) = junit {
            file.write_all(report.junit().as_bytes())?;
        }
        if self.json {
            say(&report.json().to_string())?;
        } else {
            say(&report.table(self.show.into(), columns()))?;
        }
        Ok(report.outcome().into())
    }
}

/// Runs the drill until its end, or until somebody interrupts it: then the process under drill ends too.
async fn drilled(
    drill: &Drill,
    scenarios: &[&dyn Scenario],
    contract: Option<Contract>,
) -> Result<Report, Failure> {
    // Listened for before anything is started that would have to end.
    let mut interruption = Interruption::listen()?;
    let began = Instant::now();
    let watch = Watch::new(drill.plan.secrets.clone());
    let mut so_far: Vec<Verdict> = Vec::new();
    let ran = tokio::select! {
        verdicts = run_each(drill, scenarios, |progress| {
            watch.saw(&progress);
            if let Progress::Ended(verdict) = progress {
                so_far.push(verdict.clone());
            }
        }) => Some(verdicts),
        () = interruption.come() => None,
    };
    watch.end();
    let interrupted = ran.is_none();
    let verdicts = ran.unwrap_or(so_far);
    let reached = |rule: &str| verdicts.iter().any(|verdict| verdict.rule.name == rule);
    let not_reached = if interrupted {
        let names = scenarios.iter().map(|scenario| scenario.rule().name);
        names.filter(|rule| !reached(rule)).collect()
    } else {
        Vec::new()
    };
    Ok(Report {
        name: drill.plan.secrets.masked(&drill.plan.name),
        target: match drill.program() {
            // In one line, whatever a script looks like.
            Some(program) => {
                let words: Vec<_> =
                    program.start.iter().flat_map(|word| word.split_whitespace()).collect();
                words.join(" ")
            }
            None => drill.target.url().to_owned(),
        },
        program: drill.program().cloned(),
        contract,
        seed: drill.seed,
        took: began.elapsed(),
        interrupted,
        not_reached,
        verdicts,
        secrets: drill.plan.secrets.clone(),
    })
}

/// The columns of the terminal; into a file as many as a table has at most.
fn columns() -> u16 {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 => size.ws_col,
        _ => WIDTH_MAX,
    }
}

impl From<Shown> for Show {
    fn from(shown: Shown) -> Self {
        match shown {
            Shown::All => Self::All,
            Shown::Broken => Self::Broken,
        }
    }
}

/// Says that neither the plan nor the command line names a target.
pub(super) fn no_target() -> Failure {
    Failure::usage("the plan names no target: say `--target URL`, such as http://127.0.0.1:8080")
}

fn patience(text: &str) -> Result<Duration, String> {
    let patience = span(text).filter(|patience| *patience <= PATIENCE_MAX);
    patience.ok_or_else(|| "a duration of up to 24 hours, such as 90s or 5m".to_owned())
}
