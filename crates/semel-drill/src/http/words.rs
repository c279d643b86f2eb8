//! How what was seen is said.

use std::fmt::Write as _;

use super::{compare, exchange::Got};

/// Says how many effects there are.
pub(crate) fn effects(count: u64) -> String {
    if count == 1 { "1 effect".to_owned() } else { format!("{count} effects") }
}

/// Shows what was got, with the start of its body.
pub(crate) fn shown(got: &Got) -> String {
    match got {
        Got::Answer(answer) => {
            format!("{} with the body {}", answer.status, compare::excerpt(&answer.body))
        }
        other => other.to_string(),
    }
}

/// How many statuses in a row are said as a range.
const ROW_MIN: usize = 5;

/// Lists statuses as `200, 201 or 202`, and long rows of them as `200 to 299`.
pub(crate) fn listed(statuses: &[u16]) -> String {
    let rows: Vec<_> = statuses.chunk_by(|one, next| one + 1 == *next).collect();
    let said = rows.iter().flat_map(|row| match row {
        [first, .., last] if row.len() >= ROW_MIN => vec![format!("{first} to {last}")],
        row => row.iter().map(u16::to_string).collect(),
    });
    let said: Vec<_> = said.collect();
    let mut text = String::new();
    for (at, status) in said.iter().enumerate() {
        let between = match at {
            0 => "",
            _ if at + 1 == said.len() => " or ",
            _ => ", ",
        };
        // Writing to a text cannot fail.
        let _ = write!(text, "{between}{status}");
    }
    if text.is_empty() { "nothing".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_listed_as_one_says_them() {
        assert_eq!(listed(&[201]), "201");
        assert_eq!(listed(&[200, 201, 204]), "200, 201 or 204");
        let row: Vec<_> = (200..300).chain([304]).collect();
        assert_eq!(listed(&row), "200 to 299 or 304");
    }
}
