//! `semel-drill stack`: gateways of this build and their store under trouble.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use semel::entropy::{Entropy, SystemEntropy};
use semel_testkit::servers::Major;

use super::exit::{Exit, Failure, say};
use crate::{
    aside::aside,
    stack::{OnLost, Progress, Report, Settings, StackError, Store, Trouble, Until, Upstream, run},
};

/// Drills Semel itself: gateways and their store under kills, cuts and skewed clocks
#[derive(Args, Debug)]
pub(super) struct StackArgs {
    /// Where the gateways keep their records
    #[arg(long, value_enum)]
    store: Store,
    /// The major of PostgreSQL
    #[arg(long, default_value = "18", value_parser = major)]
    major: Major,
    /// How many gateways share the store
    #[arg(long, default_value_t = 2)]
    gateways: usize,
    /// What the next caller meets when a holder was lost
    #[arg(long, value_enum, default_value = "hold")]
    on_lost: OnLost,
    /// What the upstream makes of a key it has seen; by default it honours keys where `rerun` needs
    /// it to
    #[arg(long, value_enum)]
    upstream: Option<Upstream>,
    /// The upstream always answers at once
    #[arg(long)]
    calm_upstream: bool,
    /// Begins so many intents
    #[arg(long, value_name = "N", conflicts_with = "time")]
    intents: Option<u64>,
    /// Begins intents for so long [default: 60s]
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    time: Option<Duration>,
    /// How many clients keep asking
    #[arg(long, default_value_t = 32)]
    clients: usize,
    /// Draws everything from this number [default: a new one, which is told]
    #[arg(long)]
    seed: Option<u64>,
    /// What is made to go wrong [default: kill,stop,cut,delay,restart]
    #[arg(long, value_enum, value_delimiter = ',')]
    trouble: Option<Vec<Trouble>>,
    /// Nothing is made to go wrong
    #[arg(long, conflicts_with = "trouble")]
    no_trouble: bool,
    /// Commits do not wait for the standby, which lags: a failover loses what was acknowledged, and
    /// the drill finds it
    #[arg(long)]
    lagging_standby: bool,
    /// How long each of the three hands that make trouble pauses, on average
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = span)]
    every: Duration,
    /// The lease of the operations
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = span)]
    lease: Duration,
    /// Keeps everything in this folder: configurations, logs, the file of the store
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Prints one JSON document
    #[arg(long)]
    json: bool,
    /// Writes the verdicts as JUnit's XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl StackArgs {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let (json, junit) = (self.json, self.junit.clone());
        let settings = self.settings()?;
        aside(format_args!("seed {}", settings.seed));
        // A server that does not run says so by a panic, in its own words.
        let drill = tokio::spawn(async move { run(&settings, &Progress::shown()).await });
        let stop = drill.abort_handle();
        let report = tokio::select! {
            done = drill => match done {
                Ok(done) => done?,
                Err(error) => return Err(not_found_out(format!("the drill broke off: {error}"))),
            },
            _ = tokio::signal::ctrl_c() => {
                stop.abort();
                return Err(not_found_out("interrupted".to_owned()));
            }
        };
        tell(&report, json, junit)
    }

    fn settings(self) -> Result<Settings, Failure> {
        let upstream = self.upstream.unwrap_or(match self.on_lost {
            OnLost::Hold => Upstream::Naive,
            OnLost::Rerun => Upstream::Keyed,
        });
        let usual = [Trouble::Kill, Trouble::Stop, Trouble::Cut, Trouble::Delay, Trouble::Restart];
        let trouble = match self.no_trouble {
            true => Vec::new(),
            false => self.trouble.unwrap_or_else(|| usual.into()),
        };
        let time = self.time.unwrap_or(Duration::from_secs(60));
        let seed = self.seed.unwrap_or_else(|| {
            // Six of the bytes: a number that every reader of JSON keeps.
            SystemEntropy.bytes()[..6].iter().fold(0, |seed, byte| (seed << 8) | u64::from(*byte))
        });
        Ok(Settings {
            program: std::env::current_exe()?,
            store: self.store,
            major: self.major,
            gateways: self.gateways,
            on_lost: self.on_lost,
            upstream,
            calm_upstream: self.calm_upstream,
            until: self.intents.map_or(Until::Time(time), Until::Intents),
            clients: self.clients,
            seed,
            trouble,
            lagging_standby: self.lagging_standby,
            every: self.every,
            lease: self.lease,
            folder: self.folder,
        })
    }
}

fn tell(report: &Report, json: bool, junit: Option<PathBuf>) -> Result<Exit, Failure> {
    if let Some(file) = junit {
        std::fs::write(file, report.junit())?;
    }
    say(&if json { format!("{:#}", report.json()) } else { report.table() })?;
    Ok(if report.is_good() { Exit::Fine } else { Exit::Broken })
}

const fn not_found_out(message: String) -> Failure {
    Failure { exit: Exit::NotFoundOut, message }
}

impl From<StackError> for Failure {
    fn from(error: StackError) -> Self {
        match error {
            StackError::Usage(message) => Self::usage(message),
            other => not_found_out(other.to_string()),
        }
    }
}

fn major(text: &str) -> Result<Major, String> {
    let found = Major::ALL.into_iter().find(|major| major.number().to_string() == text);
    found.ok_or_else(|| "write 15, 17 or 18".to_owned())
}

fn span(text: &str) -> Result<Duration, String> {
    let read = crate::plan::span(text).filter(|span| !span.is_zero());
    read.ok_or_else(|| "write 500ms, 30s or 5m".to_owned())
}
