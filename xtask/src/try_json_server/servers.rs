//! The programs of a trial, each ended with its guard.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::shell;

/// How long a program may take until it listens.
const READY_WAIT: Duration = Duration::from_secs(30);

/// A running program. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

impl Server {
    /// Starts a program that prints its address behind some words, and waits for it.
    pub(super) fn announced(mut command: Command, folder: &Path, words: &str) -> Result<Self> {
        let log = std::fs::File::create(folder.join("program.log"))?;
        command.current_dir(folder).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let output = child.stdout.take().context("the program has no output")?;
        let (found, address) = mpsc::channel();
        let words = words.to_owned();
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            for line in lines {
                let said = line.split_once(&words).and_then(|(_, said)| said.trim().parse().ok());
                // Nobody waits any more after the first.
                let _told = said.map(|address: SocketAddr| found.send(address));
            }
        });
        // Ended with the guard if it does not listen in time.
        let mut server = Self { address: SocketAddr::from(([127, 0, 0, 1], 0)), child };
        let Ok(address) = address.recv_timeout(READY_WAIT) else {
            let log = std::fs::read_to_string(folder.join("program.log")).unwrap_or_default();
            bail!("{command:?} does not listen: {}", log.trim());
        };
        server.address = address;
        Ok(server)
    }
}

/// Starts json-server on an empty file, and waits until it answers.
pub(super) fn json_server(package: &Path, folder: &Path, delay_ms: u32) -> Result<Server> {
    let folder = self::folder(folder, "json-server")?;
    std::fs::write(folder.join("db.json"), r#"{"payments":[],"orders":[]}"#)?;
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let program = package.join("lib/cli/bin.js");
    let program = program.to_str().context("the target folder's name is not UTF-8")?;
    let (port, delay) = (address.port().to_string(), delay_ms.to_string());
    let options = ["--host", "127.0.0.1", "--port", &port, "--delay", &delay, "--quiet"];
    let mut command = shell::command("node", &[&[program], &options[..], &["db.json"]].concat());
    command.current_dir(&folder).stdout(Stdio::null());
    let child = command.spawn().context("cannot start json-server")?;
    let mut server = Server { address, child };
    let deadline = Instant::now() + READY_WAIT;
    while TcpStream::connect(address).is_err() {
        if server.child.try_wait()?.is_some() || Instant::now() > deadline {
            bail!("json-server does not listen on {address}");
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(server)
}

/// Makes a folder in a folder.
pub(super) fn folder(above: &Path, name: &str) -> Result<PathBuf> {
    let folder = above.join(name);
    std::fs::create_dir_all(&folder).context("cannot make a folder")?;
    Ok(folder)
}
