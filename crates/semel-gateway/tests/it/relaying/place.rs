//! A folder with a configuration and a store, and relays that run on it.

use std::{
    future::Future,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
};

use semel_testkit::servers::free_port;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::{Duration, Instant, sleep, timeout},
};

use crate::{
    command::{Ran, run, semel},
    message::{Message, PATIENCE, send},
    upstream::{Deed, Upstream},
};

/// What a relay of these tests does quickly.
pub(super) const QUICK: &str = "lease = \"1s\"\nattempts = 2\nattempts_for = \"10ms\"\nretry_max = \"100ms\"\n\
                                poll = \"5ms\"\n";

/// A folder with a configuration and a store.
pub(super) struct Place {
    pub(super) folder: TempDir,
    pub(super) admin: SocketAddr,
}

impl Place {
    /// Sends everything to each of these receivers.
    pub(super) fn to(receivers: &[(&str, &Upstream)]) -> Self {
        Self::with(QUICK, receivers, "")
    }

    pub(super) fn with(relay: &str, receivers: &[(&str, &Upstream)], more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let admin = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut text = format!("admin = \"{admin}\"\n{more}[relay]\n{relay}");
        for (name, receiver) in receivers {
            let url = receiver.url();
            text.push_str(&format!(
                "[[destination]]\nname = \"{name}\"\nurl = \"{url}/{name}\"\nwait = \"300ms\"\n"
            ));
        }
        std::fs::write(folder.path().join("semel.toml"), text).unwrap();
        let place = Self { folder, admin };
        place.semel(&["migrate"]).ends(0, "");
        place
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a command to its end.
    pub(super) fn semel(&self, arguments: &[&str]) -> Ran {
        run(self.path(), arguments)
    }

    /// Runs `semel outbox`.
    pub(super) fn outbox(&self, arguments: &[&str]) -> Ran {
        let all: Vec<_> = ["outbox"].iter().chain(arguments).copied().collect();
        self.semel(&all)
    }

    /// Appends an event of each of these numbers in one transaction, as any language would.
    pub(super) fn append(&self, aggregate: &str, numbers: impl IntoIterator<Item = u32>) {
        self.transaction(aggregate, numbers).execute_batch("COMMIT").unwrap();
    }

    /// Appends events in a transaction that is still open.
    pub(super) fn transaction(
        &self,
        aggregate: &str,
        numbers: impl IntoIterator<Item = u32>,
    ) -> rusqlite::Connection {
        let db = rusqlite::Connection::open(self.path().join("semel.db")).unwrap();
        db.busy_timeout(PATIENCE).unwrap();
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        for number in numbers {
            let row = "INSERT INTO semel_outbox (id, aggregatetype, aggregateid, type, payload) \
                       VALUES (?1, 'order', ?2, 'Counted', ?3)";
            db.execute(row, (id(aggregate, number), aggregate, number.to_string())).unwrap();
        }
        db
    }

    /// Asks the admin listener.
    pub(super) async fn ask(&self, path: &str) -> Message {
        send(self.admin, &format!("GET {path}"), &[], "").await
    }

    /// Reads one line of the metrics.
    pub(super) async fn metric(&self, line: &str) -> f64 {
        let page = self.ask("/metrics").await;
        let found = page.text().lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("{line} in {}", page.text())).parse().unwrap()
    }

    /// Waits until nothing waits for any destination.
    pub(super) async fn until_drained(&self) {
        until("everything was settled", async || {
            let told = self.outbox(&["--json", "destinations"]).json();
            let states = told["destinations"].as_array().unwrap();
            !states.is_empty() && states.iter().all(|state| state["waiting"] == 0)
        })
        .await;
    }
}

/// The id of an event of these tests: one for each aggregate and number.
pub(super) fn id(aggregate: &str, number: u32) -> String {
    let lane = aggregate.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte));
    format!("{lane:08x}-0000-4000-8000-{number:012x}")
}

/// Waits until something holds.
pub(super) async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "{what} in time");
        sleep(Duration::from_millis(10)).await;
    }
}

/// A relay in a process of its own, killed when it is dropped.
pub(super) struct Relay {
    pub(super) child: Child,
    _said: Lines<BufReader<ChildStdout>>,
}

impl Relay {
    pub(super) async fn start(place: &Place) -> Self {
        Self::start_with(place, &[]).await
    }

    pub(super) async fn start_with(place: &Place, more: &[&str]) -> Self {
        Self::spawn(place, more, Stdio::inherit()).await
    }

    /// Starts one whose log is kept in a file, and tells which.
    pub(super) async fn logged(place: &Place) -> (Self, PathBuf) {
        let path = place.path().join("relay.log");
        let file = std::fs::File::create(&path).unwrap();
        (Self::spawn(place, &[], file.into()).await, path)
    }

    async fn spawn(place: &Place, more: &[&str], log: Stdio) -> Self {
        let arguments: Vec<_> = ["relay"].iter().chain(more).copied().collect();
        let mut child = Command::from(semel(place.path(), &arguments))
            .kill_on_drop(true)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = timeout(PATIENCE, said.next_line()).await.unwrap().unwrap().unwrap();
        assert!(line.starts_with("semel relays to "), "{line}");
        Self { child, _said: said }
    }

    /// Kills it as `kill -9` does.
    pub(super) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Asks it to end, and waits for its exit code.
    pub(super) async fn end(mut self) -> Option<i32> {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
        timeout(PATIENCE, self.child.wait()).await.expect("it ended in time").unwrap().code()
    }
}

/// A receiver that takes everything.
pub(super) async fn taking() -> Upstream {
    Upstream::new(|_| async { Deed::Write(crate::message::answer(204, &[], "")) }).await
}

/// The numbers of an aggregate in the order in which each was first seen.
pub(super) fn first_seen(receiver: &Upstream, aggregate: &str) -> Vec<u32> {
    let mut seen = Vec::new();
    for request in receiver.seen.requests() {
        if request.header("ce-subject") == Some(aggregate) {
            let number = request.text().parse().unwrap();
            assert_eq!(request.header("idempotency-key"), Some(&*id(aggregate, number)));
            if !seen.contains(&number) {
                seen.push(number);
            }
        }
    }
    seen
}
