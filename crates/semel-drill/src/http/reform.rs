//! The same JSON in other bytes: members turned round, white space, escapes. Scalars stay as they are
//! written, so that no number is taken through a double.

use serde::de::IgnoredAny;

/// A JSON text, taken apart as far as needed.
enum Piece<'t> {
    Array(Vec<Self>),
    Object(Vec<(&'t str, Self)>),
    Scalar(&'t str),
}

/// Writes a JSON text with its members in reverse order, and with white space between all tokens.
/// Nothing if it is no JSON, or if nothing about it can be turned round.
pub(super) fn turned_round(text: &str) -> Option<String> {
    let mut out = String::new();
    write(&read(text)?, &mut out, &|scalar| scalar.to_owned());
    (out != text).then_some(out)
}

/// Writes a JSON text with the first letter of every string value as an escape. Nothing if it is no
/// JSON, or holds no such string.
pub(super) fn escaped(text: &str) -> Option<String> {
    let mut out = String::new();
    write(&read(text)?, &mut out, &escape);
    out.contains("\\u00").then_some(out)
}

fn escape(scalar: &str) -> String {
    let mut chars = scalar.chars();
    match (chars.next(), chars.next()) {
        (Some('"'), Some(letter)) if letter.is_ascii_alphanumeric() => {
            format!("\"\\u{:04x}{}", u32::from(letter), chars.as_str())
        }
        _ => scalar.to_owned(),
    }
}

fn read(text: &str) -> Option<Piece<'_>> {
    // From here on it is known to be JSON: what follows only finds where its tokens end.
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let mut rest = text;
    piece(&mut rest)
}

fn piece<'t>(rest: &mut &'t str) -> Option<Piece<'t>> {
    match peek(rest)? {
        '{' => {
            let members = list(rest, '}', |rest| {
                let name = token(rest)?;
                bite(rest, ':')?;
                Some((name, piece(rest)?))
            })?;
            Some(Piece::Object(members))
        }
        '[' => Some(Piece::Array(list(rest, ']', piece)?)),
        _ => Some(Piece::Scalar(token(rest)?)),
    }
}

fn list<'t, T>(
    rest: &mut &'t str,
    end: char,
    mut item: impl FnMut(&mut &'t str) -> Option<T>,
) -> Option<Vec<T>> {
    *rest = &rest[1..];
    let mut items = Vec::new();
    while peek(rest)? != end {
        items.push(item(rest)?);
        if peek(rest)? == ',' {
            bite(rest, ',')?;
        }
    }
    bite(rest, end)?;
    Some(items)
}

fn peek(rest: &mut &str) -> Option<char> {
    *rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
    rest.chars().next()
}

fn bite(rest: &mut &str, expected: char) -> Option<()> {
    (peek(rest)? == expected).then(|| *rest = &rest[expected.len_utf8()..])
}

/// Takes a string with its quotes, or a number or a word.
fn token<'t>(rest: &mut &'t str) -> Option<&'t str> {
    let text = if peek(rest)? == '"' {
        let mut escaped = false;
        let end = rest[1..].find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })?;
        &rest[..end + 2]
    } else {
        let end = rest.find([',', ':', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(rest.len());
        &rest[..end]
    };
    *rest = &rest[text.len()..];
    Some(text)
}

fn write(piece: &Piece<'_>, out: &mut String, scalar: &impl Fn(&str) -> String) {
    match piece {
        Piece::Scalar(text) => out.push_str(&scalar(text)),
        Piece::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { " " } else { " , " });
                write(item, out, scalar);
            }
            out.push_str(" ]");
        }
        Piece::Object(members) => {
            out.push('{');
            for (at, (name, value)) in members.iter().rev().enumerate() {
                out.push_str(if at == 0 { "\n  " } else { ",\n  " });
                out.push_str(name);
                out.push_str(" : ");
                write(value, out, scalar);
            }
            out.push_str("\n}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const TEXT: &str =
        r#"{"a\"}":1.50e3,"b":["x",{"c":null,"d":"\\"}],"n":9007199254740993,"":"","e":[]}"#;

    #[test]
    fn what_was_turned_round_is_the_same_json() {
        let out = turned_round(TEXT).unwrap();
        let parsed = |text| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(parsed(&out), parsed(TEXT));
        assert!(out.find("9007199254740993") < out.find("1.50e3"), "{out}");
        assert!(out.contains("\"a\\\"}\" : 1.50e3"), "{out}");
    }

    #[test]
    fn what_was_escaped_is_the_same_json() {
        let out = escaped(r#"{"order":"7a","none":""}"#).unwrap();
        assert!(out.contains(r#""\u0037a""#), "{out}");
        assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["order"], "7a");
    }

    #[test]
    fn what_cannot_be_written_otherwise_is_told() {
        assert_eq!(turned_round("a=1&b=2"), None);
        assert_eq!(turned_round("{\"a\":1"), None);
        assert_eq!(turned_round("7"), None);
        assert_eq!(escaped("{\"a\":1}"), None);
    }
}
