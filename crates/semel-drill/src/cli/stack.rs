//! `semel-drill stack`: gateways of this build and their store under trouble.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use semel::entropy::{Entropy, SystemEntropy};
use semel_testkit::servers::{Major, RedisKind};
use tokio::time::timeout;

use super::{
    exit::{Exit, Failure, say},
    interruption::Interruption,
};
use crate::{
    aside::aside,
    stack::{
        Flush, OnLost, Progress, RedisSetup, Report, Settings, StackError, Store, Trouble, Until,
        Upstream, no_verdict_json, no_verdict_junit, run,
    },
};

/// How long what was started may take to end.
const END_WAIT: Duration = Duration::from_secs(10);

/// Drills Semel itself: gateways and their store under kills, cuts and skewed clocks
#[derive(Args, Debug)]
pub(super) struct StackArgs {
    /// Where the gateways keep their records
    #[arg(long, value_enum)]
    store: Store,
    /// The major of PostgreSQL
    #[arg(long, default_value = "18", value_parser = major)]
    major: Major,
    /// Which program serves where it is Redis: redis-7, redis-8 or valkey-9 [default: valkey-9]
    #[arg(long, value_parser = server)]
    server: Option<RedisKind>,
    /// When Redis flushes what it was told [default: always]
    #[arg(long, value_enum)]
    appendfsync: Option<Flush>,
    /// How many replicas of Redis must have a write before it is answered [default: 1 where there are
    /// any]
    #[arg(long, value_name = "N")]
    wait_replicas: Option<u32>,
    /// Nothing is answered before the disk of Redis has it
    #[arg(long)]
    wait_flushed: bool,
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
    /// Writes each effect with an event in one transaction, relays the events, and judges what arrives
    #[arg(long)]
    events: bool,
    /// The receiver loses events that it has confirmed, and the drill finds it
    #[arg(long)]
    forgetful_receiver: bool,
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
    /// What takes over lags. On PostgreSQL no commit waits for it: a failover loses what was
    /// acknowledged, and the drill finds it
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
        settings.check().map_err(Failure::usage)?;
        // Made before anything runs: a drill whose report has no place is not begun.
        if let Some(folder) = &settings.folder {
            std::fs::create_dir_all(folder).map_err(|error| no_place(folder, &error))?;
        }
        let junit = match &junit {
            Some(path) => Some(File::create(path).map_err(|error| no_place(path, &error))?),
            None => None,
        };
        aside(format_args!("seed {}", settings.seed));
        match drilled(settings).await {
            Ok(report) => tell(&report, json, junit),
            Err(failure) => {
                if let Some(mut file) = junit {
                    file.write_all(no_verdict_junit(&failure.message).as_bytes())?;
                }
                if json && failure.exit == Exit::NotFoundOut {
                    say(&format!("{:#}", no_verdict_json(&failure.message)))?;
                }
                Err(failure)
            }
        }
    }

    /// Refuses what is said of a server that is not there.
    fn check_server(&self) -> Result<(), Failure> {
        let of_redis = [
            ("--server", self.server.is_some()),
            ("--appendfsync", self.appendfsync.is_some()),
            ("--wait-replicas", self.wait_replicas.is_some()),
            ("--wait-flushed", self.wait_flushed),
        ];
        let said = of_redis.into_iter().find(|(_, is_said)| *is_said && !self.store.is_redis());
        match said {
            Some((flag, _)) => Err(Failure::usage(format!(
                "{flag} says something of Redis, and the store is another: leave it away"
            ))),
            None => Ok(()),
        }
    }

    fn settings(self) -> Result<Settings, Failure> {
        self.check_server()?;
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
            redis: RedisSetup {
                kind: self.server.unwrap_or(RedisKind::Valkey9),
                flush: self.appendfsync.unwrap_or(Flush::Always),
                wait_replicas: self.wait_replicas,
                wait_flushed: self.wait_flushed,
            },
            gateways: self.gateways,
            on_lost: self.on_lost,
            upstream,
            calm_upstream: self.calm_upstream,
            events: self.events,
            forgetful_receiver: self.forgetful_receiver,
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

/// Drills until the end, or until somebody interrupts it.
async fn drilled(settings: Settings) -> Result<Report, Failure> {
    let mut interruption = Interruption::listen()?;
    let progress = Arc::new(Progress::shown());
    let told = Arc::clone(&progress);
    // A server that does not run says so by a panic, in its own words.
    let mut drill = tokio::spawn(async move { run(&settings, &told).await });
    tokio::select! {
        done = &mut drill => match done {
            Ok(done) => Ok(done?),
            Err(error) => Err(not_found_out(format!("the drill broke off: {error}"))),
        },
        () = interruption.come() => {
            drill.abort();
            // What it started ends with it.
            drop(timeout(END_WAIT, drill).await);
            let seen = match progress.last() {
                last if last.is_empty() => "nothing was asked yet".to_owned(),
                last => last,
            };
            Err(not_found_out(format!("interrupted before its verdict; so far, {seen}")))
        }
    }
}

fn no_place(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("{}: {error}", path.display()))
}

fn tell(report: &Report, json: bool, junit: Option<File>) -> Result<Exit, Failure> {
    if let Some(mut file) = junit {
        file.write_all(report.junit().as_bytes())?;
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

fn server(text: &str) -> Result<RedisKind, String> {
    match text {
        "redis-7" => Ok(RedisKind::Redis7),
        "redis-8" => Ok(RedisKind::Redis8),
        "valkey-9" => Ok(RedisKind::Valkey9),
        _ => Err("write redis-7, redis-8 or valkey-9".to_owned()),
    }
}

fn span(text: &str) -> Result<Duration, String> {
    let read = crate::plan::span(text).filter(|span| !span.is_zero());
    read.ok_or_else(|| "write 500ms, 30s or 5m".to_owned())
}
