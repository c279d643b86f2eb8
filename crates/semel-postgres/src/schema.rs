//! The name of the schema that holds everything, put into every statement once.

use std::fmt;

use semel::StoreError;

use crate::error::invalid;

/// What every statement and migration names.
const WRITTEN: &str = "semel.";
const QUOTED: &str = "\"semel\"";

/// The name of a schema: lower-case letters, digits and `_`, so that nothing has to be quoted in it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Schema(Box<str>);

impl Schema {
    /// The largest name, in bytes: what PostgreSQL keeps of an identifier.
    const MAX: usize = 63;

    pub(crate) fn new(name: &str) -> Result<Self, StoreError> {
        let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !starts || !name.chars().all(allowed) || name.len() > Self::MAX {
            return Err(invalid(
                "the schema's name must be 1 to 63 lower-case letters, digits or _, no digit first",
            ));
        }
        if name.starts_with("pg_") {
            return Err(invalid("a schema's name that begins with pg_ is PostgreSQL's own"));
        }
        Ok(Self(name.into()))
    }

    /// Puts the name in for `semel`, wherever a statement names its schema.
    pub(crate) fn put_into(&self, text: &str) -> Box<str> {
        let mut made = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(WRITTEN) {
            let before = rest[..at].chars().next_back();
            let whole = !before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
            made.push_str(&rest[..at]);
            if whole {
                made.push_str(&self.to_string());
                made.push('.');
            } else {
                made.push_str(WRITTEN);
            }
            rest = &rest[at + WRITTEN.len()..];
        }
        made.push_str(rest);
        made.replace(QUOTED, &self.to_string()).into()
    }
}

/// Quoted, since a plain name may be a word of SQL.
impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

impl Default for Schema {
    fn default() -> Self {
        Self("semel".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_put_in_wherever_the_schema_is_named_and_nowhere_else() {
        let schema = Schema::new("shop_1").unwrap();
        let text =
            "SELECT semel.now_us(), 'the semel. of x', a_semel.b FROM semel.record, \"semel\"";
        let made = schema.put_into(text);
        assert_eq!(
            &*made,
            "SELECT \"shop_1\".now_us(), 'the \"shop_1\". of x', a_semel.b FROM \"shop_1\".record, \"shop_1\""
        );
    }

    #[test]
    fn a_name_that_would_need_quoting_is_refused() {
        for bad in ["", "Shop", "a-b", "a\"b", "1a", "pg_x", "é", &"a".repeat(64)] {
            assert!(Schema::new(bad).is_err(), "{bad:?}");
        }
        assert!(Schema::new("_a1").is_ok());
    }
}
