//! The key a request carries, and the headers that never pass in or out.
//!
//! How a key is written:
//!
//! | value | lenient | strict |
//! |---|---|---|
//! | `"abc"` | `abc` | `abc` |
//! | `abc` | `abc` | refused |
//! | `"a\"b"` | `a"b` | `a"b` |
//! | `"abc";p=1` | refused: no parameter is defined, and two values must not name one key by accident | refused |
//! | `"a", "b"`, or two lines that name two keys | refused | refused |
//! | two lines that name one key | that key | that key |
//! | `""`, 256 characters, a blank, a control character, anything beyond ASCII | refused | refused |

use http::{HeaderMap, HeaderName, HeaderValue};
use semel::{Key, NameError, wire};
use sfv::{BareItem, Item, Parser};

use crate::{
    operation::{KeyForm, KeyRule, Operation},
    problem::{Code, Problem},
    quality,
};

/// The headers that are looked up for every request, parsed once.
pub(crate) static EFFECT: HeaderName = HeaderName::from_static(wire::SEMEL_EFFECT);
pub(crate) static FIRST_SENT: HeaderName = HeaderName::from_static(wire::REPEATABILITY_FIRST_SENT);
pub(crate) static POINTER: HeaderName = HeaderName::from_static(wire::SEMEL_POINTER);
pub(crate) static PREFER: HeaderName = HeaderName::from_static(wire::PREFER);
pub(crate) static REPLAYED: HeaderName = HeaderName::from_static(wire::IDEMPOTENT_REPLAYED);
pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static(wire::REQUEST_ID);

/// Reads the key of a request, by the rules of its operation.
pub(crate) fn key(operation: &Operation, headers: &HeaderMap) -> Result<Option<Key>, Problem> {
    let mut lines = headers.get_all(&operation.header).iter();
    let Some(first) = lines.next() else {
        return match operation.key {
            KeyRule::Optional => Ok(None),
            KeyRule::Required => Err(missing(operation)),
        };
    };
    let refused = |refused: Refused| refused.problem(&operation.header);
    let key = line(first, operation.key_form).map_err(refused)?;
    for other in lines {
        if line(other, operation.key_form).map_err(refused)? != key {
            return Err(Refused::Several.problem(&operation.header));
        }
    }
    if operation.quality
        && let Some(why) = quality::weakness(key.as_str())
    {
        return Err(Refused::Weak(why).problem(&operation.header));
    }
    Ok(Some(key))
}

/// Removes Semel's own headers: a client can neither speak for a handler nor hold a permit.
pub(crate) fn strip(headers: &mut HeaderMap) {
    let own = |name: &&HeaderName| name.as_str().starts_with(wire::SEMEL_PREFIX);
    // Most messages carry none, and then nothing is copied.
    while let Some(name) = headers.keys().find(own).cloned() {
        headers.remove(name);
    }
}

fn missing(operation: &Operation) -> Problem {
    let shape = match operation.key_form {
        KeyForm::Lenient => "its value",
        KeyForm::Strict => "its value, a string in double quotes,",
    };
    Problem::new(Code::KeyMissing)
        .detail(format!(
            "send the header {}: {shape} has 1 to {} visible ASCII characters and names what you \
             want to happen once; use a new one (such as a random UUID) for every new intent, and \
             the same one for every retry of it",
            operation.header,
            Key::MAX
        ))
        .member("header", operation.header.as_str())
}

