//! The report as a table and as JSON.

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};
use serde_json::{Value, json};

use super::verdict::Report;
use crate::report::{Ended, FORMAT, escaped};

const LINE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));

impl Report {
    /// Returns the figures and the verdicts as tables, and below them what is broken.
    #[must_use]
    pub fn table(&self) -> String {
        let mut figures = plain(["what", "count"]);
        for (name, value) in self.rows() {
            figures.add_row([name, value]);
        }
        let mut verdicts = plain(["rule", "verdict", "seen"]);
        let mut broken = String::new();
        for verdict in &self.verdicts {
            let (name, seen) = (verdict.rule.name.to_owned(), verdict.seen.clone());
            let word = verdict.ended.word();
            if let Ended::Broken(why) = &verdict.ended {
                broken += &format!("\n{word} {name}: {}\n  {why}\n", verdict.rule.says);
            }
            verdicts.add_row([name, word.to_owned(), seen]);
        }
        format!("{figures}\n\n{verdicts}\n{broken}")
    }

    /// Returns everything as one document.
    #[must_use]
    pub fn json(&self) -> Value {
        let rules: Vec<_> = self
            .verdicts
            .iter()
            .map(|verdict| {
                let broken = match &verdict.ended {
                    Ended::Broken(why) => Some(why),
                    _ => None,
                };
                json!({
                    "rule": verdict.rule.name,
                    "says": verdict.rule.says,
                    "verdict": if broken.is_some() { "broken" } else { "kept" },
                    "seen": verdict.seen,
                    "why": broken,
                })
            })
            .collect();
        json!({
            "format": FORMAT,
            "outcome": if self.is_good() { "kept" } else { "broken" },
            "figures": self.figures,
            "rules": rules,
        })
    }

    /// Returns the verdicts as JUnit's XML: a test case for each rule.
    #[must_use]
    pub fn junit(&self) -> String {
        let broken = self.verdicts.iter().filter(|verdict| verdict.ended != Ended::Kept).count();
        let mut xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
        let (count, seconds) = (self.verdicts.len(), self.figures.seconds);
        xml += &format!(
            "<testsuite name=\"semel-drill stack\" tests=\"{count}\" failures=\"{broken}\" \
             errors=\"0\" skipped=\"0\" time=\"{seconds}\">\n"
        );
        for verdict in &self.verdicts {
            xml += &format!("  <testcase classname=\"stack\" name=\"{}\">", verdict.rule.name);
            if let Ended::Broken(why) = &verdict.ended {
                let (says, why) = (escaped(verdict.rule.says), escaped(why));
                xml += &format!("<failure message=\"{says}\">{why}</failure>");
            }
            xml += "</testcase>\n";
        }
        xml + "</testsuite>\n"
    }

    /// The figures by name; what holds several is told apart.
    fn rows(&self) -> Vec<(String, String)> {
        let Ok(Value::Object(all)) = serde_json::to_value(&self.figures) else { return Vec::new() };
        let mut rows = Vec::new();
        for (name, value) in all {
            let name = name.replace('_', " ");
            match value {
                Value::Object(parts) => {
                    let part = |(part, value)| (format!("{name}: {part}"), shown(&value));
                    rows.extend(parts.into_iter().map(part));
                }
                Value::Null => {}
                value => rows.push((name, shown(&value))),
            }
        }
        rows
    }
}

/// Returns the document of a drill that came to no verdict.
#[must_use]
pub fn no_verdict_json(why: &str) -> Value {
    json!({ "format": FORMAT, "outcome": "not-found-out", "why": why })
}

/// Returns JUnit's XML of a drill that came to no verdict: one error.
#[must_use]
pub fn no_verdict_junit(why: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuite name=\"semel-drill stack\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\">\n  \
         <testcase classname=\"stack\" name=\"verdict\"><error message=\"{}\"/></testcase>\n\
         </testsuite>\n",
        escaped(why)
    )
}

/// Makes a table with a line under its header and nothing else drawn.
fn plain<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(LINE).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    table
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
