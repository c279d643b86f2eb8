//! What a body may cost.

use super::json::PLAIN_DIGITS_MAX;

/// Bounds what one body may cost. A bound outside its range is moved to the nearer end of it.
///
/// | bound | default | range | counts |
/// |---|---|---|---|
/// | depth | 128 | 0 to 1,024 | open arrays and objects |
/// | members | 1,000,000 | 0 to 16,777,216 | members of all objects, elements of arrays that a pointer leads into, pairs of a form, parts of a multipart body |
/// | number digits | 1,000 | 21 to 65,535 | significant digits: without zeros at either end |
/// | exponent digits | 9 | 2 to 17 | digits of the exponent in scientific form |
///
/// Both number bounds look at the value, not its spelling, so that two spellings of one number are taken or refused
/// alike. Nothing is ever expanded: `1e999999999` stays that text. A JSON text has at most 256 MiB.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    pub(super) depth: u16,
    pub(super) members: u32,
    pub(super) number_digits: u32,
    pub(super) exponent_digits: u8,
}

impl Limits {
    /// The longest JSON text that is looked at, in bytes.
    pub const JSON_BYTES_MAX: usize = 256 << 20;

    const DEPTH_MAX: u16 = 1_024;
    const MEMBERS_MAX: u32 = 1 << 24;
    const NUMBER_DIGITS_MIN: u32 = PLAIN_DIGITS_MAX as u32;
    const NUMBER_DIGITS_MAX: u32 = 65_535;
    const EXPONENT_DIGITS_MIN: u8 = 2;
    const EXPONENT_DIGITS_MAX: u8 = 17;

    /// Makes the default limits.
    #[must_use]
    pub const fn new() -> Self {
        Self { depth: 128, members: 1_000_000, number_digits: 1_000, exponent_digits: 9 }
    }

    /// Sets how many arrays and objects may be open at once.
    #[must_use]
    pub fn depth(mut self, levels: u16) -> Self {
        self.depth = levels.min(Self::DEPTH_MAX);
        self
    }

    /// Sets how many members, pairs or parts a body may have.
    #[must_use]
    pub fn members(mut self, count: u32) -> Self {
        self.members = count.min(Self::MEMBERS_MAX);
        self
    }

    /// Sets how many significant digits a number may have.
    #[must_use]
    pub fn number_digits(mut self, digits: u32) -> Self {
        self.number_digits = digits.clamp(Self::NUMBER_DIGITS_MIN, Self::NUMBER_DIGITS_MAX);
        self
    }

    /// Sets how many digits the exponent of a number may have in scientific form.
    #[must_use]
    pub fn exponent_digits(mut self, digits: u8) -> Self {
        self.exponent_digits = digits.clamp(Self::EXPONENT_DIGITS_MIN, Self::EXPONENT_DIGITS_MAX);
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new()
    }
}
