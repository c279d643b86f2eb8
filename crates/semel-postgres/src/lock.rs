//! The lock of a name: an advisory lock of its transaction, on a hash that nobody can aim at.
//!
//! The lock keeps apart whoever would claim the same intent; it is never a proof. Two names may share
//! one by chance and then only wait for each other; what decides is the primary key.

use semel::IntentId;
use sha2::{Digest, Sha256};

use crate::row;

/// The secret that a schema was made with.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) struct LockSecret([u8; 32]);

impl LockSecret {
    pub(crate) const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the lock of a name, as the function `lock_hash` of the schema does.
    pub(crate) fn lock_of(&self, id: &IntentId) -> i64 {
        let scope = &id.scope;
        let parts = [
            scope.tenant.as_str().as_bytes(),
            scope.operation.as_str().as_bytes(),
            id.key.as_str().as_bytes(),
            row::facet(id),
        ];
        self.hash(&parts)
    }

    /// Returns the lock of a business reference: of a name whose facet is the single byte `R`, which no
    /// intent has.
    #[allow(dead_code, reason = "the form in a transaction takes it next")]
    pub(crate) fn lock_of_reference(&self, id: &IntentId, reference: &str) -> i64 {
        let scope = &id.scope;
        let parts = [
            scope.tenant.as_str().as_bytes(),
            scope.operation.as_str().as_bytes(),
            reference.as_bytes(),
            b"R",
        ];
        self.hash(&parts)
    }

    /// Returns what tells this schema's things from another's that bear the same name in one server.
    pub(crate) fn tells_apart(&self, name: &str) -> u64 {
        self.hash(&[name.as_bytes()]).cast_unsigned()
    }

    fn hash(&self, parts: &[&[u8]]) -> i64 {
        let mut digest = Sha256::new_with_prefix(self.0);
        for part in parts {
            digest.update(u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
            digest.update(part);
        }
        let digest = digest.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        i64::from_be_bytes(first)
    }
}

impl std::fmt::Debug for LockSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LockSecret(…)")
    }
}
