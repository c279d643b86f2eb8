//! The last version of each aggregate that was sent, in bounded memory.

use std::collections::HashMap;

use super::super::event::Lane;

/// Keeps the last versions of the lanes that were sent to lately: of half as many as it may hold at
/// least.
#[derive(Debug)]
pub(super) struct Versions {
    half: usize,
    young: HashMap<Lane, i64>,
    old: HashMap<Lane, i64>,
}

impl Versions {
    pub(super) fn new(max: usize) -> Self {
        Self { half: max / 2, young: HashMap::new(), old: HashMap::new() }
    }

    /// Notes a version that was sent, and says whether it is not above the last one.
    pub(super) fn falls(&mut self, lane: &Lane, version: i64) -> bool {
        let last = self.young.get(lane).or_else(|| self.old.get(lane)).copied();
        let falls = last.is_some_and(|last| version <= last);
        let version = last.map_or(version, |last| last.max(version));
        if let Some(kept) = self.young.get_mut(lane) {
            *kept = version;
            return falls;
        }
        if self.young.len() >= self.half {
            self.old = std::mem::take(&mut self.young);
        }
        if self.half > 0 {
            self.young.insert(lane.clone(), version);
        }
        falls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_does_not_rise_is_seen_and_memory_is_bounded() {
        let mut versions = Versions::new(4);
        let lane = |id: &str| Lane::new("order", id).unwrap();
        assert!(!versions.falls(&lane("a"), 1));
        assert!(!versions.falls(&lane("a"), 3));
        assert!(versions.falls(&lane("a"), 2));
        assert!(versions.falls(&lane("a"), 3));
        for id in 0..100 {
            versions.falls(&lane(&id.to_string()), 1);
            assert!(versions.young.len() + versions.old.len() <= 4);
        }
    }
}
