//! What is wrong with a configuration: every problem at once, each with its place and one sentence.

use std::{error::Error, fmt, ops::Range, path::PathBuf};

/// What kind of problem it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// Two settings contradict each other, or two things have one name.
    Conflict,
    /// Something the configuration names cannot be used: a file, a folder, a variable.
    Environment,
    /// Something that has no safe default is not said.
    Missing,
    /// A span or a retention cannot be used.
    Policy,
    /// The text is not TOML.
    Syntax,
    /// There is no such setting.
    Unknown,
    /// A setting has a value it cannot have.
    Value,
}

impl ProblemKind {
    /// Returns the word for this kind.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Environment => "environment",
            Self::Missing => "missing",
            Self::Policy => "policy",
            Self::Syntax => "syntax",
            Self::Unknown => "unknown",
            Self::Value => "value",
        }
    }
}

/// One problem.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The kind.
    pub kind: ProblemKind,
    /// The setting, such as `operation.lease`; empty for the file as a whole.
    pub key: String,
    /// One sentence: what is wrong and what to write instead.
    pub message: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// Everything that is wrong with one configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problems {
    /// The file as the caller named it.
    pub file: PathBuf,
    /// The problems, in the order of the file.
    pub problems: Vec<Problem>,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            let (file, line, column) = (self.file.display(), problem.line, problem.column);
            write!(f, "{newline}{file}:{line}:{column}: {}", problem.message)?;
        }
        Ok(())
    }
}

impl Error for Problems {}

/// A problem at bytes of the text, before they are counted as line and column.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) kind: ProblemKind,
    pub(super) key: String,
    pub(super) message: String,
    pub(super) span: Range<usize>,
}

impl Found {
    pub(super) fn placed(self, text: &str) -> Problem {
        let (line, column) = line_and_column(text, self.span.start);
        Problem { kind: self.kind, key: self.key, message: self.message, line, column }
    }
}

/// Counts where a byte of a text stands: its line, and its column in characters, both from 1.
#[must_use]
pub fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// Returns the known name that `word` was probably meant to be.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(word, name), name))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// Lists the known names, for a sentence.
pub(super) fn listed<'a>(known: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<_> = known.into_iter().map(|name| format!("\"{name}\"")).collect();
    match quoted.split_last() {
        None => "nothing".into(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_and_a_far_one_is_not() {
        let known = ["lease", "listen", "replay_for"];
        assert_eq!(nearest("leese", known), Some("lease"));
        assert_eq!(nearest("replay_fro", known), Some("replay_for"));
        assert_eq!(nearest("qqq", known), None);
    }

    #[test]
    fn a_place_is_counted_in_lines_and_characters() {
        let found = Found {
            kind: ProblemKind::Value,
            key: String::new(),
            message: String::new(),
            span: 7..8,
        };
        let placed = found.placed("a\né = x");
        assert_eq!((placed.line, placed.column), (2, 5));
    }
}
