//! What is tried: one file per kind of trouble.

/// A rule that an API with idempotency keys keeps, in words of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rule {
    /// Its stable name, such as `lost-answer`.
    pub name: &'static str,
    /// What must hold, in one sentence.
    pub says: &'static str,
}
