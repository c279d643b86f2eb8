//! Finding the end of runs, eight bytes at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Returns how many bytes from the start need no look inside a string: up to a quote, a backslash or a control
/// character.
#[inline]
pub(super) fn plain(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let special = below_space(word) | equal(word, b'"') | equal(word, b'\\');
        if special != 0 {
            return at + (special.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    bytes[at..].iter().position(special).map_or(bytes.len(), |found| at + found)
}

/// Marks the bytes below 0x20. The lowest mark is right; a borrow may set marks above it.
#[inline]
const fn below_space(word: u64) -> u64 {
    word.wrapping_sub(ONES * 0x20) & !word & HIGHS
}

/// Marks the bytes equal to `byte`, in the same way.
#[inline]
const fn equal(word: u64, byte: u8) -> u64 {
    let zeros = word ^ (ONES * byte as u64);
    zeros.wrapping_sub(ONES) & !zeros & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_every_special_byte_and_nowhere_else() {
        for len in 0..20 {
            for at in 0..len {
                for byte in 0..=u8::MAX {
                    let mut bytes = vec![b'!'; len];
                    bytes[at] = byte;
                    let special = byte < 0x20 || byte == b'"' || byte == b'\\';
                    assert_eq!(
                        plain(&bytes),
                        if special { at } else { len },
                        "{byte} at {at} of {len}"
                    );
                }
            }
        }
    }
}
