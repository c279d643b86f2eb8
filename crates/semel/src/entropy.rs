//! The only door to chance.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

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

/// The random source of the operating system, asked for many tokens at once: a claim costs no system
/// call of its own.
#[derive(Default)]
pub struct PooledEntropy {
    drawn: Mutex<Vec<[u8; 16]>>,
}

impl PooledEntropy {
    /// How many are drawn at once: what the operating system gives in one uninterrupted call.
    const AT_ONCE: usize = 16;

    /// Begins with an empty pool.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl fmt::Debug for PooledEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledEntropy").finish_non_exhaustive()
    }
}

impl Entropy for PooledEntropy {
    /// Takes from the pool, and fills it when it is empty.
    ///
    /// # Panics
    ///
    /// As [`SystemEntropy`].
    #[expect(clippy::disallowed_methods, reason = "the one place that draws random numbers")]
    fn bytes(&self) -> [u8; 16] {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = drawn.pop() {
            return bytes;
        }
        let mut fresh = [0; 16 * Self::AT_ONCE];
        getrandom::fill(&mut fresh).expect("the operating system has a random source");
        let (first, rest) = fresh.split_at(16);
        drawn.extend(rest.chunks_exact(16).map(|chunk| {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(chunk);
            bytes
        }));
        let mut bytes = [0; 16];
        bytes.copy_from_slice(first);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_draws_from_a_pool_are_equal() {
        let pool = PooledEntropy::new();
        let drawn: HashSet<_> = (0..1_000).map(|_| pool.bytes()).collect();
        assert_eq!(drawn.len(), 1_000);
        assert!(!drawn.contains(&[0; 16]));
    }
}
