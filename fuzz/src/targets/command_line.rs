//! Any words as the command line of `semel`: read or refused with a sentence, the same way each time; and a page begins
//! with exactly the words that say a name.
//!
//! Every line is a word. The first three are also tried as the name that a page begins with.

use std::ffi::OsString;

use semel::{Key, Operation, Tenant};
use semel_gateway::cli;

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let words: Vec<&str> = text.lines().collect();
    let shown = read(&words);
    assert_eq!(shown, read(&words), "{words:?}");
    if let Err(refused) = shown {
        assert!(!refused.is_empty(), "{words:?}");
    }
    if let [tenant, operation, key, ..] = words[..] {
        page(tenant, operation, key);
    }
}

fn read(words: &[&str]) -> Result<String, String> {
    let words = ["semel"].iter().chain(words).map(OsString::from).collect();
    match cli::read(words) {
        Ok(line) => Ok(format!("{line:?}")),
        Err(error) => {
            assert!([0, 2].contains(&error.exit_code()), "{error}");
            Err(error.to_string())
        }
    }
}

fn page(tenant: &str, operation: &str, key: &str) {
    let name = format!("{tenant}\0{operation}\0{key}\0");
    let word: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    let names =
        Tenant::new(tenant).is_ok() && Operation::new(operation).is_ok() && Key::new(key).is_ok();
    let taken = read(&["records", "list", "--after", &word]);
    assert_eq!(taken.is_ok(), names, "{tenant:?} {operation:?} {key:?}: {taken:?}");
}
