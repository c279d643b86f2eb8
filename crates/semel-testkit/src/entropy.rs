//! Chance that replays from a seed.

use std::{
    process::Command,
    sync::{Mutex, PoisonError},
};

use semel::entropy::{Entropy, SystemEntropy};

/// The variable that names the seed to replay from.
const SEED: &str = "SEMEL_SEED";

/// A source of bytes that are the same for the same seed. For tests alone: anybody can guess them.
#[derive(Debug)]
pub struct SeededEntropy {
    seed: u64,
    state: Mutex<u64>,
}

impl SeededEntropy {
    /// Makes a source of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, state: Mutex::new(seed) }
    }

    /// Makes a source of the seed in `SEMEL_SEED`, else of a new one, and prints seed and commit, so
    /// that a failure can be replayed.
    #[must_use]
    pub fn printed() -> Self {
        let given = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let bytes = SystemEntropy.bytes();
            u64::from_be_bytes(bytes[..8].try_into().expect("eight of sixteen bytes"))
        });
        println!("replay with {SEED}={seed} at commit {}", commit());
        Self::new(seed)
    }

    /// Returns the seed.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the next number.
    pub fn number(&self) -> u64 {
        split_mix(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the next number below `end`; zero if `end` is.
    pub fn below(&self, end: u64) -> u64 {
        self.number().checked_rem(end).unwrap_or(0)
    }
}

/// Draws the next number of a series that is nothing but its state (SplitMix64).
pub const fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Entropy for SeededEntropy {
    fn bytes(&self) -> [u8; 16] {
        let both = (u128::from(self.number()) << 64) | u128::from(self.number());
        both.to_be_bytes()
    }
}

fn commit() -> String {
    let told = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let told = told.ok().filter(|output| output.status.success());
    told.map_or_else(
        || "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let (one, two, other) =
            (SeededEntropy::new(7), SeededEntropy::new(7), SeededEntropy::new(8));
        let first = one.bytes();
        assert_eq!(first, two.bytes());
        assert_ne!(first, one.bytes());
        assert_ne!(first, other.bytes());
    }
}
