//! The canonical form of a JSON text: one pass over the bytes, no tree, no floating point.
//!
//! It is the text of RFC 8785 with one difference: a number is an exact decimal and never passes through a double.
//! Where the shortest text of a double is the decimal that was sent, which is what a peer prints that computes with
//! doubles, both agree to the byte, exponents and `1e+21` included. They differ where RFC 8785 loses something:
//!
//! | sent | here | RFC 8785 |
//! |---|---|---|
//! | `9007199254740993` | `9007199254740993` | `9007199254740992` |
//! | `333333333.33333329` | `333333333.33333329` | `333333333.3333333` |
//! | `1e400` | `1e+400` | an error |
//! | `1e-400` | `1e-400` | `0` |
//!
//! A byte order mark, anything behind the value, a control character in a string, a lone surrogate and a duplicate
//! member are errors.

mod member;
mod name;
mod number;
mod order;
mod parser;
mod scan;
mod text;
mod token;

use self::parser::Parser;
use super::{FingerprintError, Limits, Plan};

pub(super) use self::number::PLAIN_DIGITS_MAX;
pub(super) use self::text::escaped;

/// Writes a JSON text in its canonical form.
///
/// ```
/// use semel::fingerprint::{Limits, canonical_json};
///
/// let text = canonical_json(br#"{ "b": 1.50, "a": [1e2, "\u00e9"] }"#, &Limits::new())?;
/// assert_eq!(text, r#"{"a":[100,"é"],"b":1.5}"#.as_bytes());
/// # Ok::<(), semel::fingerprint::FingerprintError>(())
/// ```
///
/// # Errors
///
/// Returns the reason why the text has no canonical form.
pub fn canonical_json(text: &[u8], limits: &Limits) -> Result<Vec<u8>, FingerprintError> {
    Plan::new().limits(*limits).canonical_json(text)
}

/// What [`write`] wrote.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Written {
    /// An object that has the included values as members, each named by its pointer.
    Included,
    /// The whole text, without what is excluded.
    Whole,
}

/// Appends the canonical form of what counts of `text` by `plan` to `out`.
pub(super) fn write(
    text: &[u8],
    plan: &Plan,
    out: &mut Vec<u8>,
) -> Result<Written, FingerprintError> {
    let tape = Parser::new(check_encoding(text)?, plan).run()?;
    if tape.includes_nothing() {
        tape.write_whole(out);
        return Ok(Written::Whole);
    }
    tape.write_included(plan.included().texts(), out);
    Ok(Written::Included)
}

/// Checks once for the whole text what the scanner may then rely on.
fn check_encoding(text: &[u8]) -> Result<&[u8], FingerprintError> {
    let (len, limit) = (text.len(), Limits::JSON_BYTES_MAX);
    if len > limit {
        return Err(FingerprintError::TooLong { len, limit });
    }
    if text.starts_with(b"\xef\xbb\xbf") {
        return Err(FingerprintError::ByteOrderMark);
    }
    let utf8 = std::str::from_utf8(text);
    utf8.map_err(|error| FingerprintError::InvalidUtf8 { at: error.valid_up_to() })?;
    Ok(text)
}

#[cfg(test)]
mod tests;
