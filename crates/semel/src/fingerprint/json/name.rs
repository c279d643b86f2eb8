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

/// The beginning of a name as a number, ordered as names are. It settles most comparisons without the name itself.
#[derive(Copy, Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Prefix(u64);

impl Prefix {
    const LEN: usize = 8;
    pub(super) const NONE: Self = Self(0);
}

impl Name<'_> {
    #[inline]
    pub(super) fn prefix(self) -> Prefix {
        if let (false, Some(bytes)) = (self.escaped, self.text.first_chunk()) {
            let word = u64::from_be_bytes(*bytes);
            if word & 0x8080_8080_8080_8080 == 0 {
                return Prefix(word);
            }
        }
        self.prefix_by_bytes()
    }

    /// Pads a shorter name with zeros: where that makes it equal to one that has U+0000 there, the rest decides.
    fn prefix_by_bytes(self) -> Prefix {
        let mut bytes = [0; Prefix::LEN];
        if self.escaped {
            let ranks = unescaped(self.text).map(rank);
            bytes.iter_mut().zip(ranks).for_each(|(to, rank)| *to = rank);
        } else {
            let ranks = self.text.iter().map(|byte| rank(*byte));
            bytes.iter_mut().zip(ranks).for_each(|(to, rank)| *to = rank);
        }
        Prefix(u64::from_be_bytes(bytes))
    }

    /// Compares two names of one prefix.
    pub(super) fn compare_rest(self, other: Name<'_>) -> Ordering {
        if self.escaped || other.escaped {
            return unescaped(self.text).map(rank).cmp(unescaped(other.text).map(rank));
        }
        let one = self.text.get(Prefix::LEN..).unwrap_or_default();
        let other = other.text.get(Prefix::LEN..).unwrap_or_default();
        if one.is_ascii() || other.is_ascii() {
            return one.cmp(other);
        }
        one.iter().map(|byte| rank(*byte)).cmp(other.iter().map(|byte| rank(*byte)))
    }
}

/// Ranks a byte of UTF-8 as its character ranks in UTF-16: those from U+10000 on, which become surrogates, come before
/// U+E000 to U+FFFF. All other bytes rank as they are; those above 0xF4 do not occur.
const fn rank(byte: u8) -> u8 {
    match byte {
        0xee | 0xef => byte + 0x10,
        _ => byte,
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
                let (left, right) = (name(&left), name(&right));
                let rest = || left.compare_rest(right);
                let have = left.prefix().cmp(&right.prefix()).then_with(rest);
                assert_eq!(have, want, "{one:?} against {other:?}");
            }
        }
    }
}
