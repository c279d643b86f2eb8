//! The SQLite store: commits that callers share, against one commit for each step.

use std::time::Duration;

use anyhow::Result;

use crate::{
    callers::{self, CALLERS},
    ratio::Report,
};

/// How long one round lasts.
const SPAN: Duration = Duration::from_secs(2);
/// How many verbs share a commit at most.
const GROUP_MAX: usize = 512;

/// Measures 64 callers who claim and complete, durably, on a file in the folder for temporary files.
pub(crate) async fn measure(report: &mut Report, rounds: u32) -> Result<()> {
    let dir = std::env::temp_dir();
    let name = "SQLite, 64 callers, shared / single commits";
    let steps = |group_max| {
        let dir = dir.clone();
        async move { Ok(callers::round(&dir, SPAN, group_max, CALLERS).await.steps_per_second) }
    };
    report.pair(name, 20.0, rounds, |_| steps(GROUP_MAX), |_| steps(1)).await?;
    let round = callers::round(&dir, SPAN, GROUP_MAX, CALLERS).await;
    eprintln!(
        "claim and completion, shared commits: p50 {:.2?}, p99 {:.2?}; replays {:.0}/s",
        round.median,
        round.p99,
        callers::replays(&dir, SPAN).await
    );
    Ok(())
}
