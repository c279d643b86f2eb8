//! Somebody wants the drill to end before its end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What ends a drill early: Ctrl-C, a manager of processes, the terminal that was closed.
#[derive(Debug)]
pub(super) struct Interruption {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Interruption {
    /// Listens from now on: before anything is started that would have to end.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits until one comes.
    pub(super) async fn come(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
