//! How instants, spans, bytes and stored texts are shown to people.

use std::time::Duration;

use semel::Timestamp;

use crate::config::written;

pub(in crate::cli) fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(in crate::cli) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    // The library would read a sign too.
    if text.len() != 2 * N || !text.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// Writes an instant of the store's time as RFC 3339 in UTC.
pub(in crate::cli) fn instant(at: Timestamp) -> String {
    let micros = at.as_micros();
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000 / 1_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}Z")
}

/// Turns days since 1970-01-01 into a date of the Gregorian calendar, by eras of 400 years that
/// begin in March, so that the leap day is the last of its year.
const fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// Keeps what was stored from steering the terminal.
pub(in crate::cli) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

pub(in crate::cli) fn ago(at: Timestamp, now: Timestamp) -> String {
    format!("{} ({} ago)", instant(at), short(now, at))
}

pub(in crate::cli) fn when(at: Timestamp, now: Timestamp) -> String {
    if at >= now { format!("{} (in {})", instant(at), short(at, now)) } else { ago(at, now) }
}

/// How long it is from `earlier` to `later`, in its two largest units.
pub(in crate::cli) fn short(later: Timestamp, earlier: Timestamp) -> String {
    let span = later.since(earlier);
    let coarse = match span.as_secs() {
        0 => span,
        1..60 => Duration::from_secs(span.as_secs()),
        60..86_400 => Duration::from_secs(span.as_secs() / 60 * 60),
        seconds => Duration::from_secs(seconds / 3_600 * 3_600),
    };
    written(coarse)
}

/// A moment as an operator writes it: how long ago, or an instant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::cli) enum Moment {
    /// So long before now.
    Ago(Duration),
    /// Then.
    At(Timestamp),
}

impl Moment {
    /// Returns the instant, by the store's time.
    pub(in crate::cli) fn instant(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(span) => {
                let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
                Timestamp::from_micros(now.as_micros().saturating_sub(micros))
            }
        }
    }
}

/// Reads a moment: `2h`, or an instant by RFC 3339 in UTC such as `2026-01-31T12:00:00Z`.
pub(in crate::cli) fn moment(text: &str) -> Result<Moment, String> {
    let read = crate::config::span(text).map(Moment::Ago).or_else(|| at(text).map(Moment::At));
    read.ok_or_else(|| {
        "write how long ago, such as 2h, or an instant in UTC, such as 2026-01-31T12:00:00Z".into()
    })
}

fn at(text: &str) -> Option<Timestamp> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let [hour, minute, second] = numbers(time, ':')?;
    let micros = fraction.len() <= 6 && fraction.bytes().all(|digit| digit.is_ascii_digit());
    let micros: u64 = format!("{fraction:0<6}").parse().ok().filter(|_| micros)?;
    let whole = (1970..10_000).contains(&year) && (1..=12).contains(&month) && day >= 1;
    if !whole || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = days(year, month, day);
    // A day that its month does not have would be another one.
    (civil(days) == (year, month, day)).then(|| {
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
        Timestamp::from_micros(seconds * 1_000_000 + micros)
    })
}

fn numbers(text: &str, between: char) -> Option<[u64; 3]> {
    let mut parts = text.splitn(3, between).map(|part| {
        let digits = !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
        part.parse().ok().filter(|_| digits && part.len() <= 4)
    });
    Some([parts.next()??, parts.next()??, parts.next()??])
}

/// Undoes [`civil`] for years from 1970 on.
const fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_dates() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999_999, "2024-02-29T23:59:59.999Z"),
            (4_102_444_800_000_000, "2100-01-01T00:00:00.000Z"),
        ];
        for (micros, shown) in cases {
            assert_eq!(instant(Timestamp::from_micros(micros)), shown);
        }
    }

    #[test]
    fn a_moment_is_how_long_ago_or_an_instant() {
        let now = Timestamp::from_micros(10_000_000_000);
        let read = |text: &str| moment(text).map(|moment| moment.instant(now).as_micros());
        assert_eq!(read("2h"), Ok(2_800_000_000));
        assert_eq!(read("1970-01-01T00:00:01.5Z"), Ok(1_500_000));
        for micros in [951_782_400_000_000, 1_709_251_199_999_000, 4_102_444_800_000_000] {
            assert_eq!(read(&instant(Timestamp::from_micros(micros))), Ok(micros));
        }
        for bad in ["", "x", "2023-02-29T00:00:00Z", "2026-01-01", "2026-01-01T24:00:00Z"] {
            assert!(moment(bad).is_err(), "{bad}");
        }
    }
}
