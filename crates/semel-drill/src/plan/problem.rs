//! What is wrong with a plan: every problem at once, each with its place and one sentence.

use std::{error::Error, fmt, ops::Range};

use semel_gateway::config;

/// The longest sentence that is told, in characters.
const MESSAGE_CHARS_MAX: usize = 400;

/// The longest word that a known name is looked for, in bytes.
const WORD_BYTES_MAX: usize = 100;

/// One problem.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The setting, such as `request.path`; empty for the plan as a whole.
    pub setting: String,
    /// One sentence: what is wrong and what to write instead.
    pub message: String,
    /// The line, from 1; 0 where the plan could not be read at all.
    pub line: usize,
    /// The column in characters, from 1; 0 likewise.
    pub column: usize,
}

/// A plan that cannot be used, and everything that is wrong with it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlanError {
    /// The plan as the caller named it.
    pub plan: String,
    /// The problems in the order of the file; never none.
    pub problems: Vec<Problem>,
}

impl PlanError {
    /// Makes an error of a plan that could not even be read.
    pub(super) fn unread(plan: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let problem = Problem { setting: String::new(), message, line: 0, column: 0 };
        Self { plan: plan.to_owned(), problems: vec![problem] }
    }

    /// Says which plan it is.
    pub(super) fn of(self, plan: &str) -> Self {
        Self { plan: plan.to_owned(), ..self }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            let Problem { message, line, column, .. } = problem;
            match line {
                0 => write!(f, "{newline}{}: {message}", self.plan)?,
                line => write!(f, "{newline}{}:{line}:{column}: {message}", self.plan)?,
            }
        }
        Ok(())
    }
}

impl Error for PlanError {}

/// A problem at bytes of the text, before they are counted as line and column.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) setting: String,
    pub(super) message: String,
    pub(super) span: Range<usize>,
}

impl Found {
    pub(super) fn placed(self, text: &str) -> Problem {
        let (line, column) = config::line_and_column(text, self.span.start);
        let (setting, message) = (one_line(&self.setting), one_line(&self.message));
        Problem { setting, message, line, column }
    }
}

/// Writes what may name somebody's keys as one line that is not too long.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars().take(MESSAGE_CHARS_MAX) {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    if text.chars().nth(MESSAGE_CHARS_MAX).is_some() {
        line.push('…');
    }
    line
}

/// Returns the known name that `word` was probably meant to be.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > WORD_BYTES_MAX { None } else { config::nearest(word, known) }
}

/// Returns `; did you mean …?` where some known name is near.
pub(crate) fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_and_a_far_one_is_not() {
        let known = ["racers", "storm", "patience"];
        assert_eq!(nearest("racer", known), Some("racers"));
        assert_eq!(hint("patiense", known), "; did you mean `patience`?");
        assert_eq!(hint("qqq", known), "");
    }

    #[test]
    fn a_place_is_counted_in_lines_and_characters() {
        let found = Found { setting: String::new(), message: String::new(), span: 7..8 };
        let placed = found.placed("a\né = x");
        assert_eq!((placed.line, placed.column), (2, 5));
    }
}
