//! Secrets: named in the file, kept elsewhere, never printed.

use std::fmt;

use toml::{Spanned, de::DeValue};

use super::problem::ProblemKind;
use super::read::{Reading, without_index};
use super::schema::{Kind, Value};
use crate::bounded;

/// The largest secret, in bytes.
const SECRET_BYTES_MAX: usize = 64 * 1024;

/// A secret that was read from the environment or from a file. `Debug` never shows it.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Makes a secret of its bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// Returns the bytes.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Value for Secret {
    fn kind() -> Kind {
        Kind::Plain("secret: { env = \"NAME\" } or { file = \"PATH\" }")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let shown = without_index(path);
        // The value itself is not repeated in any message: it may be the secret.
        let Some((source, name)) = source(value.get_ref()) else {
            let message = format!(
                "`{shown}` is a secret and stays out of this file: write {{ env = \"NAME\" }} or \
                 {{ file = \"PATH\" }}"
            );
            reading.at(ProblemKind::Value, path, value.span(), message);
            return None;
        };
        let secret = match source {
            Source::Env => from_env(name),
            Source::File => from_file(&reading.folder.join(name)),
        };
        match secret {
            Ok(secret) => Some(secret),
            Err(why) => {
                let message = format!("`{shown}` cannot be read: {why}");
                reading.at(ProblemKind::Environment, path, value.span(), message);
                None
            }
        }
    }
}

enum Source {
    Env,
    File,
}

fn source<'t>(value: &'t DeValue<'_>) -> Option<(Source, &'t str)> {
    let table = value.as_table().filter(|table| table.len() == 1)?;
    let (key, value) = table.iter().next()?;
    let key: &str = key.get_ref();
    let source = match key {
        "env" => Source::Env,
        "file" => Source::File,
        _ => return None,
    };
    Some((source, value.get_ref().as_str()?))
}

#[expect(clippy::disallowed_methods, reason = "the configuration names the variable")]
fn from_env(name: &str) -> Result<Secret, String> {
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => Ok(Secret::new(text.into_bytes())),
        _ => Err(format!("the environment variable {name} is not set")),
    }
}

fn from_file(path: &std::path::Path) -> Result<Secret, String> {
    let shown = path.display();
    let bytes =
        bounded::read(path, SECRET_BYTES_MAX).map_err(|error| format!("{shown}: {error}"))?;
    // Editors and `echo` end a file with a line feed that is no part of the secret.
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    if bytes.is_empty() {
        return Err(format!("{shown} is empty"));
    }
    Ok(Secret::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        assert_eq!(format!("{:?}", Secret::new(*b"hunter2")), "Secret(…)");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_without_an_end_is_refused() {
        let refused = from_file(std::path::Path::new("/dev/zero")).unwrap_err();
        assert!(refused.contains("more than 64 KiB"), "{refused}");
    }
}
