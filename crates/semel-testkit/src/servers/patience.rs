//! Waiting in a thread of its own for what nothing tells of.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long a server may take over anything: recovery after a kill is of seconds, or of a minute and more where
/// other work leaves the machine no time.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Blocks until something is true, and says whether it came true in time.
///
/// Time is the machine's, also in a test that has paused tokio's.
pub(super) fn until(mut is_true: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while !is_true() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(LOOK_EVERY);
    }
    true
}

/// Runs what blocks where it holds up no other task, and panics as it panics.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
