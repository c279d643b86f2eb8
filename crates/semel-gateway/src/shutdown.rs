//! How a shutdown is asked for: gently first, then at once.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Ends a gateway. Cheap to clone; every clone ends the same one.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    gentle: CancellationToken,
    now: CancellationToken,
}

impl Shutdown {
    /// Makes a shutdown that nobody has asked for.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts no more connections, and ends when what runs has ended.
    pub fn begin(&self) {
        self.gentle.cancel();
    }

    /// Ends at once. What runs keeps its lease, and `on_lost` decides what follows.
    pub fn end_now(&self) {
        self.gentle.cancel();
        self.now.cancel();
    }

    /// Begins at the first SIGTERM or SIGINT, and ends at once at the second.
    ///
    /// # Errors
    ///
    /// Fails if the signals cannot be caught.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub fn on_signals(&self) -> io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let shutdown = self.clone();
        TaskTracker::new().spawn(async move {
            for times in 0.. {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                if times == 0 {
                    tracing::info!("shutting down; a second signal ends at once");
                    shutdown.begin();
                } else {
                    shutdown.end_now();
                }
            }
        });
        Ok(())
    }

    pub(crate) const fn gentle(&self) -> &CancellationToken {
        &self.gentle
    }

    pub(crate) const fn now(&self) -> &CancellationToken {
        &self.now
    }
}
