//! A permit as text, to be handed on: to the application behind a bridged gateway, and to the SQL
//! functions of a store.
//!
//! Version 1 is eight parts with a `.` between them: `1`, then in hexadecimal the tenant, the
//! operation, the key, the facet (empty: none) and the token, then in decimal the fence and the
//! incarnation. The text proves a claim: it is never logged, and never shown to a client.

use std::fmt::Write;

use thiserror::Error;

use crate::{
    key::{IntentId, Key, Operation, Scope, Tenant},
    record::{Fence, Permit, Token},
};

/// The text is not a permit.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("the text is not a permit")]
pub struct MalformedPermit;

impl MalformedPermit {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "permit-malformed"
    }
}

/// Writes a permit as text.
///
/// ```
/// use semel::{Fence, Key, Operation, Permit, Scope, Tenant, Token, permit};
///
/// let scope = Scope::new(Tenant::new("acme")?, Operation::new("pay")?);
/// let permit = Permit {
///     id: scope.intent(Key::new("k")?),
///     token: Token::from_bytes([7; 16]),
///     fence: Fence::new(9),
///     incarnation: 0,
/// };
/// let text = permit::encode(&permit);
/// assert_eq!(text, "1.61636d65.706179.6b..07070707070707070707070707070707.9.0");
/// assert_eq!(permit::decode(&text), Ok(permit));
/// # Ok::<(), semel::NameError>(())
/// ```
#[must_use]
pub fn encode(permit: &Permit) -> String {
    let IntentId { scope, key, facet } = &permit.id;
    let mut text = String::with_capacity(192);
    text.push('1');
    for part in [
        scope.tenant.as_str().as_bytes(),
        scope.operation.as_str().as_bytes(),
        key.as_str().as_bytes(),
        facet.as_ref().map_or(&[], |facet| facet),
        permit.token.as_bytes(),
    ] {
        text.push('.');
        for byte in part {
            write!(text, "{byte:02x}").expect("a string can be written to");
        }
    }
    write!(text, ".{}.{}", permit.fence.get(), permit.incarnation)
        .expect("a string can be written to");
    text
}

/// Reads a permit.
///
/// # Errors
///
/// Fails if the text is not what [`encode`] writes.
pub fn decode(text: &str) -> Result<Permit, MalformedPermit> {
    read(text).ok_or(MalformedPermit)
}

fn read(text: &str) -> Option<Permit> {
    let parts: Vec<_> = text.split('.').collect();
    let [version, tenant, operation, key, facet, token, fence, incarnation] = parts[..] else {
        return None;
    };
    let name = |part| String::from_utf8(bytes(part)?).ok();
    let scope =
        Scope::new(Tenant::new(name(tenant)?).ok()?, Operation::new(name(operation)?).ok()?);
    let id = scope.intent(Key::new(name(key)?).ok()?);
    let id = if facet.is_empty() { id } else { id.narrowed(bytes(facet)?.try_into().ok()?) };
    let permit = Permit {
        id,
        token: Token::from_bytes(bytes(token)?.try_into().ok()?),
        fence: Fence::new(fence.parse().ok()?),
        incarnation: incarnation.parse().ok()?,
    };
    // One permit has one text: nothing else, such as `+1` or capital letters, names it.
    (version == "1" && encode(&permit) == text).then_some(permit)
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permit(facet: Option<[u8; 32]>) -> Permit {
        let scope = Scope::new(Tenant::new("Käufer 7").unwrap(), Operation::new("pay").unwrap());
        let id = scope.intent(Key::new("a.b").unwrap());
        let id = facet.map_or_else(|| id.clone(), |facet| id.clone().narrowed(facet));
        Permit {
            id,
            token: Token::from_bytes([0xab; 16]),
            fence: Fence::new(u64::MAX),
            incarnation: 3,
        }
    }

    #[test]
    fn every_permit_comes_back_equal() {
        for facet in [None, Some([1; 32])] {
            assert_eq!(decode(&encode(&permit(facet))), Ok(permit(facet)));
        }
    }

    #[test]
    fn what_is_not_the_text_of_a_permit_is_refused() {
        let text = encode(&permit(None));
        for at in 0..text.len() {
            assert_eq!(decode(&text[..at]), Err(MalformedPermit), "cut at {at}");
        }
        for bad in [
            text.to_uppercase(),
            text.replacen("1.", "2.", 1),
            format!("{text}.0"),
            format!("{text} "),
            text.replace(".3", ".+3"),
            text.replace(".3", ".03"),
        ] {
            assert_eq!(decode(&bad), Err(MalformedPermit), "{bad}");
        }
    }
}
