//! The gateway as a process of its own, so that it can be killed like one.

use std::{
    fs::File,
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use super::setup::Setup;
use crate::cli::ANNOUNCEMENT;

/// How long a gateway may take to listen.
const READY_WAIT: Duration = Duration::from_secs(10);

/// The gateway's process. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Gateway {
    program: PathBuf,
    config: PathBuf,
    log: PathBuf,
    child: Child,
    address: SocketAddr,
    kills: usize,
}

impl Gateway {
    /// Starts a gateway on a free port, and waits until it listens.
    pub(super) async fn start(setup: &Setup) -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let (config, log) = (setup.config(), setup.log());
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (child, address) = spawn(&program, &config, &log, any).await?;
        Ok(Self { program, config, log, child, address, kills: 0 })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills the process as `kill -9` does, and waits until it is gone.
    pub(super) async fn kill(&mut self) -> io::Result<()> {
        self.kills += 1;
        self.child.kill().await
    }

    pub(super) const fn kills(&self) -> usize {
        self.kills
    }

    /// Starts it again on the same port and the same store.
    pub(super) async fn restart(&mut self) -> io::Result<()> {
        let (child, _) = spawn(&self.program, &self.config, &self.log, self.address).await?;
        self.child = child;
        Ok(())
    }

    /// Runs another command of the same program.
    pub(super) async fn command(&self, arguments: &[&str]) -> io::Result<Output> {
        Command::new(&self.program)
            .args(arguments)
            .arg("--config")
            .arg(&self.config)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
    }
}

async fn spawn(
    program: &Path,
    config: &Path,
    log: &Path,
    listen: SocketAddr,
) -> io::Result<(Child, SocketAddr)> {
    let log_file = File::options().create(true).append(true).open(log)?;
    let mut child = Command::new(program)
        .args(["serve", "--listen", &listen.to_string(), "--config"])
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log_file)
        .kill_on_drop(true)
        .spawn()?;
    let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut lines = BufReader::new(stdout).lines();
    let announced = async {
        while let Some(line) = lines.next_line().await? {
            if let Some((_, address)) = line.split_once(ANNOUNCEMENT) {
                return address.trim().parse().map_err(io::Error::other);
            }
        }
        let said = std::fs::read_to_string(log).unwrap_or_default();
        let last = said.lines().last().unwrap_or("it said nothing");
        Err(io::Error::other(format!("the gateway did not start: {last}")))
    };
    let address = tokio::time::timeout(READY_WAIT, announced)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    Ok((child, address))
}
