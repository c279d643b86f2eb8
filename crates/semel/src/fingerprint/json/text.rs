//! The canonical spelling of characters in strings.

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Spells a string as it stands between the quotes of the canonical form.
pub(in crate::fingerprint) fn escaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    text.iter().for_each(|byte| push_byte(*byte, &mut out));
    out
}

/// Appends one character.
pub(super) fn push_char(c: char, out: &mut Vec<u8>) {
    match u8::try_from(c) {
        Ok(byte) if byte.is_ascii() => push_byte(byte, out),
        _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Appends one byte of UTF-8; everything that needs an escape is ASCII.
fn push_byte(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        0..0x20 => {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            return out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
        _ => return out.push(byte),
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Reads canonically escaped text back, byte by byte.
pub(super) fn unescaped(text: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (byte, len) = match rest {
            [] => return None,
            [b'\\', b'u', _, _, high, low, ..] => (nibble(*high) << 4 | nibble(*low), 6),
            [b'\\', short, ..] => (long(*short), 2),
            [byte, ..] => (*byte, 1),
        };
        rest = &rest[len..];
        Some(byte)
    })
}

fn nibble(digit: u8) -> u8 {
    if digit.is_ascii_digit() { digit - b'0' } else { digit - b'a' + 10 }
}

fn long(short: u8) -> u8 {
    match short {
        b'b' => 0x08,
        b't' => b'\t',
        b'n' => b'\n',
        b'f' => 0x0c,
        b'r' => b'\r',
        same => same,
    }
}
