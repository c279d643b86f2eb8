//! Any text as a permit, and any bytes as the names in one: one permit has one text, and no other text names it.
//!
//! As names, a line feed parts tenant, operation and key from what decides of facet, token and numbers.

use semel::{Fence, Key, Operation, Permit, Scope, Tenant, Token, permit};

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(permit) = permit::decode(text) {
        assert_eq!(permit::encode(&permit), text);
    }
    let Some(permit) = named(text) else { return };
    let written = permit::encode(&permit);
    assert!(written.is_ascii(), "it travels in a header: {written}");
    assert_eq!(permit::decode(&written), Ok(permit));
    for at in 0..written.len() {
        let mut other = written.clone().into_bytes();
        other[at] ^= 0x20;
        let other = String::from_utf8(other).expect("a flipped case is ASCII");
        if let Ok(other_permit) = permit::decode(&other) {
            assert_eq!(permit::encode(&other_permit), other, "two texts name one permit");
        }
    }
}

fn named(text: &str) -> Option<Permit> {
    let mut lines = text.splitn(4, '\n');
    let tenant = name(lines.next()?, Tenant::new, Tenant::as_str)?;
    let operation = name(lines.next()?, Operation::new, Operation::as_str)?;
    let key = name(lines.next()?, Key::new, Key::as_str)?;
    let rest = lines.next()?.as_bytes();
    let id = Scope::new(tenant, operation).intent(key);
    let id = match rest.first_chunk::<32>() {
        Some(facet) => id.narrowed(*facet),
        None => id,
    };
    let filled = |at: usize| rest.get(at).copied().unwrap_or_default();
    let number = |from: usize| u64::from_be_bytes(std::array::from_fn(|at| filled(from + at)));
    Some(Permit {
        id,
        token: Token::from_bytes(std::array::from_fn(filled)),
        fence: Fence::new(number(16)),
        incarnation: u32::from_be_bytes(std::array::from_fn(|at| filled(24 + at))),
    })
}

/// A name that is taken is kept as it is.
fn name<T, E>(
    text: &str,
    new: impl FnOnce(String) -> Result<T, E>,
    as_str: impl FnOnce(&T) -> &str,
) -> Option<T> {
    let name = new(text.to_owned()).ok()?;
    assert_eq!(as_str(&name), text);
    assert!(!text.is_empty() && !text.chars().any(char::is_control));
    Some(name)
}
