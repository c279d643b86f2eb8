//! `semel relay`: the relay as a process of its own.

use std::path::PathBuf;

use clap::Args;
use tokio::net::TcpListener;

use super::exit::{Exit, Failure, say};
use crate::{
    Ended, ServeError, Shutdown,
    config::Config,
    relay::{RelayProcess, RelayingError},
    settings::AdminSettings,
    stores,
};

/// What is printed on the standard output before the destinations, once the relay runs.
const ANNOUNCEMENT: &str = "semel relays to ";

/// Relays the events of the store's outbox until SIGTERM or SIGINT; several may run, and one leads each
/// destination
#[derive(Args, Debug)]
pub(super) struct RelayArgs {
    /// The configuration
    #[arg(long, short, default_value = "semel.toml", value_name = "FILE")]
    config: PathBuf,
}

impl RelayArgs {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let config = Config::load(&self.config)?;
        let settings = config.relaying().ok_or_else(|| {
            Failure::usage("the configuration says nowhere for events to go: add [[destination]]")
        })?;
        let store = config.stored();
        let opened = stores::open(&store).await;
        let opened = opened.map_err(|error| ServeError::Store { url: store.url.clone(), error })?;
        let admin = match config.admin {
            Some(address) => {
                let bound = TcpListener::bind(address).await;
                Some(bound.map_err(|error| ServeError::Listen { address, error })?)
            }
            None => None,
        };
        let shutdown = Shutdown::new();
        shutdown.on_signals()?;
        let to = config.admin.map(AdminSettings::new);
        let relay = RelayProcess::start(&settings, opened, to, config.shutdown_wait).await?;
        let names: Vec<_> = config.destination.iter().map(|one| one.name.to_string()).collect();
        let names = names.join(", ");
        tracing::info!(destinations = names, "relaying");
        if let Err(failure) = say(&format!("{ANNOUNCEMENT}{names}")) {
            tracing::warn!(why = failure.message, "the destinations could not be printed");
        }
        match relay.run(admin, shutdown).await {
            Ended::Clean => Ok(Exit::Fine),
            Ended::CutShort => Err(Failure::refused(
                "ended before everything that was on its way was settled; it is sent again",
            )),
        }
    }
}

impl From<RelayingError> for Failure {
    fn from(error: RelayingError) -> Self {
        ServeError::from(error).into()
    }
}
