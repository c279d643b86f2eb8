//! Any text as the URL of a store: what is shown of it, and of why it cannot be used, never holds the password; what is
//! shown names the same kind of store.
//!
//! The text is read as it is, and once more with a password put where one can stand.

use std::path::Path;

use semel_gateway::config::StoreUrl;
use semel_postgres::PostgresStore;

const PASSWORD: &str = "hunter2-hunter2";

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // A text that spells the password tells it by itself.
    if text.to_ascii_lowercase().contains("hunter") {
        return;
    }
    check(text, true);
    for (place, _) in text.match_indices('@') {
        let (user, rest) = text.split_at(place);
        // Behind the options begins, say, the name of a file, which an error tells.
        let is_user = !user.contains(['@', '?']);
        check(&format!("{user}:{PASSWORD}{rest}"), is_user);
        check(&format!("{user}%3a:{PASSWORD}{rest}"), is_user);
    }
    let mark = if text.contains('?') { '&' } else { '?' };
    for option in ["password", "sslpassword", "pass%77ord"] {
        check(&format!("{text}{mark}{option}={PASSWORD}"), true);
    }
}

fn check(text: &str, told_nowhere: bool) {
    let Some(url) = StoreUrl::parse(text, Path::new("")) else { return };
    let shown = format!("{url} {url:?}");
    let is_postgres = matches!(url, StoreUrl::Postgres(_));
    assert!(!is_postgres || !shown.contains(PASSWORD), "{text} is shown as {shown}");
    let again = StoreUrl::parse(&url.to_string(), Path::new(""));
    let kind = |url: &StoreUrl| std::mem::discriminant(url);
    assert_eq!(again.as_ref().map(kind), Some(kind(&url)), "{text} is shown as {url}");
    if let StoreUrl::Postgres(url) = url
        && told_nowhere
    {
        let builder = PostgresStore::builder(url.expose());
        let refused = builder.check().err().map(|error| format!("{error} {error:?}"));
        let shown = format!("{builder:?} {}", refused.unwrap_or_default());
        assert!(!shown.contains(PASSWORD), "{text}: {shown}");
    }
}
