//! The order of member names: that of RFC 8785, by UTF-16 code units of the unescaped name.

use std::cmp::Ordering;

use super::text::unescaped;

/// A member name in canonical escaped spelling.
#[derive(Copy, Clone, Debug)]
pub(super) struct Name<'a> {
    pub(super) text: &'a [u8],
    /// Whether the text may hold escapes.
    pub(super) escaped: bool,
}

impl Name<'_> {
    /// Compares two names.
    #[inline]
    pub(super) fn compare(self, other: Name<'_>) -> Ordering {
        if self.escaped || other.escaped {
            return unescaped(self.text).map(rank).cmp(unescaped(other.text).map(rank));
        }
        let same = self.text.iter().zip(other.text).take_while(|(one, other)| one == other).count();
        let next = |text: &[u8]| text.get(same).map(|byte| rank(*byte));
        next(self.text).cmp(&next(other.text))
    }
}

/// Ranks a byte of UTF-8 as its character ranks in UTF-16: those from U+10000 on, which become surrogates, come before
/// U+E000 to U+FFFF. All other bytes rank as they are.
fn rank(byte: u8) -> u16 {
    match byte {
        0xee | 0xef => u16::from(byte) + 0x100,
        _ => u16::from(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::escaped;
    use super::*;

    fn name(text: &[u8]) -> Name<'_> {
        Name { text, escaped: text.contains(&b'\\') }
    }

    #[test]
    fn names_are_ordered_by_utf_16_code_units() {
        let names = [
            "",
            "\0",
            "\u{8}",
            "\n",
            "\r",
            "\u{1f}",
            " ",
            "!",
            "\"",
            "#",
            "1",
            "10",
            "111",
            "A",
            "[",
            "\\",
            "\\\\",
            "]",
            "a",
            "aa",
            "a\n",
            "a\"",
            "a\\",
            "a~",
            "\u{7f}",
            "\u{80}",
            "ö",
            "€",
            "\u{d7ff}",
            "😂",
            "a😂",
            "a\u{e000}",
            "\u{10ffff}",
            "\u{e000}",
            "\u{fb33}",
            "\u{ffff}",
            "€😂",
            "€\u{fb33}",
        ];
        for one in names {
            for other in names {
                let want = one.encode_utf16().cmp(other.encode_utf16());
                let (left, right) = (escaped(one.as_bytes()), escaped(other.as_bytes()));
                let have = name(&left).compare(name(&right));
                assert_eq!(have, want, "{one:?} against {other:?}");
            }
        }
    }
}
