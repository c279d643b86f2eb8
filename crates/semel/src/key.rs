//! Names: who asks ([`Tenant`]), for what ([`Operation`]), and what the caller calls it ([`Key`]).
//!
//! Nothing behind this file handles a raw string as a name: a value of these types is already
//! bounded and printable. An [`IntentId`] is the full name of one intent, and the primary key of its
//! record in every store.

use std::fmt;

use thiserror::Error;

/// Says why a text cannot be a name.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum NameError {
    /// The text holds a character outside the allowed set.
    #[error("{what} holds a character that is not allowed at byte {at}")]
    Character {
        /// Which name was parsed.
        what: &'static str,
        /// The offset of the first bad byte.
        at: usize,
    },
    /// The text is empty.
    #[error("{what} is empty")]
    Empty {
        /// Which name was parsed.
        what: &'static str,
    },
    /// The text is longer than the bound.
    #[error("{what} has {len} bytes, more than {max}")]
    TooLong {
        /// Which name was parsed.
        what: &'static str,
        /// How many bytes it has.
        len: usize,
        /// How many it may have.
        max: usize,
    },
}

impl NameError {
    /// Returns the stable code of this error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Character { .. } => "name-character",
            Self::Empty { .. } => "name-empty",
            Self::TooLong { .. } => "name-too-long",
        }
    }
}

/// Declares a name: a bounded, printable text.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:literal, $allowed:expr) => {
        $(#[$doc])*
        #[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// The largest number of bytes.
            pub const MAX: usize = $max;

            /// Parses a name.
            ///
            /// # Errors
            ///
            /// Returns a [`NameError`](crate::NameError) if the text is empty, too long, or holds a character outside
            /// the allowed set.
            pub fn new(text: impl AsRef<str>) -> Result<Self, $crate::NameError> {
                let text = text.as_ref();
                $crate::key::check($what, text, Self::MAX, $allowed)?;
                Ok(Self(text.into()))
            }

            /// Returns the text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({:?})", stringify!($name), &*self.0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::NameError;

            fn from_str(text: &str) -> Result<Self, $crate::NameError> {
                Self::new(text)
            }
        }
    };
}

pub(crate) use name;

name! {
    /// The caller's name for an intent: 1 to 255 visible ASCII characters, opaque.
    ///
    /// ```
    /// use semel::Key;
    /// assert!(Key::new("8e03978e-40d5-43e8-bc93-6894a57f9324").is_ok());
    /// assert!(Key::new("").is_err());
    /// assert!(Key::new("two words").is_err());
    /// ```
    Key, "key", 255, |c: char| matches!(c, '!'..='~')
}

name! {
    /// Who asks: 1 to 255 bytes of text without control characters.
    Tenant, "tenant", 255, |c: char| !c.is_control()
}

name! {
    /// What is asked for: an explicit name that survives renames and deploys, such as
    /// `payments.create`. 1 to 128 ASCII letters, digits, `.`, `_`, `-`, `:` and `/`.
    Operation, "operation", 128,
    |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '/')
}

name! {
    /// What a business calls an intent, such as an order number: 1 to 255 bytes of text without control
    /// characters. It is used once in its scope, under whichever key, and outlives the key.
    Reference, "reference", 255, |c: char| !c.is_control()
}

pub(crate) fn check(
    what: &'static str,
    text: &str,
    max: usize,
    allowed: impl Fn(char) -> bool,
) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty { what });
    }
    if text.len() > max {
        return Err(NameError::TooLong { what, len: text.len(), max });
    }
    match text.char_indices().find(|(_, c)| !allowed(*c)) {
        Some((at, _)) => Err(NameError::Character { what, at }),
        None => Ok(()),
    }
}

/// The space in which a key names an intent: one tenant, one operation.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Scope {
    /// Who asks.
    pub tenant: Tenant,
    /// What is asked for.
    pub operation: Operation,
}

impl Scope {
    /// Makes a scope of its two parts.
    #[must_use]
    pub const fn new(tenant: Tenant, operation: Operation) -> Self {
        Self { tenant, operation }
    }

    /// Names an intent in this scope.
    #[must_use]
    pub const fn intent(self, key: Key) -> IntentId {
        IntentId { scope: self, key, facet: None }
    }
}

/// What narrows an intent beyond scope and key: a digest, made by whoever defines the operation.
///
/// An operation whose path is part of its identity puts the digest of the path here; under
/// `new_intent` it is the digest of the content.
pub type Facet = [u8; 32];

/// The full name of one intent.
///
/// ```
/// use semel::{IntentId, Key, Operation, Scope, Tenant};
/// let scope = Scope::new(Tenant::new("acme")?, Operation::new("payments.create")?);
/// let id = scope.intent(Key::new("order-7-attempt")?);
/// assert_eq!(id.to_string(), "acme payments.create order-7-attempt");
/// # Ok::<(), semel::NameError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct IntentId {
    /// Who asks for what.
    pub scope: Scope,
    /// The caller's name for it.
    pub key: Key,
    /// What narrows it further.
    pub facet: Option<Facet>,
}

impl IntentId {
    /// Returns the same name narrowed by `facet`.
    #[must_use]
    pub fn narrowed(mut self, facet: Facet) -> Self {
        self.facet = Some(facet);
        self
    }
}

impl fmt::Display for IntentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.scope.tenant, self.scope.operation, self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_1_to_255_visible_ascii_characters() {
        assert!(Key::new("k").is_ok());
        assert!(Key::new("!~").is_ok());
        assert!(Key::new("k".repeat(255)).is_ok());
        assert_eq!(Key::new(""), Err(NameError::Empty { what: "key" }));
        let long = Key::new("k".repeat(256));
        assert_eq!(long, Err(NameError::TooLong { what: "key", len: 256, max: 255 }));
        for bad in ["a b", "a\u{7f}", "a\n", "é", "a\0"] {
            assert_eq!(Key::new(bad).map_err(|e| e.code()), Err("name-character"), "{bad:?}");
        }
    }

    #[test]
    fn an_operation_is_an_explicit_name() {
        assert!(Operation::new("payments.create").is_ok());
        assert!(Operation::new("payments create").is_err());
        assert!(Operation::new("o".repeat(129)).is_err());
    }

    #[test]
    fn a_tenant_is_any_text_without_control_characters() {
        assert!(Tenant::new("Käufer 7").is_ok());
        assert!(Tenant::new("a\tb").is_err());
    }
}
