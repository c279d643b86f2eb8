//! What no output shows: values that came from the environment, and headers that say who somebody is.

use std::fmt;

/// What stands for a masked text.
pub(crate) const MASK: &str = "***";

/// Headers whose values are never shown.
const HEADERS: [&str; 6] =
    ["authorization", "cookie", "proxy-authorization", "set-cookie", "x-api-key", "x-auth-token"];

/// The shortest secret that is looked for inside other texts: shorter ones stand everywhere by chance.
const LOOKED_FOR_MIN: usize = 6;

/// The secrets of a plan.
#[derive(Clone, Default)]
pub struct Secrets {
    /// The settings that hold one, such as `request.headers.x-key`.
    settings: Vec<String>,
    values: Vec<String>,
}

impl Secrets {
    pub(super) fn note(&mut self, setting: &str, value: &str) {
        self.settings.push(setting.to_owned());
        if value.len() >= LOOKED_FOR_MIN && !self.values.iter().any(|known| known == value) {
            self.values.push(value.to_owned());
            // The longest first: a secret may hold another one.
            self.values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        }
    }

    /// Returns a text without the secrets that stand in it.
    #[must_use]
    pub fn masked(&self, text: &str) -> String {
        let start = text.to_owned();
        self.values.iter().fold(start, |text, secret| text.replace(secret.as_str(), MASK))
    }

    /// Returns bytes without the secrets that stand in them.
    #[must_use]
    pub fn masked_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut masked = bytes.to_vec();
        for secret in self.values.iter().map(String::as_bytes) {
            let mut from = 0;
            let found = |masked: &[u8], from: usize| {
                masked[from..].windows(secret.len()).position(|window| window == secret)
            };
            while let Some(at) = found(&masked, from).map(|at| from + at) {
                masked.splice(at..at + secret.len(), MASK.bytes());
                from = at + MASK.len();
            }
        }
        masked
    }

    /// Returns the value of a header as it may be shown.
    #[must_use]
    pub fn masked_header(&self, name: &str, value: &str) -> String {
        let secret = HEADERS.iter().any(|known| name.eq_ignore_ascii_case(known))
            || self.settings.iter().any(|setting| is_header(setting, name));
        if secret { MASK.to_owned() } else { self.masked(value) }
    }
}

/// Says whether a setting such as `tenant.headers.X-Key` is this header.
fn is_header(setting: &str, name: &str) -> bool {
    let header = setting.split_once("headers.").map(|(_, header)| header);
    header.is_some_and(|header| header.eq_ignore_ascii_case(name))
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Secrets {
        let mut secrets = Secrets::default();
        secrets.note("request.headers.X-Caller", "ab");
        secrets.note("request.body", "hunter2hunter2");
        secrets.note("effects.url", "hunter2");
        secrets
    }

    #[test]
    fn a_secret_is_masked_wherever_it_stands() {
        let secrets = secrets();
        assert_eq!(secrets.masked("a hunter2hunter2 b hunter2"), "a *** b ***");
        assert_eq!(secrets.masked_bytes(b"\xff hunter2hunter2hunter2"), b"\xff ******");
        assert_eq!(secrets.masked_header("x-other", "Bearer hunter2"), "Bearer ***");
        assert!(!format!("{secrets:?}").contains("hunter2"));
    }

    #[test]
    fn a_header_that_names_somebody_is_masked_and_others_are_not() {
        let secrets = secrets();
        for name in ["Authorization", "cookie", "Set-Cookie", "x-caller"] {
            assert_eq!(secrets.masked_header(name, "anything"), MASK, "{name}");
        }
        assert_eq!(secrets.masked_header("content-type", "text/plain"), "text/plain");
    }
}
