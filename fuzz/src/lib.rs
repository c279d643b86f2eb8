//! Fuzz targets for everything that reads bytes from outside: each is a plain function that holds a promise against
//! one input.
//!
//! `cargo xtask fuzz` looks for new inputs by coverage; `cargo test` replays the corpus, by the same functions.

#![allow(
    clippy::disallowed_methods,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a broken promise is told by a panic; nothing of this is linked into a release"
)]

mod behind;
mod gateway;
mod kept;
mod targets;

pub use targets::TARGETS;

/// One target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is also that of its corpus.
    pub name: &'static str,
    /// Holds the promise against one input, and panics if it is broken.
    pub run: fn(&[u8]),
}

/// A target whose promise is false, but only for inputs that nobody would guess: whoever looks for inputs must find one.
pub const CANARY: Target = Target { name: "canary", run: canary };

/// Finds a target by its name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().chain([&CANARY]).find(|target| target.name == name)
}

/// Runs what waits to its end.
fn runtime<T>(work: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
    }
    RUNTIME.with(|runtime| runtime.block_on(work))
}

fn canary(data: &[u8]) {
    // Each comparison is a branch of its own: one that takes all bytes at once would have to be guessed.
    let note = |at: usize| data.get(at).copied();
    let sung = note(0) == Some(b'c')
        && note(1) == Some(b'h')
        && note(2) == Some(b'e')
        && note(3) == Some(b'e')
        && note(4) == Some(b'p')
        && note(5) == Some(b'!');
    assert!(!sung, "the canary sings");
}
