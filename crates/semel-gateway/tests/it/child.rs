//! The built gateway as a process of its own, so that it can be killed like one.

use std::{
    fs::File,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicU16, Ordering},
};

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
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Process {
    /// Starts a gateway by `semel.toml` in a folder, and waits until it listens.
    pub(crate) async fn start(folder: &Path, listen: SocketAddr) -> Self {
        let (child, address) = spawn(folder, listen).await;
        Self { folder: folder.to_owned(), child, address }
    }

    /// Kills the process as `kill -9` does, and waits until it is gone.
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Starts it again on the same files and the same port.
    pub(crate) async fn restart(&mut self) {
        (self.child, self.address) = spawn(&self.folder, self.address).await;
    }

    /// Returns what the gateway logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("gateway.log")).unwrap_or_default()
    }
}

/// A port that nothing of this machine takes by chance while its gateway is dead: it lies below those
/// that are given to whoever asks for any, and no test is given it twice.
pub(crate) fn port_of_its_own() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Another run of these tests begins elsewhere.
    let first = 16_000 + u16::try_from(std::process::id() % 150).unwrap() * 100;
    let ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::SeqCst));
    let mut addresses = ports.take(500).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let free = addresses.find(|address| std::net::TcpListener::bind(address).is_ok());
    free.expect("a free port below the ephemeral ones")
}

async fn spawn(folder: &Path, listen: SocketAddr) -> (Child, SocketAddr) {
    let log = File::options().create(true).append(true).open(folder.join("gateway.log")).unwrap();
    let mut child = Command::from(semel(folder, &["serve", "--listen", &listen.to_string()]))
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
