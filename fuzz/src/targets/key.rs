//! Any bytes as one or two key headers: a key is taken exactly if the published table takes it, all spellings of one key
//! name one intent, and a refused key runs nothing.
//!
//! The first bit chooses the strict form; a line feed parts two header lines.

use http::{HeaderValue, StatusCode};
use semel::Key;
use semel_http::KeyForm;

use crate::behind::{Answered, Behind, Kept, drive};

static LENIENT: Kept = Kept::new(None);
static STRICT: Kept = Kept::new(None);

const KEY: &str = "idempotency-key";

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let strict = choice & 1 == 1;
    let rest = rest.strip_suffix(b"\n").unwrap_or(rest);
    let lines: Vec<&[u8]> = rest.splitn(2, |byte| *byte == b'\n').collect();
    if lines.iter().any(|line| HeaderValue::from_bytes(line).is_err()) {
        return;
    }
    let (kept, form) =
        if strict { (&STRICT, KeyForm::Strict) } else { (&LENIENT, KeyForm::Lenient) };
    let new = || Behind::new(|operation| operation.key_form(form));
    drive(kept, new, async |behind: &Behind| check(behind, strict, &lines).await);
}

async fn check(behind: &Behind, strict: bool, lines: &[&[u8]]) {
    let headers: Vec<_> = lines.iter().map(|line| (KEY, *line)).collect();
    let answered = behind.post(&headers, b"").await;
    let Some(key) = agreed(strict, lines) else {
        let refused = Answered { status: StatusCode::BAD_REQUEST, replayed: false, effects: 0 };
        assert_eq!(answered, refused, "{lines:?}");
        return;
    };
    let ran = Answered { status: StatusCode::CREATED, replayed: false, effects: 1 };
    assert_eq!(answered, ran, "{lines:?} is {key}");
    let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
    let again = behind.post(&[(KEY, quoted.as_bytes())], b"").await;
    assert_eq!(again, Answered { replayed: true, ..ran }, "{quoted}");
    assert_eq!(Key::new(&key).map(|key| key.to_string()), Ok(key));
}

fn agreed(strict: bool, lines: &[&[u8]]) -> Option<String> {
    let mut keys = lines.iter().map(|line| read(strict, line));
    let first = keys.next()??;
    keys.all(|key| key.as_ref() == Some(&first)).then_some(first)
}

/// Reads one line by the rules alone.
pub(crate) fn read(strict: bool, line: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(line.trim_ascii()).ok()?;
    let key = match text.strip_prefix('"') {
        Some(rest) => unquoted(rest)?,
        None if strict => return None,
        None => text.to_owned(),
    };
    let right = (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    right.then_some(key)
}

/// Reads a string of RFC 9651 behind its opening quote.
fn unquoted(rest: &str) -> Option<String> {
    let mut key = String::new();
    let mut characters = rest.chars();
    loop {
        match characters.next()? {
            '"' => return characters.next().is_none().then_some(key),
            '\\' => key.push(characters.next().filter(|escaped| matches!(escaped, '"' | '\\'))?),
            plain @ ' '..='~' => key.push(plain),
            _ => return None,
        }
    }
}
