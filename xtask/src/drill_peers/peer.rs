//! One published package: which it is, and its drill.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::Tools;
use crate::install::peers::home;
use crate::shell;

/// How long Redis may take until it listens.
const READY_WAIT: Duration = Duration::from_secs(30);

/// Where a package comes from, and so where its version is pinned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Registry {
    Npm,
    PyPi,
}

/// A published package in a program of its own.
#[derive(Debug)]
pub(super) struct Peer {
    /// Its folder, its column, and its heading.
    pub(super) name: &'static str,
    pub(super) package: &'static str,
    registry: Registry,
}

/// Every package that is drilled.
pub(super) const PEERS: &[Peer] = &[
    Peer { name: "node-idempotency", package: "@node-idempotency/nestjs", registry: Registry::Npm },
    Peer { name: "express-idempotency", package: "express-idempotency", registry: Registry::Npm },
    Peer { name: "powertools", package: "aws-lambda-powertools", registry: Registry::PyPi },
    Peer {
        name: "asgi-idempotency-header",
        package: "asgi-idempotency-header",
        registry: Registry::PyPi,
    },
    Peer {
        name: "django-idempotency-key",
        package: "django-idempotency-key",
        registry: Registry::PyPi,
    },
    Peer {
        name: "fastapi-idempotency-key",
        package: "fastapi-idempotency-key",
        registry: Registry::PyPi,
    },
];

impl Peer {
    /// The version that is pinned.
    pub(super) fn version(&self) -> Result<String> {
        let version = match self.registry {
            Registry::Npm => npm_version(self.package)?,
            Registry::PyPi => pypi_version(self.package)?,
        };
        version.with_context(|| format!("{} is not pinned", self.package))
    }

    /// Drills the program with a Redis of its own, and returns the drill's report.
    pub(super) fn drill(&self, tools: &Tools) -> Result<String> {
        let folder = tempfile::tempdir().context("cannot make a folder")?;
        let redis = Redis::start(folder.path())?;
        let plan = home().join(self.name).join("plan.toml");
        let plan = plan.to_str().context("the repository's path is not UTF-8")?;
        let port = free_port()?.to_string();
        let target = format!("http://127.0.0.1:{port}");
        let asked = ["http", "--plan", plan, "--target", &target, "--json"];
        let mut drill = shell::command(&tools.drill, &asked);
        drill.env("PORT", port);
        drill.env("LEDGER", folder.path().join("ledger.jsonl"));
        drill.env("REDIS_URL", format!("redis://{}", redis.address));
        drill.env("PYTHONPATH", home());
        tools.packages.lend(&mut drill)?;
        drill.stdout(Stdio::piped()).stderr(Stdio::inherit());
        let output = drill.output().context("cannot start semel-drill")?;
        let code = output.status.code();
        ensure!(
            matches!(code, Some(0 | 1)),
            "the drill of {} could not find everything out ({}): {}",
            self.name,
            output.status,
            String::from_utf8_lossy(&output.stdout)
        );
        String::from_utf8(output.stdout).context("the report is not UTF-8")
    }
}

fn npm_version(package: &str) -> Result<Option<String>> {
    let lock = std::fs::read_to_string(home().join("package-lock.json"))
        .context("cannot read the package-lock.json of the peers")?;
    let lock: serde_json::Value = serde_json::from_str(&lock).context("it is not JSON")?;
    let version = &lock["packages"][format!("node_modules/{package}")]["version"];
    Ok(version.as_str().map(str::to_owned))
}

fn pypi_version(package: &str) -> Result<Option<String>> {
    let pins = std::fs::read_to_string(home().join("requirements.txt"))
        .context("cannot read the requirements.txt of the peers")?;
    let pin = |line: &str| {
        let (name, rest) = line.split_once("==")?;
        (name == package).then(|| rest.split(' ').next().unwrap_or(rest).to_owned())
    };
    Ok(pins.lines().find_map(pin))
}

/// A private Redis that flushes every write. Dropping it ends it.
#[derive(Debug)]
struct Redis {
    address: SocketAddr,
    child: Child,
}

impl Redis {
    fn start(folder: &Path) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let port = address.port().to_string();
        let listen = ["--bind", "127.0.0.1", "--port", &port, "--save", ""];
        let durable = ["--appendonly", "yes", "--appendfsync", "always"];
        let mut command = shell::command("redis-server", &[&listen[..], &durable[..]].concat());
        command.current_dir(folder).stdout(Stdio::null());
        let mut redis = Self { address, child: command.spawn().context("cannot start Redis")? };
        let deadline = Instant::now() + READY_WAIT;
        while TcpStream::connect(address).is_err() {
            if redis.child.try_wait()?.is_some() || Instant::now() > deadline {
                bail!("Redis does not listen on {address}");
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(redis)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_and_has_a_plan() {
        for peer in PEERS {
            assert!(peer.version().is_ok(), "{}", peer.name);
            assert!(home().join(peer.name).join("plan.toml").is_file(), "{}", peer.name);
        }
    }
}
