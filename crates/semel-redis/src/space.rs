//! Where things lie: 256 buckets, each in a slot of its own, spread evenly over the slots of a cluster.
//!
//! All that belongs to a record lies in its bucket, and so on one node: the scripts may touch it together. The name
//! of a bucket is found by trying numbers until one falls into its part of the slots; that never changes.
//!
//! | key | holds |
//! |---|---|
//! | `{semel.7}:r:` + name | the record |
//! | `{semel.7}:o:` + name | its outcome |
//! | `{semel.7}:w:` + name | where the end of its run is told to those who wait for it; for two minutes |
//! | `{semel.7}:floor` | the largest fence of a record that may be dropped, and a mark while the store is closed |
//! | `{semel.7}:names` | the names of all records, in order |
//! | `{semel.7}:held` | the names of those that run or are unknown, in order |
//! | `{semel.7}:due` | the names of the others, by when the sweep has something to do |
//! | `{semel.7}:audit` | the audit, newest first |
//! | `{semel.7}:mark` | nothing: it is written where an answer must count as a write |

use semel::{IntentId, Key, Operation, Scope, StoreError, Tenant};
use sha2::{Digest, Sha256};

use crate::error::{damaged, invalid};

/// How many buckets there are.
pub(crate) const BUCKETS: usize = 256;
/// How many slots a cluster has.
const SLOTS: u16 = 16_384;

/// The names of all buckets.
#[derive(Debug)]
pub(crate) struct Space {
    buckets: Vec<Bucket>,
}

/// A bucket: what its keys begin with, and where it lies in a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    tag: Box<str>,
    pub(crate) slot: u16,
}

/// A record's place.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) bucket: usize,
    pub(crate) name: Vec<u8>,
    /// Tells it from others, almost surely.
    pub(crate) mark: u64,
}

impl Space {
    /// The longest prefix, in bytes.
    pub(crate) const PREFIX_MAX: usize = 64;

    /// Names the buckets of a prefix.
    pub(crate) fn new(prefix: &str) -> Result<Self, StoreError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':');
        if prefix.is_empty() || prefix.len() > Self::PREFIX_MAX || !prefix.chars().all(fits) {
            return Err(invalid(
                "the prefix of the keys must be 1 to 64 letters, digits, `.`, `_`, `-` or `:`",
            ));
        }
        let mut buckets: Vec<Option<Bucket>> = vec![None; BUCKETS];
        let mut missing = BUCKETS;
        for number in 0_u32.. {
            let name = format!("{prefix}.{number}");
            let slot = slot(name.as_bytes());
            let place = &mut buckets[usize::from(slot) * BUCKETS / usize::from(SLOTS)];
            if place.is_none() {
                *place = Some(Bucket { tag: format!("{{{name}}}").into(), slot });
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        Ok(Self { buckets: buckets.into_iter().flatten().collect() })
    }

    pub(crate) fn bucket(&self, at: usize) -> &Bucket {
        &self.buckets[at % BUCKETS]
    }

    /// Finds the place of an intent.
    pub(crate) fn place(id: &IntentId) -> Place {
        Self::named(name(id))
    }

    /// Finds the place of a name.
    pub(crate) fn named(name: Vec<u8>) -> Place {
        let digest: [u8; 32] = Sha256::digest(&name).into();
        let [bucket, .., a, b, c, d, e, f, g, h] = digest;
        Place { bucket: bucket.into(), name, mark: u64::from_be_bytes([a, b, c, d, e, f, g, h]) }
    }
}

impl Bucket {
    /// A key of the bucket itself.
    pub(crate) fn key(&self, what: &str) -> Vec<u8> {
        [self.tag.as_bytes(), b":", what.as_bytes()].concat()
    }

    /// A key of one of its records.
    pub(crate) fn of(&self, what: &str, name: &[u8]) -> Vec<u8> {
        [self.tag.as_bytes(), b":", what.as_bytes(), b":", name].concat()
    }
}

/// Makes the bytes of a name, in an order that is the names' own: no part holds a zero.
pub(crate) fn name(id: &IntentId) -> Vec<u8> {
    let scope = &id.scope;
    let parts = [scope.tenant.as_str(), scope.operation.as_str(), id.key.as_str()];
    let mut name = parts.join("\0").into_bytes();
    if let Some(facet) = &id.facet {
        name.push(0);
        name.extend(facet);
    }
    name
}

/// Reads the bytes of a name.
pub(crate) fn id(name: &[u8]) -> Result<IntentId, StoreError> {
    let bad = || damaged("a record has a name that this version does not allow; restore a backup");
    let mut parts = name.splitn(4, |byte| *byte == 0);
    let mut text = || std::str::from_utf8(parts.next()?).ok();
    let tenant = text().and_then(|text| Tenant::new(text).ok()).ok_or_else(bad)?;
    let operation = text().and_then(|text| Operation::new(text).ok()).ok_or_else(bad)?;
    let key = text().and_then(|text| Key::new(text).ok()).ok_or_else(bad)?;
    let id = Scope::new(tenant, operation).intent(key);
    match parts.next() {
        None => Ok(id),
        Some(facet) => Ok(id.narrowed(facet.try_into().map_err(|_| bad())?)),
    }
}

/// The slot of a hash tag: its CRC-16, as XMODEM counts it.
fn slot(tag: &[u8]) -> u16 {
    let crc = tag.iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(tenant: &str, operation: &str, key: &str) -> IntentId {
        let tenant = Tenant::new(tenant).unwrap();
        Scope::new(tenant, Operation::new(operation).unwrap()).intent(Key::new(key).unwrap())
    }

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot(b"123456789"), 0x31C3);
        assert_eq!(slot(b"foo"), 12_182);
    }

    #[test]
    fn every_part_of_the_slots_has_one_bucket_and_it_never_moves() {
        let space = Space::new("semel").unwrap();
        for (at, bucket) in space.buckets.iter().enumerate() {
            assert_eq!(usize::from(bucket.slot) / 64, at);
        }
        assert_eq!(space.buckets.len(), BUCKETS);
        let tags = [0, 1, 128, 255].map(|at| &*space.buckets[at].tag);
        assert_eq!(tags, ["{semel.2}", "{semel.274}", "{semel.276}", "{semel.150}"]);
        assert!(Space::new("a{b").is_err() && Space::new("").is_err());
    }

    #[test]
    fn names_come_back_and_sort_as_intents_do() {
        let mut ids = vec![
            id_of("a", "b", "c"),
            id_of("a", "b", "c").narrowed([0; 32]),
            id_of("a", "b", "c!"),
            id_of("a!", "b", "c"),
            id_of("ä", "b", "c"),
        ];
        ids.sort();
        let mut names: Vec<_> = ids.iter().map(name).collect();
        let back: Vec<_> = names.iter().map(|name| super::id(name).unwrap()).collect();
        assert_eq!(back, ids);
        names.sort();
        assert_eq!(names.iter().map(|name| super::id(name).unwrap()).collect::<Vec<_>>(), ids);
        assert!(super::id(b"a\0b").is_err());
    }
}
