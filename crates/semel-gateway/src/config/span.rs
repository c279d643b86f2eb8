//! Durations, sizes and horizons as people write them: `"30s"`, `"1h30m"`, `"1 MiB"`.

use std::{fmt, time::Duration};

use toml::{Spanned, de::DeValue};

use super::read::{Reading, text};
use super::schema::{Kind, Value};

/// The longest duration that can be written.
const SPAN_MAX: Duration = Duration::from_secs(100 * 366 * 86_400);

/// The largest size that can be written: 1 TiB.
const SIZE_MAX: u64 = 1 << 40;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Size(u64);

impl Size {
    /// Makes a size of its bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, at most what the machine can address.
    #[must_use]
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.into_iter().find(|(size, _)| self.0 >= *size && self.0.is_multiple_of(*size)) {
            Some((size, unit)) => write!(f, "{} {unit}", self.0 / size),
            None => write!(f, "{} B", self.0),
        }
    }
}

/// How long something outside may still deliver an intent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Horizon(pub Duration);

/// Reads a duration: numbers with units, longest first, such as `1h30m`.
pub(crate) fn span(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest == "0" {
        return Some(total);
    }
    let mut smaller_than = Duration::MAX;
    while !rest.is_empty() {
        let (number, after) = number(rest)?;
        let word_len = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let unit = unit(&after[..word_len])?;
        if unit >= smaller_than {
            return None;
        }
        smaller_than = unit;
        total = total.checked_add(unit.checked_mul(u32::try_from(number).ok()?)?)?;
        rest = after[word_len..].trim_start();
    }
    (!text.trim().is_empty() && total <= SPAN_MAX).then_some(total)
}

/// Writes a duration as it is read: `90 s` as `1m30s`.
#[must_use]
pub fn written(span: Duration) -> String {
    let mut left = span.as_millis();
    let mut text = String::new();
    for (ms, unit) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")]
    {
        if left >= ms {
            text.push_str(&format!("{}{unit}", left / ms));
            left %= ms;
        }
    }
    if text.is_empty() { "0".into() } else { text }
}

fn unit(word: &str) -> Option<Duration> {
    Some(match word {
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "m" | "min" => Duration::from_secs(60),
        "h" => Duration::from_secs(3_600),
        "d" => Duration::from_secs(86_400),
        "w" => Duration::from_secs(7 * 86_400),
        _ => return None,
    })
}

/// Reads a size: a number and a unit, such as `1 MiB` or `64 kB`.
pub(super) fn size(text: &str) -> Option<Size> {
    let (number, unit) = number(text.trim())?;
    let unit: u64 = match unit {
        "B" => 1,
        "kB" | "KB" => 1_000,
        "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "GiB" => 1 << 30,
        _ => return None,
    };
    let bytes = number.checked_mul(unit)?;
    (bytes <= SIZE_MAX).then_some(Size(bytes))
}

fn number(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..digits].parse().ok()?, text[digits..].trim_start()))
}

const SPAN: &str = "a duration with its unit, such as \"10s\", \"5m\", \"24h\" or \"30d\"";

impl Value for Duration {
    fn kind() -> Kind {
        Kind::Plain("duration")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        text(value, path, reading, SPAN, span)
    }
}

impl Value for Size {
    fn kind() -> Kind {
        Kind::Plain("size")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let must_be = "a size with its unit, such as \"64 KiB\" or \"1 MiB\"";
        text(value, path, reading, must_be, size)
    }
}

impl Value for Horizon {
    fn kind() -> Kind {
        Kind::Plain("duration, or the name of a sender")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let must_be = "a duration such as \"7d\", or the name of a sender whose horizon is known: \
                       \"github\", \"paypal\", \"pubsub\", \"sqs\" or \"stripe\"";
        text(value, path, reading, must_be, |text| {
            span(text).or_else(|| semel::horizon::named(text)).map(Horizon)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        let cases = [
            ("10s", Some(10_000)),
            ("250 ms", Some(250)),
            ("1h30m", Some(5_400_000)),
            ("2w", Some(1_209_600_000)),
            ("0", Some(0)),
            ("10", None),
            ("", None),
            ("-1s", None),
            ("1s1h", None),
            ("1s 1s", None),
            ("9999999999999d", None),
            ("4000000000d", None),
        ];
        for (text, ms) in cases {
            assert_eq!(span(text), ms.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn a_written_duration_reads_back() {
        for text in ["1m30s", "30d", "1d2h3m4s5ms", "0"] {
            assert_eq!(span(text).map(written).as_deref(), Some(text));
        }
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        let cases = [
            ("1 MiB", Some(1 << 20)),
            ("64KiB", Some(64 << 10)),
            ("10 MB", Some(10_000_000)),
            ("5 B", Some(5)),
            ("5", None),
            ("1 PiB", None),
            ("99999999 GiB", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(size(text), bytes.map(Size), "{text}");
        }
        assert_eq!(Size(3 << 20).to_string(), "3 MiB");
        assert_eq!(Size(1001).to_string(), "1001 B");
    }
}
