//! The canonical digest of what was asked, which tells a retry from another request under a used key.
//!
//! A [`Plan`] says which parts of a [`Command`] count; [`Plan::digest`] makes the [`Fingerprint`]. A fingerprint
//! names its plan, so that a retry across a deploy is compared by the plan that the record was made with: [`Plans`]
//! keeps the old ones. A fingerprint answers one question only, "is this the same command?"; which intent a command
//! belongs to is the business of its key.
//!
//! # What counts as the same command
//!
//! | part | rule |
//! |---|---|
//! | method | as sent; methods are case-sensitive |
//! | path, query | the text as sent, nothing decoded: `%2F` is not `/`, `%7E` is not `~`, `a=1&b=2` is not `b=2&a=1`, no query is not an empty one |
//! | headers | only those the plan names, by lower-case name; all values in order, without surrounding blanks; absent is not empty |
//! | JSON | members in RFC 8785 order; numbers as exact decimals; strings after unescaping, never Unicode-normalised; absent is not `null`; arrays keep their order |
//! | JSON media type | the essence alone: `application/json; charset=utf-8` is `application/json`, `application/merge-patch+json` is not |
//! | form | decoded pairs; the order of values of one name counts, the order between names does not |
//! | multipart | parts in order: name, file name, type and content; never the boundary |
//! | anything else | media type and bytes |
//!
//! An absent body and an empty one are the same: both are [`CommandBody::Empty`].
//!
//! # Include and exclude
//!
//! JSON Pointers (RFC 6901) choose what counts. An excluded value counts as absent, in an array too. With an include
//! list only the named values count, each together with its pointer; `null` is a value and counts. A
//! form or a multipart body is read as one flat object: `/name` means every pair or part of that name. Where nothing
//! that the plan includes is present, or the body has no members to point at, **everything** counts: a list that
//! matches nothing must never make all bodies alike. Duplicate members are refused even where they are excluded.
//!
//! # Limits
//!
//! Everything is bounded: see [`Limits`]. Limits are no part of the plan's identity, since they decide only whether
//! there is a fingerprint, not which.

mod command;
mod error;
mod feed;
mod form;
mod json;
mod limits;
mod plan;
mod plans;
mod pointer;
mod volatile;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::LazyLock;

use subtle::ConstantTimeEq;

pub use self::command::{Command, CommandBody, Content, FormPair, Part};
pub use self::error::{FingerprintError, ParseFingerprintError, PlanError};
pub use self::json::canonical_json;
pub use self::limits::Limits;
pub use self::plan::Plan;
pub use self::plans::Plans;

use self::feed::Feed;

/// The default plan, made once.
static DEFAULT: LazyLock<Plan> = LazyLock::new(Plan::new);

/// Names how a fingerprint was made: the version of the canonical form, the include and exclude pointers, the headers
/// and the id of the secret.
///
/// It is the first 8 bytes of a SHA-256 over [`Plan::description`].
#[derive(Copy, Clone, Eq, PartialEq, Ord, PartialOrd, Hash, Debug)]
pub struct PlanId([u8; 8]);

impl PlanId {
    /// Takes the bytes of an id as stored in a record.
    #[must_use]
    pub const fn new(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the id.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl fmt::Display for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl FromStr for PlanId {
    type Err = ParseFingerprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read_hex(text).map(Self)
    }
}

/// The digest of a command, together with the id of the plan it was made with.
///
/// Digests are compared in constant time. Two fingerprints of different plans are never equal, and say nothing about
/// each other: compare the plans first, and where they differ make the digest again by the record's own plan.
#[derive(Copy, Clone)]
pub struct Fingerprint {
    plan: PlanId,
    digest: [u8; 32],
}

impl Fingerprint {
    /// Puts a fingerprint together from its stored parts.
    #[must_use]
    pub const fn new(plan: PlanId, digest: [u8; 32]) -> Self {
        Self { plan, digest }
    }

    /// Makes the fingerprint of any bytes, under the default plan.
    ///
    /// ```
    /// use semel::fingerprint::Fingerprint;
    ///
    /// assert_eq!(Fingerprint::of_bytes(b"pay 10"), Fingerprint::of_bytes(b"pay 10"));
    /// assert_ne!(Fingerprint::of_bytes(b"pay 10"), Fingerprint::of_bytes(b"pay 11"));
    /// ```
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let mut feed = Feed::value(&DEFAULT);
        feed.tag(b'R');
        feed.bytes(bytes);
        feed.finish(&DEFAULT)
    }

    /// Makes the fingerprint of a JSON text, under the default plan.
    ///
    /// ```
    /// use semel::fingerprint::Fingerprint;
    ///
    /// let first = Fingerprint::of_json(br#"{"amount": 10.0, "currency": "EUR"}"#)?;
    /// let again = Fingerprint::of_json(br#"{"currency":"EUR","amount":1e1}"#)?;
    /// assert_eq!(first, again);
    /// # Ok::<(), semel::fingerprint::FingerprintError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the reason why the text has no canonical form.
    pub fn of_json(text: &[u8]) -> Result<Self, FingerprintError> {
        let mut feed = Feed::value(&DEFAULT);
        feed.json(&DEFAULT, text)?;
        Ok(feed.finish(&DEFAULT))
    }

    /// Reads the bytes of a fingerprint that is stored as one value; `None` if there are more or fewer.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (plan, digest) = bytes.split_first_chunk()?;
        Some(Self { plan: PlanId(*plan), digest: digest.try_into().ok()? })
    }

    /// Returns the bytes that are stored where a fingerprint is one value: those of the plan's id, then
    /// the digest.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 40] {
        let mut bytes = [0; 40];
        bytes[..8].copy_from_slice(&self.plan.0);
        bytes[8..].copy_from_slice(&self.digest);
        bytes
    }

    /// Returns the id of the plan that the digest was made with.
    #[must_use]
    pub const fn plan(&self) -> PlanId {
        self.plan
    }

    /// Returns the digest.
    #[must_use]
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

impl Eq for Fingerprint {}

impl PartialEq for Fingerprint {
    fn eq(&self, other: &Self) -> bool {
        self.plan == other.plan && bool::from(self.digest.ct_eq(&other.digest))
    }
}

impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.plan.hash(state);
        self.digest.hash(state);
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.plan.0)?;
        f.write_str("-")?;
        write_hex(f, &self.digest)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = ParseFingerprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (plan, digest) = text.split_once('-').ok_or(ParseFingerprintError)?;
        Ok(Self { plan: plan.parse()?, digest: read_hex(digest)? })
    }
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

fn read_hex<const N: usize>(text: &str) -> Result<[u8; N], ParseFingerprintError> {
    let text = text.as_bytes();
    if text.len() != N * 2 {
        return Err(ParseFingerprintError);
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Ok(bytes)
}

fn nibble(digit: u8) -> Result<u8, ParseFingerprintError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(ParseFingerprintError),
    }
}

#[cfg(test)]
mod tests;
