//! The canonical spelling of a number: the layout of ECMAScript's `Number::toString` around the exact decimal.

use super::super::{FingerprintError, Limits};

/// Up to this many digits a plainly spelled number is its own canonical form, within every limit.
pub(in crate::fingerprint) const PLAIN_DIGITS_MAX: u8 = 21;

/// A number as it was spelled.
pub(super) struct Number<'a> {
    pub(super) negative: bool,
    pub(super) whole: &'a [u8],
    pub(super) fraction: &'a [u8],
    /// The exponent with its sign; nothing if there is none.
    pub(super) exponent: &'a [u8],
}

impl Number<'_> {
    /// Says whether the spelling is the canonical one.
    #[inline]
    pub(super) fn is_canonical(&self) -> bool {
        if !self.exponent.is_empty()
            || self.whole.len() + self.fraction.len() > usize::from(PLAIN_DIGITS_MAX)
        {
            return false;
        }
        match (self.whole, self.fraction) {
            (b"0", []) => !self.negative,
            (_, []) => true,
            (b"0", [b'0', b'0', b'0', b'0', b'0', b'0', ..]) => false,
            (_, [.., last]) => *last != b'0',
        }
    }

    /// Appends the canonical spelling. `at` is where the number stands.
    pub(super) fn write(
        &self,
        at: usize,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Result<(), FingerprintError> {
        let digits = || self.whole.iter().chain(self.fraction);
        let leading = digits().take_while(|digit| **digit == b'0').count();
        let all = self.whole.len() + self.fraction.len();
        if leading == all {
            out.push(b'0');
            return Ok(());
        }
        let trailing = digits().rev().take_while(|digit| **digit == b'0').count();
        let count = all - leading - trailing;
        if count > limits.number_digits as usize {
            return Err(FingerprintError::NumberTooLong { at, limit: limits.number_digits });
        }
        let point = signed(self.whole.len()) - signed(leading) + exponent(self.exponent);
        let limit = limits.exponent_digits;
        if (point - 1).unsigned_abs() >= 10_u64.pow(u32::from(limit)) {
            return Err(FingerprintError::NumberExponent { at, limit });
        }
        if self.negative {
            out.push(b'-');
        }
        let significant: Vec<u8> = digits().skip(leading).take(count).copied().collect();
        lay_out(&significant, point, out);
        Ok(())
    }
}

/// Appends the number 0.`digits` × 10^`point`.
fn lay_out(digits: &[u8], point: i64, out: &mut Vec<u8>) {
    let zeros = |out: &mut Vec<u8>, count: i64| (0..count).for_each(|_| out.push(b'0'));
    let count = signed(digits.len());
    match point {
        1..=21 if count <= point => {
            out.extend_from_slice(digits);
            zeros(out, point - count);
        }
        1..=21 => {
            let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(1));
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
        -5..=0 => {
            out.extend_from_slice(b"0.");
            zeros(out, -point);
            out.extend_from_slice(digits);
        }
        _ => {
            out.push(digits[0]);
            if let Some(fraction @ [_, ..]) = digits.get(1..) {
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
            out.extend_from_slice(format!("e{:+}", point - 1).as_bytes());
        }
    }
}

/// Reads an exponent; one that no limit admits is as good as any other such.
fn exponent(text: &[u8]) -> i64 {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    let value = digits
        .iter()
        .fold(0_i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX));
    if negative { -value } else { value }
}

const EXPONENT_MAX: i64 = 400_000_000_000_000_000;

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
