//! How what was seen is said.

use std::fmt::Write as _;

use super::{compare, exchange::Got};

/// Says how many effects there are.
pub(super) fn effects(count: u64) -> String {
    if count == 1 { "1 effect".to_owned() } else { format!("{count} effects") }
}

/// Shows what was got, with the start of its body.
pub(super) fn shown(got: &Got) -> String {
    match got {
        Got::Answer(answer) => {
            format!("{} with the body {}", answer.status, compare::excerpt(&answer.body))
        }
        other => other.to_string(),
    }
}

/// Lists statuses as `200, 201 or 202`.
pub(super) fn listed(statuses: &[u16]) -> String {
    let mut text = String::new();
    for (at, status) in statuses.iter().enumerate() {
        let between = match at {
            0 => "",
            _ if at + 1 == statuses.len() => " or ",
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
    }
}
