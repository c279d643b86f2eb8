//! Why there is no fingerprint, or no plan.

/// Why a command has no fingerprint.
///
/// Every kind is the sender's to correct: the same command will always meet the same answer. Positions count bytes of
/// the body from zero, after content codings were removed. No message repeats content of the body.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FingerprintError {
    /// The JSON text starts with a byte order mark. RFC 8259 forbids senders to add one.
    #[error("the JSON text starts with a byte order mark")]
    ByteOrderMark,
    /// A member of a JSON object appears twice; two readers could act on different values.
    #[error("duplicate member in the JSON object that ends at byte {at}")]
    DuplicateMember {
        /// Where the object ends.
        at: usize,
    },
    /// The JSON text is not UTF-8.
    #[error("invalid UTF-8 in the JSON text at byte {at}")]
    InvalidUtf8 {
        /// The first byte that is not valid.
        at: usize,
    },
    /// A string holds half of a surrogate pair, which is not a character.
    #[error("lone surrogate in the JSON text at byte {at}")]
    LoneSurrogate {
        /// Where the escape begins.
        at: usize,
    },
    /// The text is not JSON.
    #[error("malformed JSON at byte {at}: {expected}")]
    Malformed {
        /// Where reading stopped.
        at: usize,
        /// What should have stood there.
        expected: &'static str,
    },
    /// The exponent of a number, in scientific form, has more digits than the limit.
    #[error("the exponent of the number at byte {at} has more than {limit} digits")]
    NumberExponent {
        /// Where the number begins.
        at: usize,
        /// The limit.
        limit: u8,
    },
    /// A number has more significant digits than the limit.
    #[error("the number at byte {at} has more than {limit} significant digits")]
    NumberTooLong {
        /// Where the number begins.
        at: usize,
        /// The limit.
        limit: u32,
    },
    /// The JSON text nests deeper than the limit.
    #[error("the JSON text nests deeper than {limit} levels at byte {at}")]
    TooDeep {
        /// Where the level over the limit opens.
        at: usize,
        /// The limit.
        limit: u16,
    },
    /// The body is longer than anything that is fingerprinted as JSON.
    #[error("a JSON text of {len} bytes is longer than {limit}")]
    TooLong {
        /// How long it is.
        len: usize,
        /// The limit.
        limit: usize,
    },
    /// The body has more members, pairs or parts than the limit.
    #[error("the body has more than {limit} members")]
    TooManyMembers {
        /// The limit.
        limit: u32,
    },
}

impl FingerprintError {
    /// Returns the stable name of the kind.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::ByteOrderMark => "byte-order-mark",
            Self::DuplicateMember { .. } => "duplicate-member",
            Self::InvalidUtf8 { .. } => "invalid-utf-8",
            Self::LoneSurrogate { .. } => "lone-surrogate",
            Self::Malformed { .. } => "malformed-json",
            Self::NumberExponent { .. } => "number-exponent",
            Self::NumberTooLong { .. } => "number-too-long",
            Self::TooDeep { .. } => "too-deep",
            Self::TooLong { .. } => "body-too-long",
            Self::TooManyMembers { .. } => "too-many-members",
        }
    }
}

/// Why a [`Plan`](super::Plan) cannot be made as asked. Every kind is a mistake in configuration.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A pointer excludes a value that the include list names, or everything.
    #[error("the exclude pointer {pointer:?} leaves nothing of what is included")]
    ExcludesIncluded {
        /// The pointer.
        pointer: String,
    },
    /// A header changes between two tries of one intent, or is not the caller's.
    #[error("the header {name} cannot count in a fingerprint: {reason}")]
    HeaderRefused {
        /// The name, in lower case.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// A header has no valid name.
    #[error("{name:?} is not a header name")]
    HeaderSyntax {
        /// The name as given.
        name: String,
    },
    /// A pointer is not a JSON Pointer by RFC 6901.
    #[error(
        "{pointer:?} is not a JSON Pointer: it starts with a slash, and a tilde stands only in ~0 and ~1"
    )]
    PointerSyntax {
        /// The pointer as given.
        pointer: String,
    },
    /// The id of a secret is not 1 to 64 visible ASCII characters.
    #[error("the id of a secret has 1 to 64 visible ASCII characters")]
    SecretId,
    /// Two plans name one secret id but hold different keys.
    #[error("the secret id {id} stands for two different keys")]
    SecretReused {
        /// The id.
        id: String,
    },
    /// A secret is shorter than 16 bytes.
    #[error("a secret has at least 16 bytes, this one has {len}")]
    SecretTooShort {
        /// How long it is.
        len: usize,
    },
    /// There is more of something than a plan may hold.
    #[error("more than {limit} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
}

impl PlanError {
    /// Returns the stable name of the kind.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::ExcludesIncluded { .. } => "plan-excludes-included",
            Self::HeaderRefused { .. } => "plan-header-refused",
            Self::HeaderSyntax { .. } => "plan-header-syntax",
            Self::PointerSyntax { .. } => "plan-pointer-syntax",
            Self::SecretId => "plan-secret-id",
            Self::SecretReused { .. } => "plan-secret-reused",
            Self::SecretTooShort { .. } => "plan-secret-too-short",
            Self::TooMany { .. } => "plan-too-many",
        }
    }
}

/// A text is not a [`Fingerprint`](super::Fingerprint) or a [`PlanId`](super::PlanId).
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not a fingerprint: expected lower-case hexadecimal digits of the right length")]
pub struct ParseFingerprintError;
