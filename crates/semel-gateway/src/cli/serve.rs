//! `semel serve`: the gateway.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use tokio::net::TcpListener;

use super::exit::{Exit, Failure, say, with_causes};
use crate::{Ended, Gateway, ServeError, Settings, Shutdown, config::Config};

/// What is printed on the standard output before the address, once the gateway listens.
pub(crate) const ANNOUNCEMENT: &str = "semel listens on ";

/// Runs the gateway until SIGTERM or SIGINT
#[derive(Args, Debug)]
pub(super) struct Serve {
    /// The configuration
    #[arg(long, short, default_value = "semel.toml", value_name = "FILE")]
    config: PathBuf,
    /// Listens here instead of where the configuration says
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,
}

impl Serve {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let mut config = Config::load(&self.config)?;
        if config.is_for_a_relay_alone() {
            return Err(Failure::usage(
                "the configuration serves no requests: it has no tenant, no upstream and no operation; \
                 `semel relay` is what it is for",
            ));
        }
        config.listen = self.listen.unwrap_or(config.listen);
        let listener = listen(config.listen).await?;
        let address = listener.local_addr()?;
        let shutdown = Shutdown::new();
        shutdown.on_signals()?;
        let settings = config.gateway();
        let served = up(&settings, listener, shutdown, || {
            tracing::info!(%address, operations = settings.operations.len(), "listening");
            if let Err(failure) = say(&format!("{ANNOUNCEMENT}{address}")) {
                tracing::warn!(why = failure.message, "the address could not be printed");
            }
        });
        match served.await? {
            Ended::Clean => Ok(Exit::Fine),
            Ended::CutShort => Err(Failure::refused(
                "ended before everything that ran was stored; what was held keeps its lease",
            )),
        }
    }
}

/// Serves until the shutdown has ended, and tells when everything is ready for the first request.
pub(super) async fn up(
    settings: &Settings,
    listener: TcpListener,
    shutdown: Shutdown,
    ready: impl FnOnce(),
) -> Result<Ended, ServeError> {
    let admin = match settings.admin {
        Some(admin) => Some(
            TcpListener::bind(admin.address)
                .await
                .map_err(|error| ServeError::Listen { address: admin.address, error })?,
        ),
        None => None,
    };
    let gateway = Gateway::new(settings).await?;
    ready();
    Ok(gateway.serve(listener, admin, shutdown).await)
}

/// Reads where to listen.
pub(super) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "write an address and a port, such as 127.0.0.1:8080 or [::1]:8080")
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listening = TcpListener::bind(address).await;
    listening.map_err(|error| {
        Failure::usage(format!(
            "cannot listen on {address}: {error}; say another address by --listen or `listen`"
        ))
    })
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let exit = match &error {
            ServeError::Store { .. } => Exit::Store,
            _ => Exit::Usage,
        };
        Self { exit, message: with_causes(&error) }
    }
}
