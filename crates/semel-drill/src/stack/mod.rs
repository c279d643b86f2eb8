//! Drilling Semel itself: gateways, a store and an upstream under trouble.
//!
//! Gateways run as processes of this very build, before an upstream inside the drill that writes down
//! every effect and often answers badly. Clients keep their keys and ask any gateway again until they
//! know. Meanwhile processes are killed and frozen, ways are cut, clocks jump. Afterwards an operator
//! settles what nobody can say, everything is killed once more, and every answer is asked for again
//! of every gateway; then the books are compared with what was told.
//!
//! With events, the upstream writes each effect and an event of it in one transaction, in the store's own
//! database; the gateways relay the events to a receiver inside the drill, and what arrives is judged too.
//!
//! Everything that is drawn comes from one seed: the order of the troubles, what the upstream does
//! with which request. The processes are real, so a run is not repeated to the bit.

mod application;
mod caller;
mod chaos;
mod crowd;
mod events;
mod gateway;
mod intent;
mod ledger;
mod operator;
mod place;
mod progress;
mod queue;
mod receiver;
mod redis;
mod settings;
mod shop;
mod show;
mod skew;
mod stage;
mod trouble;
mod verdict;
mod watch;

use std::io;

use semel::StoreError;
use thiserror::Error;

use self::stage::Stage;
pub use self::{
    events::Events,
    progress::Progress,
    redis::{Flush, RedisFigures, RedisSetup},
    settings::{OnLost, Settings, Store, Until, Upstream},
    show::{no_verdict_json, no_verdict_junit},
    trouble::Trouble,
    verdict::{Figures, Report},
};

/// Says why a drill came to no verdict.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StackError {
    /// The machine refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The store could not be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something did not come to an end.
    #[error("{0}")]
    Stuck(String),
    /// What was asked for cannot be had here.
    #[error("{0}")]
    Usage(String),
}

/// Drills the whole stack, and judges.
///
/// It needs a runtime of several threads. What it starts ends with it, also when it is dropped.
///
/// # Errors
///
/// Fails if what was asked for cannot be had here, or something does not come to an end.
///
/// # Panics
///
/// Panics if a server that it starts does not run, with the server's own words.
pub async fn run(settings: &Settings, progress: &Progress) -> Result<Report, StackError> {
    settings.check().map_err(StackError::Usage)?;
    let mut stage = Stage::set(settings).await?;
    let raged = stage.rage(progress).await?;
    let settled = stage.settle(progress).await?;
    let replays = stage.replay(progress).await?;
    let report = stage.judge(raged, &settled, &replays).await?;
    progress.end();
    Ok(report)
}