#[derive(Debug, Eq, PartialEq)]
enum Refused {
    Malformed(&'static str),
    Name(NameError),
    Several,
    Weak(&'static str),
}

impl Refused {
    fn problem(self, header: &HeaderName) -> Problem {
        let (code, detail) = match self {
            Self::Malformed(why) => (Code::KeyMalformed, why.into()),
            Self::Name(error) => {
                let code = match error {
                    NameError::Empty { .. } => Code::KeyEmpty,
                    NameError::TooLong { .. } => Code::KeyTooLong,
                    _ => Code::KeyCharacter,
                };
                (code, error.to_string())
            }
            Self::Several => (Code::KeySeveral, "the header stands twice with two keys".into()),
            Self::Weak(why) => (Code::KeyWeak, format!("the key looks like {why}")),
        };
        Problem::new(code).detail(detail).member("header", header.as_str())
    }
}

fn line(value: &HeaderValue, form: KeyForm) -> Result<Key, Refused> {
    let bytes = value.as_bytes().trim_ascii();
    if bytes.starts_with(b"\"") || form == KeyForm::Strict {
        return quoted(bytes);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| character(error.valid_up_to()))?;
    Key::new(text).map_err(Refused::Name)
}

fn quoted(bytes: &[u8]) -> Result<Key, Refused> {
    if bytes.is_empty() {
        return Err(Refused::Name(NameError::Empty { what: "key" }));
    }
    let item: Item = Parser::new(bytes)
        .parse()
        .map_err(|_| Refused::Malformed("the key is not one string in double quotes (RFC 9651)"))?;
    if !item.params.is_empty() {
        return Err(Refused::Malformed("a key has no parameters"));
    }
    match &item.bare_item {
        BareItem::String(text) => Key::new(text.as_str()).map_err(Refused::Name),
        _ => Err(Refused::Malformed("the key is not a string in double quotes (RFC 9651)")),
    }
}

const fn character(at: usize) -> Refused {
    Refused::Name(NameError::Character { what: "key", at })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(form: KeyForm, lines: &[&[u8]], wanted: Result<&str, Code>) {
        let operation = Operation::new("o").unwrap().key_form(form);
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(&operation.header, HeaderValue::from_bytes(line).unwrap());
        }
        let key = key(&operation, &headers).map_err(|problem| problem.code());
        let key = key.map(|key| key.unwrap().as_str().to_owned());
        assert_eq!(key.as_deref().map_err(|code| *code), wanted, "{form:?} {lines:?}");
    }

    #[test]
    fn quoted_and_bare_values_name_the_same_key() {
        use KeyForm::{Lenient, Strict};
        for form in [Lenient, Strict] {
            check(form, &[b"\"abc\""], Ok("abc"));
            check(form, &[b"  \"abc\" "], Ok("abc"));
            check(form, &[br#""a\"b\\c""#], Ok(r#"a"b\c"#));
            check(form, &[b"\"abc\"", b"\"abc\""], Ok("abc"));
            check(form, &[b"\"abc\";p=1"], Err(Code::KeyMalformed));
            check(form, &[b"\"a\", \"b\""], Err(Code::KeyMalformed));
            check(form, &[b"\"a"], Err(Code::KeyMalformed));
            check(form, &[br#""a\b""#], Err(Code::KeyMalformed));
            check(form, &[b"\"\""], Err(Code::KeyEmpty));
            check(form, &[b""], Err(Code::KeyEmpty));
            check(form, &[b"\"a\"", b"\"b\""], Err(Code::KeySeveral));
            check(form, &[b"\"two words\""], Err(Code::KeyCharacter));
        }
        check(Lenient, &[b"abc"], Ok("abc"));
        check(Lenient, &[b"abc", b"\"abc\""], Ok("abc"));
        check(
            Lenient,
            &[b"8e03978e-40d5-43e8-bc93-6894a57f9324"],
            Ok("8e03978e-40d5-43e8-bc93-6894a57f9324"),
        );
        check(Lenient, &[b"two words"], Err(Code::KeyCharacter));
        check(Lenient, &["ké".as_bytes()], Err(Code::KeyCharacter));
        check(Lenient, &[b"k\xff"], Err(Code::KeyCharacter));
        check(Lenient, &["k".repeat(255).as_bytes()], Ok(&"k".repeat(255)));
        check(Lenient, &["k".repeat(256).as_bytes()], Err(Code::KeyTooLong));
        check(Strict, &[b"abc"], Err(Code::KeyMalformed));
        check(Strict, &[b"8e03978e-40d5-43e8-bc93-6894a57f9324"], Err(Code::KeyMalformed));
    }

    #[test]
    fn a_missing_key_is_refused_only_where_it_is_required() {
        let operation = Operation::new("o").unwrap();
        let refused = key(&operation, &HeaderMap::new()).map_err(|problem| problem.code());
        assert_eq!(refused, Err(Code::KeyMissing));
        assert_eq!(key(&operation.key(KeyRule::Optional), &HeaderMap::new()).unwrap(), None);
    }

    #[test]
    fn semels_own_headers_are_stripped() {
        let mut headers = HeaderMap::new();
        for name in [wire::SEMEL_EFFECT, wire::SEMEL_PERMIT, wire::SEMEL_PERMIT, "semel-new", "x"] {
            headers.append(name, HeaderValue::from_static("1"));
        }
        strip(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x"]);
    }
}
