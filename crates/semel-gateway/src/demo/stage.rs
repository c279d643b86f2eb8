//! Everything that a run needs, and the order of its steps.

use std::{io, net::SocketAddr};

use semel::entropy::{Entropy, SystemEntropy};
use thiserror::Error;

use super::{
    api::Api,
    client::{Answer, Payment},
    crash,
    gateway::Gateway,
    ledger::Ledger,
    scenes,
    setup::Setup,
    storm,
    verdict::{Report, Row},
};

/// Why a run could not be done; what it found out is in its report.
#[derive(Debug, Error)]
pub(crate) enum StageError {
    /// A file, a process or a connection.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The ledger.
    #[error("the ledger of the demo")]
    Ledger(#[from] rusqlite::Error),
}

/// What the steps share.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(super) api: Api,
    pub(super) ledger: Ledger,
    pub(super) gateway: Gateway,
    /// Makes the orders of this run its own, where a folder is used again.
    run: String,
}

impl Stage {
    /// Starts the API, and the gateway as a process of its own.
    pub(crate) async fn start(setup: &Setup) -> Result<Self, StageError> {
        let ledger = Ledger::open(&setup.ledger())?;
        let api = Api::start(ledger.clone()).await?;
        setup.write(api.address)?;
        let gateway = Gateway::start(setup).await?;
        Ok(Self { api, ledger, gateway, run: run_name() })
    }

    /// Plays every step and judges them by the ledger. `now` is told of each step as it begins.
    pub(crate) async fn play(&mut self, now: impl Fn(&'static str)) -> Result<Report, StageError> {
        let mut rows = Vec::new();
        now(scenes::BARE);
        rows.push(scenes::bare(self).await?);
        now(scenes::FIRST);
        rows.extend(scenes::one_intent(self).await?);
        now(scenes::AT_ONCE);
        rows.push(scenes::at_once(self).await?);
        now(scenes::HANG_UP);
        rows.push(scenes::hang_up(self).await?);
        now(crash::AFTER);
        rows.push(crash::after_charge(self).await?);
        now(crash::BEFORE);
        rows.push(crash::before_charge(self).await?);
        now(crash::RERUN);
        rows.push(crash::rerun(self).await?);
        now(storm::STORM);
        rows.push(storm::storm(self).await?);
        Ok(Report::new(rows, &self.ledger.counts()?, self.gateway.kills()))
    }

    pub(super) fn to(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// Makes a payment of its own order and key.
    pub(super) fn payment(&self, path: &'static str, name: &str) -> Payment {
        let order = format!("{name}-{}", self.run);
        Payment { path, key: format!("key-{order}"), order, amount: "10.00" }
    }

    /// Returns the payment of an order, if the ledger has one.
    pub(super) fn charged(&self, order: &str) -> Result<Option<i64>, StageError> {
        Ok(self.ledger.counts()?.get(order).map(|charges| charges.first))
    }
}

/// Names a run, so that its orders are its own where a folder is used again.
pub(crate) fn run_name() -> String {
    SystemEntropy.bytes()[..3].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Collects what came back in one step.
#[derive(Debug)]
pub(super) struct Tally {
    what: &'static str,
    requests: usize,
    words: Vec<String>,
    faults: Vec<String>,
}

impl Tally {
    pub(super) const fn of(what: &'static str) -> Self {
        Self { what, requests: 0, words: Vec::new(), faults: Vec::new() }
    }

    pub(super) const fn sent(&mut self, requests: usize) {
        self.requests += requests;
    }

    pub(super) fn say(&mut self, words: impl Into<String>) {
        self.words.push(words.into());
    }

    pub(super) fn fault(&mut self, what: impl Into<String>) {
        self.faults.push(what.into());
    }

    /// Notes an answer that was promised to have a status, and to be a replay or none.
    pub(super) fn wants(&mut self, answer: &Answer, status: u16, replayed: bool) {
        if (answer.status, answer.replayed) != (status, replayed) {
            let word = |replayed| if replayed { " replayed" } else { "" };
            self.fault(format!(
                "the answer was {}{}, not {status}{}: {}",
                answer.status,
                word(answer.replayed),
                word(replayed),
                String::from_utf8_lossy(&answer.body)
            ));
        }
    }

    pub(super) fn row(self, intents: Vec<super::verdict::Intent>) -> Row {
        Row {
            what: self.what,
            requests: self.requests,
            answers: self.words.join("; "),
            intents,
            faults: self.faults,
        }
    }
}

/// Returns the payment that an answer tells of.
pub(super) fn told(answer: &Answer) -> Option<String> {
    let paid: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
    Some(paid.get("id")?.as_str()?.to_owned())
}
