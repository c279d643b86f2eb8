//! `semel demo`: a payments API behind the gateway, to try by hand or to watch.

use std::{
    io::{self, IsTerminal},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use comfy_table::ContentArrangement;
use indicatif::ProgressBar;
use semel::{Clock, SystemClock, wire::IDEMPOTENCY_KEY};
use tokio::net::TcpListener;

use super::{
    exit::{Exit, Failure, say, with_causes},
    serve, table,
};
use crate::{
    Shutdown,
    config::Config,
    demo::{Api, Ledger, Report, Setup, Stage, StageError, run_name},
};

const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// How wide the table is: the last column is wrapped.
const TABLE_WIDTH: u16 = 118;

/// Starts a small payments API behind the gateway, to try by hand; or tries itself, with --run
#[derive(Args, Debug)]
pub(super) struct Demo {
    /// Tries everything itself, counts the charges, and exits with 1 if any intent was charged twice
    /// or lost
    #[arg(long)]
    run: bool,
    /// Keeps the files here instead of in a temporary folder
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Where the gateway listens; 127.0.0.1:8080 if that is free
    #[arg(long, value_name = "ADDRESS", conflicts_with = "run", value_parser = serve::address)]
    listen: Option<SocketAddr>,
    /// Prints the result as JSON
    #[arg(long, requires = "run")]
    json: bool,
}

impl Demo {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let setup = Setup::new(self.dir.as_deref())?;
        if self.run { watch(&setup, self.json).await } else { by_hand(&setup, self.listen).await }
    }
}

async fn watch(setup: &Setup, json: bool) -> Result<Exit, Failure> {
    let clock = SystemClock::new();
    let began = clock.monotonic();
    let progress = Progress::new(json);
    let mut stage = Stage::start(setup).await?;
    let played = tokio::select! {
        played = stage.play(|step| progress.step(step)) => Some(played),
        // The folder and the gateway's process go as this function ends.
        _ = tokio::signal::ctrl_c() => None,
    };
    progress.end();
    let report = played.ok_or_else(|| Failure::refused("interrupted"))??;
    if json {
        say(&report.json().to_string())?;
    } else {
        say(&shown(&report))?;
        say(&summary(&report, clock.monotonic().since(began)))?;
    }
    Ok(if report.is_fine() { Exit::Fine } else { Exit::Refused })
}

/// Says what happens while it happens: on a terminal in one line that moves, else a line each.
struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
}

impl Progress {
    fn new(quiet: bool) -> Self {
        let bar = (!quiet && io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { bar, quiet }
    }

    fn step(&self, step: &'static str) {
        match &self.bar {
            Some(bar) => bar.set_message(step),
            None if self.quiet => {}
            None => eprintln!("{step} …"),
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn shown(report: &Report) -> String {
    let mut table =
        table::plain(["what was done", "intents", "requests", "charges", "", "what came back"]);
    table.set_width(TABLE_WIDTH).set_content_arrangement(ContentArrangement::Dynamic);
    for step in &report.steps {
        let verdict = match (step.faults.is_empty(), step.control) {
            (false, _) => "WRONG",
            (true, true) => "the bug",
            (true, false) => "ok",
        };
        table.add_row([
            step.what.to_owned(),
            step.intents.to_string(),
            step.requests.to_string(),
            step.charges.to_string(),
            verdict.to_owned(),
            step.answers.clone(),
        ]);
    }
    table.trim_fmt()
}

fn summary(report: &Report, took: Duration) -> String {
    let mut lines = vec![String::new()];
    for step in &report.steps {
        lines.extend(step.faults.iter().map(|fault| format!("WRONG  {}: {fault}", step.what)));
    }
    let seconds = took.as_secs_f32();
    lines.push(if report.is_fine() {
        format!(
            "Through semel every intent was charged exactly once, by the API's own ledger. The \
             gateway was killed {} times. {seconds:.1} s",
            report.kills
        )
    } else {
        "The promise was broken. Please report this with the lines above.".into()
    });
    lines.join("\n")
}

async fn by_hand(setup: &Setup, listen: Option<SocketAddr>) -> Result<Exit, Failure> {
    let ledger = Ledger::open(&setup.ledger()).map_err(StageError::from)?;
    let api = Api::start(ledger).await?;
    setup.write(api.address)?;
    let config = Config::load(&setup.config())?;
    let listener = match listen {
        Some(address) => TcpListener::bind(address).await,
        None => match TcpListener::bind(LISTEN).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await,
        },
    };
    let listener = listener
        .map_err(|error| Failure::usage(format!("the gateway cannot listen there: {error}")))?;
    let address = listener.local_addr()?;
    let shutdown = Shutdown::new();
    shutdown.on_signals()?;
    let settings = config.gateway();
    let page = page(address, api.address, setup);
    let served = serve::up(&settings, listener, shutdown, || {
        if let Err(failure) = say(&page) {
            tracing::warn!(why = failure.message, "the page could not be printed");
        }
    });
    let _ended = served.await?;
    Ok(Exit::Fine)
}

fn page(gateway: SocketAddr, api: SocketAddr, setup: &Setup) -> String {
    let order = run_name();
    let post = |amount: &str| {
        format!(
            "curl -i http://{gateway}/payments -H '{IDEMPOTENCY_KEY}: order-{order}' \\\n     \
             -H 'content-type: application/json' \
             -d '{{\"order\":\"{order}\",\"amount\":\"{amount}\"}}'"
        )
    };
    let folder = setup.folder().display();
    format!(
        "A payments API that charges whenever it is asked, behind semel on http://{gateway}\n\n\
         1. Charge an order. It answers 201 with a payment.\n\n   {}\n\n\
         2. Send the same again, as a retry would. The same 201, byte for byte, marked\n   \
         idempotent-replayed; nothing is charged.\n\n   {}\n\n\
         3. The same key with another amount. 422: a key stands for one intent.\n\n   {}\n\n\
         What was really charged:  curl http://{api}/ledger\n\
         What semel keeps:         semel records list --config {folder}/semel.toml\n\n\
         Ctrl-C ends it.",
        post("10.00"),
        post("10.00"),
        post("99.00"),
    )
}

impl From<StageError> for Failure {
    fn from(error: StageError) -> Self {
        Self::refused(format!("the demo could not go on: {}", with_causes(&error)))
    }
}
