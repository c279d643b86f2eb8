//! Any bytes as a stored outcome: no panic, and what is read is written again to the byte.
//!
//! The bytes are read as they are, and once more behind a right version and checksum, which no mutation would find.

use semel::codec::{decode, encode};
use sha2::{Digest, Sha256};

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    check(data);
    let mut framed = vec![1];
    framed.extend_from_slice(&Sha256::digest(data)[..4]);
    framed.extend_from_slice(data);
    check(&framed);
}

fn check(bytes: &[u8]) {
    let Ok(outcome) = decode(bytes) else { return };
    let written = encode(&outcome);
    if outcome.broken_bound().is_none() {
        assert_eq!(written, bytes);
    }
    assert!(decode(&written).is_ok());
}
