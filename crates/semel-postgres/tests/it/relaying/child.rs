//! A relay in a process of its own: this very test binary, asked for one test and told its part by the
//! environment; without a part the test has nothing to do.

use std::{fs, net::SocketAddr, path::Path, process::Stdio, sync::Arc, time::Duration};

use semel::{
    outbox::{
        Destination,
        relay::{Relay, RelayDestination, RelayPolicy},
    },
    telemetry::RelayStats,
};
use semel_postgres::PostgresStore;
use semel_testkit::{receiver::ReceiverPublisher, servers::Process};

use super::Shop;

const PART: &str = "SEMEL_TEST_RELAY";

/// A policy under which a relay that was killed is soon followed by the next.
pub(super) fn policy() -> RelayPolicy {
    let mut policy = RelayPolicy::default();
    policy.lease = Duration::from_secs(2);
    policy.retry_max = Duration::from_secs(1);
    policy
}

pub(super) fn publisher(address: SocketAddr) -> Arc<ReceiverPublisher> {
    Arc::new(ReceiverPublisher::new(address).within(Duration::from_millis(500)))
}

pub(super) fn destination() -> Destination {
    Destination::new("receiver").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_relays_until_it_is_killed() {
    let Ok(part) = std::env::var(PART) else { return };
    let [url, address, told] = part.split(' ').collect::<Vec<_>>()[..] else {
        panic!("a part has three words: {part}")
    };
    let store = Arc::new(PostgresStore::builder(url).open().await.unwrap());
    let publisher = publisher(address.parse().unwrap());
    let relay = Relay::builder(store)
        .owner(format!("relay {}", std::process::id()))
        .policy(policy())
        .destination(RelayDestination::new(destination(), publisher))
        .start()
        .unwrap();
    loop {
        let health = &relay.destinations()[0];
        let RelayStats { lost, late, refused, turned_away, .. } = health.stats;
        let leading = u64::from(health.leading);
        let said = [leading, lost, late, refused, turned_away, health.in_hand];
        // Whoever reads it sees one line or the other, never half of one.
        let new = format!("{told}.new");
        fs::write(&new, said.map(|number| number.to_string()).join(" ")).unwrap();
        fs::rename(&new, told).unwrap();
        // How often it says how it is doing, until it is killed.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What a relay in a process of its own said last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said {
    pub(super) leading: bool,
    pub(super) lost: u64,
    pub(super) late: u64,
    pub(super) refused: u64,
    pub(super) turned_away: u64,
    pub(super) in_hand: u64,
}

/// A relay in a process of its own, and where it says how it is doing.
pub(super) struct Child {
    pub(super) process: Process,
    told: tempfile::NamedTempFile,
}

impl Child {
    /// Starts a relay from the outbox of a shop to its receiver.
    pub(super) fn start(shop: &Shop) -> Self {
        Self::start_by(shop, &shop.server.url())
    }

    /// Starts it with another way to the database.
    pub(super) fn start_by(shop: &Shop, url: &str) -> Self {
        let told = tempfile::NamedTempFile::new().unwrap();
        let path: &Path = told.path();
        let part = format!("{url} {} {}", shop.receiver.address(), path.display());
        let process = Process::start(std::env::current_exe().unwrap(), |command| {
            command
                .args(["--exact", "relaying::child::child_that_relays_until_it_is_killed"])
                .args(["--nocapture", "--test-threads=1"])
                .env(PART, part)
                .stdout(Stdio::null());
        });
        Self { process, told }
    }

    /// What it said last, if it has said anything.
    pub(super) fn said(&self) -> Said {
        let said = fs::read_to_string(self.told.path()).unwrap_or_default();
        let said: Vec<u64> = said.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [leading, lost, late, refused, turned_away, in_hand] = said[..] else {
            return Said::default();
        };
        let leading = leading == 1;
        Said { leading, lost, late, refused, turned_away, in_hand }
    }

    /// Waits until it says so.
    pub(super) async fn until(&self, what: &str, mut is_so: impl FnMut(Said) -> bool) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while !is_so(self.said()) {
            assert!(tokio::time::Instant::now() < deadline, "never {what}: {:?}", self.said());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// How much memory it has, in KiB.
    pub(super) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}
