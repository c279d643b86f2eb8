//! The only door to chance.

use std::fmt;

/// A source of random bytes.
pub trait Entropy: fmt::Debug + Send + Sync + 'static {
    /// Returns 16 bytes that nobody can guess and that no other call returns.
    fn bytes(&self) -> [u8; 16];
}

/// The random source of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    /// Draws from the operating system.
    ///
    /// # Panics
    ///
    /// Panics if the operating system has no random source: without one there is no token, and
    /// nothing may be granted.
    #[expect(clippy::disallowed_methods, reason = "the one place that draws random numbers")]
    fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system has a random source");
        bytes
    }
}
