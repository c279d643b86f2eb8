//! What makes a key weak: it is easily used for a second intent, or it tells a secret.

use std::borrow::Cow;

const CONSTANTS: &[&str] = &[
    "abc",
    "abc123",
    "changeme",
    "default",
    "dummy",
    "empty",
    "example",
    "false",
    "foo",
    "foobar",
    "guid",
    "id",
    "idempotency",
    "idempotencykey",
    "key",
    "nan",
    "nil",
    "none",
    "null",
    "objectobject",
    "placeholder",
    "requestid",
    "sample",
    "secret",
    "string",
    "test",
    "testing",
    "testkey",
    "todo",
    "true",
    "undefined",
    "unknown",
    "uuid",
    "xxx",
];

/// Says what a key looks like that should be none, or nothing.
pub(crate) fn weakness(key: &str) -> Option<&'static str> {
    let bare: Cow<'_, str> = match key.contains(['-', '_', '.', ' ', ':', '/', '[', ']']) {
        true => key.chars().filter(char::is_ascii_alphanumeric).collect::<String>().into(),
        false => key.into(),
    };
    let digits = !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit());
    [
        (is_constant(key, &bare), "a constant"),
        (digits && is_card(&bare), "a card number"),
        (is_timestamp(key, &bare, digits), "a timestamp"),
        (digits && bare.len() < 20, "a counter"),
        (is_email(key), "an e-mail address"),
        (is_iban(&bare), "an IBAN"),
        (bare.len() < 4, "a counter"),
    ]
    .into_iter()
    .find_map(|(weak, what)| weak.then_some(what))
}

fn is_constant(key: &str, bare: &str) -> bool {
    let mut chars = bare.chars();
    let first = chars.next();
    let same = chars.all(|char| Some(char) == first);
    // A template that nobody filled in: `{{uuid}}`, `${KEY}`, `<key>`, `%s`.
    let unfilled = (key.contains(['{', '<']) && key.ends_with(['}', '>'])) || key == "%s";
    let lower = bare.to_ascii_lowercase();
    same || unfilled || CONSTANTS.contains(&lower.as_str())
}

/// Seconds, milliseconds, microseconds or nanoseconds since 2001, or a date with or without a time.
fn is_timestamp(key: &str, bare: &str, digits: bool) -> bool {
    if digits && [10, 13, 16, 19].contains(&bare.len()) {
        return bare.starts_with(['1', '2', '3', '4']);
    }
    let date = key.get(..10).map(str::as_bytes).is_some_and(|text| {
        text.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
    });
    let rest = key.get(10..).unwrap_or_default();
    let clock =
        |char: char| char.is_ascii_digit() || matches!(char, 'T' | 'Z' | ':' | '.' | '+' | '-');
    date && rest.chars().all(clock) && (rest.is_empty() || rest.starts_with('T'))
}

fn is_email(key: &str) -> bool {
    key.split_once('@').is_some_and(|(user, host)| {
        let labels = host.split('.').count() > 1 && host.split('.').all(|label| !label.is_empty());
        !user.is_empty() && labels && !host.contains('@')
    })
}

/// 13 to 19 digits with a right check digit (Luhn).
fn is_card(digits: &str) -> bool {
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(at, digit)| {
            let digit = u32::from(digit - b'0');
            let doubled = if at % 2 == 1 { digit * 2 } else { digit };
            if doubled > 9 { doubled - 9 } else { doubled }
        })
        .sum();
    (13..=19).contains(&digits.len()) && sum.is_multiple_of(10) && !digits.starts_with('0')
}

/// Two letters, two check digits, 11 to 30 letters and digits, the remainder by 97 is 1 (ISO 13616).
fn is_iban(bare: &str) -> bool {
    let bytes = bare.as_bytes();
    if !(15..=34).contains(&bytes.len())
        || !bytes[..2].iter().all(u8::is_ascii_alphabetic)
        || !bytes[2..4].iter().all(u8::is_ascii_digit)
    {
        return false;
    }
    let rest = bytes[4..].iter().chain(&bytes[..4]).fold(0, |rest, byte| {
        match char::from(*byte).to_digit(36).unwrap_or_default() {
            digit @ 0..=9 => (rest * 10 + digit) % 97,
            letter => (rest * 100 + letter) % 97,
        }
    });
    rest == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_keys_are_named() {
        let cases = [
            ("test", "a constant"),
            ("Idempotency-Key", "a constant"),
            ("aaaaaaaaaaaa", "a constant"),
            ("00000000-0000-0000-0000-000000000000", "a constant"),
            ("{{$guid}}", "a constant"),
            ("${KEY}", "a constant"),
            ("1", "a constant"),
            ("12", "a counter"),
            ("ab", "a counter"),
            ("000000123", "a counter"),
            ("2024-05-06", "a timestamp"),
            ("2024-05-06T07:08:09.123Z", "a timestamp"),
            ("1732891234", "a timestamp"),
            ("1732891234567", "a timestamp"),
            ("jo@example.org", "an e-mail address"),
            ("4111111111111111", "a card number"),
            ("4111-1111-1111-1111", "a card number"),
            ("DE89370400440532013000", "an IBAN"),
            ("GB82-WEST-1234-5698-7654-32", "an IBAN"),
        ];
        for (key, what) in cases {
            assert_eq!(weakness(key), Some(what), "{key}");
        }
    }

    #[test]
    fn keys_that_name_one_intent_pass() {
        for key in [
            "8e03978e-40d5-43e8-bc93-6894a57f9324",
            "01890a5d-ac96-774b-bcce-b302099a8057",
            "order-7-attempt",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "2024-05-06-order-7",
            "82739472930482734982739",
            "user@host",
            "DE89370400440532013001",
        ] {
            assert_eq!(weakness(key), None, "{key}");
        }
    }
}
