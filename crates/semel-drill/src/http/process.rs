//! The API's own process: started, killed as by a crash, stopped as by a deploy.

use std::{
    io::{Read as _, Seek as _, SeekFrom},
    process::Stdio,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    process::{Child, Command},
    sync::{Mutex, OnceCell},
    time::{Instant, sleep, timeout},
};

use super::{
    exchange::{How, Request},
    target::Target,
};
use crate::plan::{Drilled, ProcessSpec};

/// How long the API may take until it is ready, or until it has stopped.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is asked whether it is ready.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// How much of what it said last is shown.
const SAID_BYTES: i64 = 1500;

/// What starts a program that ends with the drill, also where the drill is killed and ends nothing itself.
/// The kernel is asked by a program: a call of our own would be unsafe code.
const DEATH: [&str; 4] = ["setpriv", "--pdeathsig", "KILL", "--"];

/// The API's process. Dropping it kills it with everything that it started.
#[derive(Debug)]
pub(crate) struct Process {
    spec: ProcessSpec,
    target: Target,
    of: Drilled,
    running: Mutex<Option<Running>>,
    /// Whether this system can end a process with the one that started it.
    dies_with_us: OnceCell<bool>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    group: Option<Pid>,
    /// What it writes to its output and its errors.
    said: std::fs::File,
}

/// Tries whether this system can end a process with the one that started it.
async fn dies_with_us() -> bool {
    let mut tried = Command::new(DEATH[0]);
    tried.args(&DEATH[1..]).arg("true").stdin(Stdio::null());
    let ended = tried.stdout(Stdio::null()).stderr(Stdio::null()).status().await;
    ended.is_ok_and(|status| status.success())
}

impl Process {
    pub(crate) fn new(spec: &ProcessSpec, target: &Target, of: Drilled) -> Self {
        Self {
            spec: spec.clone(),
            target: target.clone(),
            of,
            running: Mutex::new(None),
            dies_with_us: OnceCell::new(),
        }
    }

    /// Starts it, and waits until it is ready.
    pub(crate) async fn start(&self) -> Result<(), String> {
        let mut running = self.running.lock().await;
        self.until_silent().await?;
        let started =
            self.spawn(*self.dies_with_us.get_or_init(dies_with_us).await).map_err(|error| {
                let program = self.spec.start.first().map_or("nothing", String::as_str);
                format!("`{program}` does not start: {error}")
            })?;
        self.until_ready(running.insert(started)).await
    }

    /// Kills it and everything that it started, as a crash does.
    pub(crate) async fn kill(&self) {
        if let Some(mut running) = self.running.lock().await.take() {
            running.signal(Signal::KILL);
            // It is gone either way: nobody else waits for it.
            drop(running.child.wait().await);
        }
    }

    /// Asks it to end, as a deploy does, and waits until it has.
    pub(crate) async fn stop(&self) -> Result<(), String> {
        let Some(mut running) = self.running.lock().await.take() else { return Ok(()) };
        running.signal(Signal::TERM);
        match timeout(PATIENCE, running.child.wait()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(format!(
                "{} still runs {} s after it was asked to end",
                self.of.who(),
                PATIENCE.as_secs()
            )),
        }
    }

    /// Waits until nothing listens any more: what a killed process started may take a moment to go.
    async fn until_silent(&self) -> Result<(), String> {
        let began = Instant::now();
        while self.target.connect().await.is_ok() {
            if began.elapsed() > Duration::from_secs(5) {
                return Err(format!(
                    "something listens at {} already, and the plan has the drill start {} itself",
                    self.target.url(),
                    self.of.who()
                ));
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    fn spawn(&self, dies_with_us: bool) -> std::io::Result<Running> {
        let said = tempfile::tempfile()?;
        let (program, arguments) = self.spec.start.split_first().ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::InvalidInput, "the plan names no program")
        })?;
        let mut command = if dies_with_us {
            let mut command = Command::new(DEATH[0]);
            command.args(&DEATH[1..]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.args(arguments).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said.try_clone()?);
        if let Some(folder) = &self.spec.folder {
            command.current_dir(folder);
        }
        let child = command.spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        Ok(Running { child, group, said })
    }

    async fn until_ready(&self, running: &mut Running) -> Result<(), String> {
        let ready = Request {
            method: "GET".into(),
            path: self.spec.ready.clone(),
            headers: Vec::new(),
            body: bytes::Bytes::new(),
        };
        let began = Instant::now();
        loop {
            let got = self.target.send(&ready, How::Whole, PATIENCE).await;
            if got.answer().is_some_and(|answer| (200..300).contains(&answer.status)) {
                return Ok(());
            }
            if let Ok(Some(status)) = running.child.try_wait() {
                return Err(format!(
                    "{} ended before it was ready: {status}{}",
                    self.of.who(),
                    running.last()
                ));
            }
            if began.elapsed() > PATIENCE {
                return Err(format!(
                    "{} is not ready after {} s: {} got {got}{}",
                    self.of.who(),
                    PATIENCE.as_secs(),
                    self.spec.ready,
                    running.last()
                ));
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Running {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It fails only if nobody of the group is left.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Returns what it said last, as half a sentence.
    fn last(&mut self) -> String {
        let mut said = Vec::new();
        let end = self.said.seek(SeekFrom::End(0)).unwrap_or(0);
        let back = SAID_BYTES.min(i64::try_from(end).unwrap_or(SAID_BYTES));
        let read =
            self.said.seek(SeekFrom::End(-back)).and_then(|_| self.said.read_to_end(&mut said));
        match (read, String::from_utf8_lossy(&said).trim()) {
            (Err(_), _) | (_, "") => String::new(),
            (Ok(_), said) => format!("; it said last: {said}"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
