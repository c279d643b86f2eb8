//! Instants as text, and texts that tell an instant.

use std::time::Duration;

use semel::Timestamp;

const DAY_SECS: u64 = 86_400;

/// Writes an instant by RFC 3339, in UTC, to the millisecond.
pub(crate) fn text(at: Timestamp) -> String {
    let millis = at.as_micros() / 1_000;
    let (secs, millis) = (millis / 1_000, millis % 1_000);
    let (year, month, day) = civil(secs / DAY_SECS);
    let (hour, minute, second) = (secs / 3_600 % 24, secs / 60 % 60, secs % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Reads the instant that a UUID of version 7 begins with.
pub(crate) fn of_uuid7(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let shaped = bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    if !shaped || bytes[14] != b'7' || !matches!(bytes[19], b'8' | b'9' | b'a' | b'b' | b'A' | b'B')
    {
        return None;
    }
    let millis = u64::from_str_radix(&format!("{}{}", &text[..8], &text[9..13]), 16).ok()?;
    Some(Timestamp::default().after(Duration::from_millis(millis)))
}

/// Reads an HTTP date in its one form that is still sent: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(crate) fn of_http_date(text: &str) -> Option<Timestamp> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut words = text.split_once(", ")?.1.split(' ');
    let number = |word: Option<&str>| word?.parse::<u64>().ok();
    let day = number(words.next()).filter(|day| (1..=31).contains(day))?;
    let month = words.next().filter(|word| word.len() == 3)?;
    let month = u64::try_from(MONTHS.find(month)?).ok().filter(|at| at % 3 == 0)? / 3 + 1;
    let year = number(words.next()).filter(|year| (1970..10_000).contains(year))?;
    let mut clock = words.next()?.split(':');
    let hour = number(clock.next()).filter(|hour| *hour < 24)?;
    let minute = number(clock.next()).filter(|minute| *minute < 60)?;
    let second = number(clock.next()).filter(|second| *second < 61)?;
    if words.next() != Some("GMT") || words.next().is_some() || clock.next().is_some() {
        return None;
    }
    let secs = days(year, month, day)? * DAY_SECS + hour * 3_600 + minute * 60 + second;
    Some(Timestamp::default().after(Duration::from_secs(secs)))
}

/// Returns the date of a day since 1970-01-01, counted in eras of 400 years that begin in March.
fn civil(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = year - u64::from(month <= 2);
    let (era, year) = (year / 400, year % 400);
    let month = if month > 2 { month - 3 } else { month + 9 };
    let day = (153 * month + 2) / 5 + day - 1 + year * 365 + year / 4 - year / 100;
    (era * 146_097 + day).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(secs: u64) -> Timestamp {
        Timestamp::from_micros(secs * 1_000_000)
    }

    #[test]
    fn instants_are_written_in_utc() {
        for (secs, wanted) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (784_111_777, "1994-11-06T08:49:37.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(text(micros(secs)), wanted);
        }
    }

    #[test]
    fn http_dates_are_read() {
        assert_eq!(of_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(micros(784_111_777)));
        assert_eq!(of_http_date("Tue, 29 Feb 2000 00:00:00 GMT"), Some(micros(951_782_400)));
        for bad in [
            "",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "x, 1 anF 1994 00:00:00 GMT",
            "Sun, 06 Nov 1969 00:00:00 GMT",
        ] {
            assert_eq!(of_http_date(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_uuid_of_version_7_tells_its_time() {
        let at = of_uuid7("017f22e2-79b0-7cc3-98c4-dc0c0c07398f").unwrap();
        assert_eq!(text(at), "2022-02-22T19:22:22.000Z");
        assert_eq!(of_uuid7("8e03978e-40d5-43e8-bc93-6894a57f9324"), None);
        assert_eq!(of_uuid7("017f22e2-79b0-7cc3-18c4-dc0c0c07398f"), None);
    }
}
