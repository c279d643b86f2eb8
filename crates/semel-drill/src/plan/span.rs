//! Durations as people write them: `"500ms"`, `"60s"`, `"1h30m"`.

use std::time::Duration;

/// The longest duration that can be written.
const SPAN_MAX: Duration = Duration::from_secs(366 * 86_400);

/// The units, longest first.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a duration: numbers with units, the longest first.
pub(crate) fn span(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let (mut total_ms, mut shorter_than_ms) = (0_u64, u64::MAX);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits_len = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits_len].parse().ok()?;
        let after = rest[digits_len..].trim_start();
        let word_len = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (_, unit_ms) = UNITS.iter().find(|(word, _)| *word == &after[..word_len])?;
        if *unit_ms >= shorter_than_ms {
            return None;
        }
        shorter_than_ms = *unit_ms;
        total_ms = total_ms.checked_add(number.checked_mul(*unit_ms)?)?;
        rest = after[word_len..].trim_start();
    }
    let total = Duration::from_millis(total_ms);
    (total <= SPAN_MAX).then_some(total)
}

/// Writes a duration as it is read: 90 s as `1m30s`.
#[must_use]
pub fn written(span: Duration) -> String {
    let mut left_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (word, unit_ms) in UNITS {
        if left_ms >= unit_ms {
            text.push_str(&format!("{}{word}", left_ms / unit_ms));
            left_ms %= unit_ms;
        }
    }
    if text.is_empty() { "0ms".to_owned() } else { text }
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
            ("0s", Some(0)),
            ("366d", Some(31_622_400_000)),
            ("367d", None),
            ("10", None),
            ("", None),
            ("-1s", None),
            ("1s1h", None),
            ("1s 1s", None),
            ("1é", None),
            ("99999999999999999999d", None),
            ("999999999999999999d", None),
        ];
        for (text, ms) in cases {
            assert_eq!(span(text), ms.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn a_written_duration_reads_back() {
        for text in ["1m30s", "30d", "1d2h3m4s5ms", "0ms"] {
            assert_eq!(span(text).map(written).as_deref(), Some(text));
        }
    }
}
