//! The page's table, and the rule that every broken cell of it has a sentence below.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The table stands between these two lines.
const MARKS: (&str, &str) = ("<!-- Written by `cargo xtask drill-peers`: -->", "<!-- . -->");

const KEPT: &str = "kept";
const BROKEN: &str = "**broken**";
const NOT_TRIED: &str = "–";

/// What the drill said of one package.
#[derive(Debug)]
pub(super) struct Column {
    name: String,
    version: String,
    /// Rules in the drill's order, with what the cell shows.
    verdicts: Vec<(String, &'static str)>,
}

impl Column {
    /// Reads the drill's JSON.
    pub(super) fn read(name: &str, version: String, report: &str) -> Result<Self> {
        let report: Value = serde_json::from_str(report).context("the report is not JSON")?;
        ensure!(report["interrupted"] != true, "the drill of {name} was interrupted");
        let verdicts = report["rules"].as_array().context("the report has no rules")?;
        let verdict = |verdict: &Value| {
            let rule = verdict["rule"].as_str().context("a verdict without a rule")?;
            let cell = match verdict["verdict"].as_str() {
                Some("kept") => KEPT,
                Some("broken") => BROKEN,
                Some("not-tried") => NOT_TRIED,
                other => bail!("the drill of {name} could not find out `{rule}`: {other:?}"),
            };
            Ok((rule.to_owned(), cell))
        };
        let verdicts = verdicts.iter().map(verdict).collect::<Result<_>>()?;
        Ok(Self { name: name.to_owned(), version, verdicts })
    }

    fn cell(&self, rule: &str) -> &'static str {
        let found = self.verdicts.iter().find(|(known, _)| known == rule);
        found.map_or(NOT_TRIED, |(_, cell)| cell)
    }
}

/// The table: a row for each rule, a column for each package.
pub(super) fn table(columns: &[Column]) -> String {
    let mut text = String::from("| rule |");
    for Column { name, version, .. } in columns {
        // Writing to a string cannot fail.
        let _ = write!(text, " [{name}](#{name}) {version} |");
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(columns.len()));
    let rules = columns.first().map_or(&[][..], |column| &column.verdicts);
    for (rule, _) in rules {
        let _ = write!(text, "\n| `{rule}` |");
        for column in columns {
            let _ = write!(text, " {} |", column.cell(rule));
        }
    }
    text.push('\n');
    text
}

/// The page with `table` between its marks; nothing where it has none.
pub(super) fn with_table(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(MARKS.0)?;
    let (_, after) = rest.split_once(MARKS.1)?;
    Some(format!("{before}{}\n\n{table}\n{}{after}", MARKS.0, MARKS.1))
}

/// Broken rules without a sentence in the package's section. A sentence may speak of more: what depends on timing
/// breaks in one run and not in the next.
pub(super) fn unexplained(page: &str) -> Vec<String> {
    let said = said(page);
    broken(page).into_iter().filter(|rule| !said.contains(rule)).collect()
}

/// Every broken cell of the table, as `package rule`.
fn broken(page: &str) -> BTreeSet<String> {
    let table = page.split_once(MARKS.0).and_then(|(_, rest)| rest.split_once(MARKS.1));
    let mut rows = table.map_or("", |(table, _)| table).lines().filter_map(cells);
    let names: Vec<_> = rows.next().unwrap_or_default().iter().map(|cell| name(cell)).collect();
    let mut found = BTreeSet::new();
    for row in rows {
        let rule = row[0].trim_matches('`');
        let broken = row.iter().zip(&names).filter(|(cell, _)| **cell == BROKEN);
        found.extend(broken.map(|(_, name)| format!("{name} {rule}")));
    }
    found
}

/// Every sentence of the sections, as `package rule`; a sentence may stand for several rules.
fn said(page: &str) -> BTreeSet<String> {
    let mut section = "";
    let mut found = BTreeSet::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            section = heading;
        }
        let rules = line.strip_prefix("- `").and_then(|rest| rest.split_once(": "));
        let rules =
            rules.map_or("", |(rules, _)| rules).split(", ").filter(|rule| !rule.is_empty());
        found.extend(rules.map(|rule| format!("{section} {}", rule.trim_matches('`'))));
    }
    found
}

/// The cells of a table's row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
    Some(row.split(" | ").map(str::trim).collect())
}

/// The package's name in the head of its column.
fn name(head: &str) -> &str {
    head.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(head, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell;

    const REPORT: &str = r#"{"format": 1, "rules": [
        {"rule": "race", "verdict": "broken"}, {"rule": "late", "verdict": "not-tried"}]}"#;

    fn page(notes: &str) -> String {
        let empty = format!("# Page\n\n{}\n{}\n\n{notes}", MARKS.0, MARKS.1);
        let column = Column::read("one", "1.0".to_owned(), REPORT).unwrap();
        with_table(&empty, &table(&[column])).unwrap()
    }

    #[test]
    fn the_table_stands_between_its_marks() {
        let table =
            "| rule | [one](#one) 1.0 |\n|---|---|\n| `race` | **broken** |\n| `late` | – |\n";
        let page = page("");
        assert!(page.contains(table), "{page}");
        assert_eq!(with_table(&page, table).as_deref(), Some(&page[..]));
    }

    #[test]
    fn a_broken_rule_wants_a_sentence_below_its_package() {
        assert_eq!(unexplained(&page("### one\n")), ["one race"]);
        assert!(unexplained(&page("### one\n- `race`: why.\n")).is_empty());
        assert!(unexplained(&page("### one\n- `late`, `race`: why.\n")).is_empty());
        assert_eq!(unexplained(&page("### two\n- `race`: why.\n")), ["one race"]);
    }

    #[test]
    fn a_rule_that_could_not_be_tried_is_no_verdict() {
        let report = r#"{"rules": [{"rule": "race", "verdict": "failed"}]}"#;
        assert!(Column::read("one", String::new(), report).is_err());
        let report = r#"{"interrupted": true, "rules": []}"#;
        assert!(Column::read("one", String::new(), report).is_err());
    }

    #[test]
    fn every_broken_rule_of_the_page_has_been_looked_into() {
        let page = std::fs::read_to_string(shell::root().join(super::super::PAGE)).unwrap();
        assert!(!broken(&page).is_empty());
        assert_eq!(unexplained(&page), Vec::<String>::new());
    }
}
