//! `semel-drill http`: drills an API by a plan.

use std::{
    fs::File,
    io::Write,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};

use super::{
    exit::{Exit, Failure, say},
    interruption::Interruption,
    progress::Watch,
    rules,
};
use crate::{
    effects::Effects,
    http::{self, Chance, Drill, Progress, Target, scenario},
    plan::{Plan, span},
    report::{Report, Show, Verdict, WIDTH_MAX},
};

/// The longest that `--patience` may ask for.
const PATIENCE_MAX: Duration = Duration::from_secs(86_400);

/// Drills an HTTP API by a plan: breaks it, retries, and counts the effects
///
/// The API must be yours: a drill charges, changes and deletes for real, by the hundred.
#[derive(Args, Debug)]
pub(super) struct Http {
    /// Where the API listens; otherwise the plan says
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// The plan: a file, or the name of a built-in one
    #[arg(long, value_name = "FILE|NAME")]
    plan: String,
    /// Tries these rules only, and the control
    #[arg(long, value_name = "RULE,…", value_delimiter = ',', value_parser = rules::known)]
    only: Vec<String>,
    /// Leaves these rules out
    #[arg(long, value_name = "RULE,…", value_delimiter = ',', value_parser = rules::known)]
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
    /// How long an expiry or a lost holder is waited for, such as 60s; otherwise the plan says
    #[arg(long, value_name = "DURATION", value_parser = patience)]
    patience: Option<Duration>,
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

impl Http {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let only = self.wanted()?;
        let drill = self.drill()?;
        // Opened before anything is asked: a drill whose report has no place is not begun.
        let junit = self.junit.as_ref().map(|path| {
            File::create(path)
                .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
        });
        let junit = junit.transpose()?;
        let report = drilled(&drill, &only).await?;
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

    /// The rules to try; none are all.
    fn wanted(&self) -> Result<Vec<String>, Failure> {
        let control = scenario::control().name;
        if self.skip.iter().any(|rule| rule == control) {
            let why =
                format!("`{control}` cannot be left out: without it no count can be believed");
            return Err(Failure::usage(why));
        }
        if self.skip.is_empty() {
            return Ok(self.only.clone());
        }
        let all = scenario::rules().map(|rule| rule.name);
        let wanted = all.filter(|name| {
            let is = |names: &[String]| names.iter().any(|known| known == name);
            !is(&self.skip) && (self.only.is_empty() || is(&self.only))
        });
        // The control stands for "nothing else": an empty list would be everything.
        let wanted: Vec<_> = wanted.chain([control]).map(str::to_owned).collect();
        Ok(wanted)
    }

    fn drill(&self) -> Result<Drill, Failure> {
        let mut plan = Plan::read(&self.plan)?;
        if let Some(patience) = self.patience {
            plan.bounds.patience = patience;
        }
        let url = self.target.as_ref().or(plan.target.as_ref()).ok_or_else(|| {
            Failure::usage(
                "the plan names no target: say `--target URL`, such as http://127.0.0.1:8080",
            )
        })?;
        let ca = self.ca.as_deref();
        // Also where nothing speaks TLS: who names a file means it.
        if ca.is_some() {
            semel_gateway::tls::client(ca).map_err(|error| Failure::usage(error.to_string()))?;
        }
        let target = Target::parse(url, ca)?;
        let effects = Effects::open(&plan.effects, &target, ca, plan.bounds.answer_wait)?;
        let seed = match self.seed.or(plan.bounds.seed) {
            Some(seed) => seed,
            None => {
                Chance::fresh_seed().map_err(|error| Failure::from(std::io::Error::other(error)))?
            }
        };
        Ok(Drill::new(plan, target, effects, seed))
    }
}

/// Runs the drill until its end, or until somebody interrupts it: then the API's process ends too.
async fn drilled(drill: &Drill, only: &[String]) -> Result<Report, Failure> {
    // Listened for before anything is started that would have to end.
    let mut interruption = Interruption::listen()?;
    let began = Instant::now();
    let watch = Watch::new(drill.plan.secrets.clone());
    let mut so_far: Vec<Verdict> = Vec::new();
    let ran = tokio::select! {
        verdicts = http::run(drill, only, |progress| {
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
        let names = scenario::wanted(only).map(|scenario| scenario.rule().name);
        names.filter(|rule| !reached(rule)).collect()
    } else {
        Vec::new()
    };
    Ok(Report {
        name: drill.plan.secrets.masked(&drill.plan.name),
        target: drill.target.url().to_owned(),
        contract: drill.plan.contract,
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

fn patience(text: &str) -> Result<Duration, String> {
    let patience = span(text).filter(|patience| *patience <= PATIENCE_MAX);
    patience.ok_or_else(|| "a duration of up to 24 hours, such as 90s or 5m".to_owned())
}
