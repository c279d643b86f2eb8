//! A gateway under drill: a process of this build, killed and started at will.

use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use semel_testkit::{
    http::{Wire, request},
    servers::{Process, free_port},
};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{sleep, timeout},
};

use super::{StackError, intent::OPERATIONS, settings::Settings, skew::Skew};

/// How long one may take until it is ready, again and again started.
const READY_WAIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The shortest lease of a relay.
const RELAY_LEASE_MIN: Duration = Duration::from_secs(1);

/// Where a gateway's ways lead: to the upstream and, where there are events, to their receiver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ways {
    pub(super) upstream: SocketAddr,
    pub(super) receiver: Option<SocketAddr>,
}

/// One gateway.
#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) number: usize,
    /// Where clients connect; that stays.
    pub(super) address: SocketAddr,
    admin: SocketAddr,
    program: PathBuf,
    folder: PathBuf,
    skew: Option<Skew>,
    process: Option<Process>,
}

impl Gateway {
    /// Sets one up in a folder of its own; it is not started yet.
    pub(super) fn new(
        settings: &Settings,
        number: usize,
        folder: PathBuf,
        store: &str,
        ways: Ways,
    ) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        let any = || SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let (address, admin) = (any(), any());
        fs::write(folder.join("semel.toml"), config(settings, store, ways, address, admin))?;
        let program = settings.program.clone();
        Ok(Self { number, address, admin, program, folder, skew: None, process: None })
    }

    /// Gives it a clock that may jump, from its next start on.
    pub(super) fn set_skew(&mut self, skew: Skew) {
        self.skew = Some(skew);
    }

    /// Returns its clock, if it may jump.
    pub(super) const fn skew(&self) -> Option<&Skew> {
        self.skew.as_ref()
    }

    /// Starts it, as often as it takes while the store is away, and waits until it is ready.
    pub(super) async fn start(&mut self) -> Result<(), StackError> {
        let deadline = Instant::now() + READY_WAIT;
        while Instant::now() < deadline {
            self.process = Some(self.spawn()?);
            while Instant::now() < deadline && self.ended().is_none() {
                if self.is_ready().await {
                    return Ok(());
                }
                sleep(LOOK_EVERY).await;
            }
        }
        Err(StackError::Stuck(format!(
            "gateway {} is not ready: {}",
            self.number,
            self.last_words()
        )))
    }

    /// Says how it ended, if it did.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.as_mut().and_then(Process::ended)
    }

    /// Kills it.
    pub(super) fn kill(&mut self) {
        self.process.as_mut().into_iter().for_each(Process::kill);
    }

    /// Asks it to end, and waits until it has.
    pub(super) async fn terminate(&mut self) -> Result<(), StackError> {
        let Some(process) = &mut self.process else { return Ok(()) };
        process.signal("TERM");
        let ended = process.until_ended(READY_WAIT).await;
        ended.map(drop).map_err(|error| StackError::Stuck(error.to_string()))
    }

    /// Stops it in the middle of what it does, and waits until it stands still.
    pub(super) fn freeze(&self) {
        self.process.iter().for_each(Process::freeze);
    }

    /// Sends a signal, such as `STOP`.
    pub(super) fn signal(&self, name: &str) {
        self.process.iter().for_each(|process| process.signal(name));
    }

    /// Returns the lines of its log that a person should see.
    pub(super) fn last_words(&self) -> String {
        let log = fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let lines: Vec<_> = log.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
    }

    fn spawn(&self) -> io::Result<Process> {
        let log = File::options().create(true).append(true).open(self.log())?;
        let errors = log.try_clone()?;
        Ok(Process::start(&self.program, |command| {
            // Whatever goes wrong is told once by the drill: of a storm, the errors are enough.
            command.args(["gateway", "--log", "error", "serve", "--config", "semel.toml"]);
            command.envs(self.skew.iter().flat_map(Skew::environment));
            command.current_dir(&self.folder).stdin(Stdio::null()).stdout(log).stderr(errors);
        }))
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    async fn is_ready(&self) -> bool {
        let asked = async {
            let mut wire = Wire::new(TcpStream::connect(self.admin).await.ok()?);
            wire.io.write_all(&request("GET /readyz", &[], "")).await.ok()?;
            wire.answer("GET").await
        };
        matches!(timeout(Duration::from_secs(2), asked).await, Ok(Some(told)) if told.status() == 200)
    }
}

/// The spans are short, so that a lost holder is soon decided.
fn config(
    settings: &Settings,
    store: &str,
    ways: Ways,
    address: SocketAddr,
    admin: SocketAddr,
) -> String {
    let lease = settings.lease.as_millis();
    let answer_wait = settings.answer_wait().as_millis();
    let on_lost = settings.on_lost.word();
    let upstream = ways.upstream;
    let durable = settings.redis.is_durable(settings.store);
    let mut text = format!(
        r#"listen = "{address}"
admin = "{admin}"
store = "{store}"
replay_auth = "none"
shutdown_wait = "{answer_wait}ms"

[tenant]
source = "single_tenant"

[[upstream]]
name = "shop"
url = "http://{upstream}"
trusted = true
connect_wait = "1s"
answer_wait = "{answer_wait}ms"
circuit_for = "250ms"
"#
    );
    text += &settings.redis.section(settings.store);
    for (name, path, in_progress) in OPERATIONS {
        text += &format!(
            r#"
[[operation]]
name = "{name}"
method = "POST"
path = "{path}"
lease = "{lease}ms"
wait = "{lease}ms"
settle_for = "{answer_wait}ms"
on_lost = "{on_lost}"
durable = {durable}
in_progress = "{in_progress}"
"#
        );
    }
    if let Some(receiver) = ways.receiver {
        let wait = settings.event_wait().as_millis();
        let lease = (wait * 3).max(RELAY_LEASE_MIN.as_millis());
        text += &format!(
            r#"
[relay]
lease = "{lease}ms"
retry_max = "1s"

[[destination]]
name = "receiver"
url = "http://{receiver}/events"
wait = "{wait}ms"
"#
        );
    }
    text
}
