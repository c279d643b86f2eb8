//! Any text as a duration and as a size of the configuration: read exactly as their grammar says, by a reader of its
//! own, and written so that it reads back.

use std::{path::Path, time::Duration};

use semel_gateway::config::{Config, Files, Size, written};

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let span = |text: &str| read("shutdown_wait", text).map(|config| config.shutdown_wait);
    let found = span(text);
    assert_eq!(found, expected_span(text), "{text:?}");
    if let Some(found) = found {
        assert_eq!(span(&written(found)), Some(found), "{text:?} is written {}", written(found));
    }
    let size = |text: &str| read("in_flight", text).map(|config| config.in_flight);
    let found = size(text);
    assert_eq!(found, expected_size(text).map(Size::new), "{text:?}");
    if let Some(found) = found {
        assert_eq!(size(&found.to_string()), Some(found), "{text:?} is written {found}");
    }
}

/// Reads a configuration in which one setting is the text.
fn read(setting: &str, text: &str) -> Option<Config> {
    let escaped: String = text.chars().map(|c| format!("\\U{:08x}", u32::from(c))).collect();
    let text = format!(
        "{setting} = \"{escaped}\"\nreplay_auth = \"none\"\ntenant.source = \"single_tenant\"\n\
         [[upstream]]\nname = \"a\"\nurl = \"http://a\"\n"
    );
    Config::parse(&text, Path::new(""), Path::new(""), Files::Ignored).ok()
}

/// Numbers with units, each unit smaller than the one before, blanks around numbers; or a bare 0.
fn expected_span(text: &str) -> Option<Duration> {
    const UNITS: [(&str, u64); 7] = [
        ("w", 604_800_000),
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("min", 60_000),
        ("m", 60_000),
        ("s", 1_000),
        ("ms", 1),
    ];
    let text = text.trim();
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut total: u64 = 0;
    let mut smallest = u64::MAX;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.chars().take_while(char::is_ascii_digit).count();
        let number: u32 = rest[..digits].parse().ok()?;
        let after = rest[digits..].trim_start();
        let letters = after.chars().take_while(char::is_ascii_alphabetic).count();
        let (_, unit) = UNITS.iter().find(|(word, _)| *word == &after[..letters])?;
        if *unit >= smallest {
            return None;
        }
        smallest = *unit;
        total = total.checked_add(u64::from(number).checked_mul(*unit)?)?;
        rest = after[letters..].trim_start();
    }
    let longest = 100 * 366 * 86_400_000;
    (!text.is_empty() && total <= longest).then(|| Duration::from_millis(total))
}

/// A number and a unit, blanks around both.
fn expected_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    let power = |of: u64, by: u32| of.checked_pow(by);
    let unit = match text[digits..].trim_start() {
        "B" => 1,
        "kB" | "KB" => power(1_000, 1)?,
        "MB" => power(1_000, 2)?,
        "GB" => power(1_000, 3)?,
        "KiB" => power(1_024, 1)?,
        "MiB" => power(1_024, 2)?,
        "GiB" => power(1_024, 3)?,
        _ => return None,
    };
    number.checked_mul(unit).filter(|bytes| *bytes <= power(1_024, 4).unwrap_or(0))
}
