//! One service with and without its protection, and the loads it is put under.

use std::{net::SocketAddr, path::Path, process::Command, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};

use crate::{
    load::{self, Connection, Limit, Make, Served},
    servers::{self, Server},
};

/// How many keys are used again in turn.
const REPLAYED: u64 = 256;

/// A program of `bench/peers`.
#[derive(Debug)]
struct Program {
    name: &'static str,
    /// What runs it; nothing where it is compiled beside this bench.
    runs: Option<&'static str>,
    file: &'static str,
    /// What is set in its environment besides.
    settings: &'static [(&'static str, &'static str)],
}

const PROGRAMS: [Program; 4] = [
    Program { name: "axum, Semel", runs: None, file: "semel-bench-axum", settings: &[] },
    Program {
        name: "NestJS, node-idempotency",
        runs: Some("node"),
        file: "nest.js",
        settings: &[("NODE_ENV", "production")],
    },
    Program {
        name: "waitress, Powertools, validating",
        runs: Some("python3"),
        file: "wsgi.py",
        settings: &[("VALIDATES", "yes")],
    },
    Program { name: "waitress, Powertools", runs: Some("python3"), file: "wsgi.py", settings: &[] },
];

impl Program {
    /// Starts it, protected if it is given a store.
    async fn start(&self, redis: Option<&str>) -> Result<Server> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let port = servers::free_port()?;
        let mut command = match self.runs {
            Some(program) => {
                let mut command = Command::new(program);
                command.arg(folder.join(self.file));
                command
            }
            None => Command::new(std::env::current_exe()?.with_file_name(self.file)),
        };
        command.env("PORT", port.to_string()).envs(self.settings.iter().copied());
        match redis {
            Some(url) => command.env("REDIS_URL", url),
            None => command.env_remove("REDIS_URL"),
        };
        servers::start(command, port).await
    }
}

/// What is asked of a service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// New requests, without protection.
    Bare,
    /// New requests, each with a key of its own.
    Fresh,
    /// Requests that were answered before.
    Replay,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Bare, Self::Fresh, Self::Replay];
}

/// One load of one service.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) round: u32,
    pub(super) connections: u64,
    pub(super) kind: Kind,
    pub(super) span: Duration,
}

/// Two processes of one program.
#[derive(Debug)]
pub(super) struct Service {
    /// Its place among all programs.
    pub(super) place: usize,
    program: &'static Program,
    bare: Server,
    protected: Server,
}

impl Service {
    /// Starts all programs, in their order.
    pub(super) async fn start_all(redis: &str) -> Result<Vec<Self>> {
        let mut services = Vec::new();
        for (place, program) in PROGRAMS.iter().enumerate() {
            let bare = program.start(None).await?;
            let protected = program.start(Some(redis)).await?;
            services.push(Self { place, program, bare, protected });
        }
        Ok(services)
    }

    pub(super) const fn name(&self) -> &'static str {
        self.program.name
    }

    /// Where the process with protection listens.
    pub(super) const fn protected(&self) -> SocketAddr {
        self.protected.address
    }

    /// Puts the service under load, and counts what it did: nobody is fast by doing nothing, or by doing it again.
    pub(super) async fn load(&self, step: &Step) -> Result<Served> {
        let to = match step.kind {
            Kind::Bare => self.bare.address,
            Kind::Fresh | Kind::Replay => self.protected.address,
        };
        let make = self.requests(step);
        if step.kind == Kind::Replay {
            load::drive(to, step.connections, Limit::Requests(REPLAYED), Arc::clone(&make)).await?;
        }
        let before = effects(to).await?;
        let served = load::drive(to, step.connections, Limit::Span(step.span), make).await?;
        let done = effects(to).await? - before;
        let due = if step.kind == Kind::Replay { 0 } else { served.answers() };
        let name = self.name();
        ensure!(done == due, "{name}, {step:?}: {done} effects, {} answers", served.answers());
        Ok(served)
    }

    /// Makes the payment of an order of this service: two of them keep their keys in one place.
    pub(super) fn payment(&self, order: &str) -> Vec<u8> {
        payment(self.place, order)
    }

    /// Makes the requests of a step; those of a replay begin again after some.
    fn requests(&self, step: &Step) -> Make {
        let Step { round, connections, kind, .. } = *step;
        let place = self.place;
        Arc::new(move |n| {
            let n = if kind == Kind::Replay { n % REPLAYED } else { n };
            payment(place, &format!("{kind:?}-{round}-{connections}-{n}"))
        })
    }
}

fn payment(place: usize, order: &str) -> Vec<u8> {
    let order = format!("{order}-{place}");
    load::post("/payments", Some(&order), &format!("{{\"order\":\"{order}\",\"amount\":10}}"))
}

/// How often the process has acted.
pub(super) async fn effects(of: SocketAddr) -> Result<u64> {
    let mut connection = Connection::open(of).await?;
    let status = connection.send(&load::get("/effects")).await?;
    ensure!(status == 200, "the effects are answered with {status}");
    let said: serde_json::Value = serde_json::from_slice(connection.body())?;
    said["effects"].as_u64().context("no number of effects")
}
