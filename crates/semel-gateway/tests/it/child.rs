//! The built gateway as a process of its own, so that it can be killed like one.

use std::{
    fs::File,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
};

use semel_testkit::servers::free_port;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::{command::semel, message::PATIENCE};

/// What the gateway prints before its address, once it listens.
const ANNOUNCEMENT: &str = "semel listens on ";

/// A gateway's process. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    folder: PathBuf,
    level: &'static str,
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Process {
    /// Starts a gateway by `semel.toml` in a folder, and waits until it listens.
    pub(crate) async fn start(folder: &Path) -> Self {
        Self::start_logging(folder, "info").await
    }

    /// Starts a gateway that logs at a level.
    pub(crate) async fn start_logging(folder: &Path, level: &'static str) -> Self {
        // Nobody else is given the port while the gateway is dead.
        let listen = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let (child, address) = spawn(folder, listen, level).await;
        Self { folder: folder.to_owned(), level, child, address }
    }

    /// Kills the process as `kill -9` does, and waits until it is gone.
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Starts it again on the same files and the same port.
    pub(crate) async fn restart(&mut self) {
        (self.child, self.address) = spawn(&self.folder, self.address, self.level).await;
    }

    /// Returns what the gateway logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("gateway.log")).unwrap_or_default()
    }
}

async fn spawn(folder: &Path, listen: SocketAddr, level: &str) -> (Child, SocketAddr) {
    let log = File::options().create(true).append(true).open(folder.join("gateway.log")).unwrap();
    let mut child = Command::from(semel(folder, &["serve", "--listen", &listen.to_string()]))
        .env("RUST_LOG", level)
        .kill_on_drop(true)
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let announced = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if let Some((_, address)) = line.split_once(ANNOUNCEMENT) {
                return Some(address.trim().parse().unwrap());
            }
        }
        None
    };
    let address = timeout(PATIENCE, announced).await.expect("the gateway says its address in time");
    let said = || std::fs::read_to_string(folder.join("gateway.log")).unwrap_or_default();
    let address = address.unwrap_or_else(|| panic!("the gateway did not start: {}", said()));
    (child, address)
}
