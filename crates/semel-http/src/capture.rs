//! Keeping an answer: which headers, how much of the body, and where the resource lives.

use std::collections::BTreeSet;

use http::HeaderName;
use semel::IntentId;
use thiserror::Error;

/// The name of the intent that a request runs, in the extensions of the request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IntentName(pub IntentId);

/// The resource that a handler made, in the extensions of its response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Resource {
    /// What kind of resource, such as `payment`.
    pub kind: Box<str>,
    /// Its id.
    pub id: Box<str>,
}

impl Resource {
    /// Names a resource.
    #[must_use]
    pub fn new(kind: impl Into<Box<str>>, id: impl Into<Box<str>>) -> Self {
        Self { kind: kind.into(), id: id.into() }
    }
}

/// Where the pointer to the resource comes from, if the handler does not name it by a [`Resource`] or
/// the header `Semel-Pointer`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum PointerRule {
    /// From the JSON body of a success, by a JSON Pointer to a string or a number.
    Body {
        /// What kind of resource.
        kind: Box<str>,
        /// The JSON Pointer, such as `/id`.
        pointer: Box<str>,
    },
    /// From the `Location` header.
    Location {
        /// What kind of resource.
        kind: Box<str>,
    },
    /// From nowhere else.
    #[default]
    Named,
}

/// Says why a header cannot be kept.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("the header {name} cannot be kept: {why}")]
pub struct HeaderRuleError {
    /// The header.
    pub name: HeaderName,
    /// Why.
    pub why: &'static str,
}

/// Which headers of an answer are kept and replayed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HeaderRules {
    more: BTreeSet<String>,
    less: BTreeSet<String>,
    cookies: bool,
}

impl HeaderRules {
    /// Makes the default rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps one more header.
    #[must_use]
    pub fn keep(mut self, name: &HeaderName) -> Self {
        self.less.remove(name.as_str());
        self.more.insert(name.as_str().to_owned());
        self
    }

    /// Keeps one header less.
    #[must_use]
    pub fn drop(mut self, name: &HeaderName) -> Self {
        self.more.remove(name.as_str());
        self.less.insert(name.as_str().to_owned());
        self
    }

    /// Keeps `Set-Cookie` lines, byte for byte. Without this they are dropped whole: an attribute is
    /// never changed.
    #[must_use]
    pub const fn cookies(mut self, on: bool) -> Self {
        self.cookies = on;
        self
    }

    pub(crate) fn check(&self) -> Result<(), HeaderRuleError> {
        let _ = (&self.more, &self.less, self.cookies);
        Ok(())
    }
}
