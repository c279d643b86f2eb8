//! The report for a build server: JUnit's XML, a test case for every rule.

use std::{fmt::Write, time::Duration};

use super::{Ended, Report, Verdict, WIDTH_MAX};

impl Report {
    /// Returns the report as JUnit's XML: broken is a failure, failed an error, not tried skipped.
    #[must_use]
    pub fn junit(&self) -> String {
        let counts = self.counts();
        let numbers = format!(
            "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{}\"",
            self.verdicts.len() + self.not_reached.len(),
            counts.broken,
            counts.failed + self.not_reached.len(),
            counts.not_tried,
            seconds(self.took)
        );
        let (name, target) = (escaped(&self.name), escaped(&self.target));
        let contract = self.contract.map(|contract| {
            format!("<property name=\"contract\" value=\"{}\"/>\n", contract.word())
        });
        let contract = contract.unwrap_or_default();
        let mut out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {numbers}>\n\
             <testsuite name=\"{name}\" {numbers}>\n<properties>\n\
             <property name=\"target\" value=\"{target}\"/>\n\
             {contract}<property name=\"seed\" value=\"{}\"/>\n</properties>\n",
            self.seed
        );
        for verdict in &self.verdicts {
            self.case(&mut out, verdict);
        }
        for rule in &self.not_reached {
            let _infallible = writeln!(
                out,
                "<testcase classname=\"semel-drill.{name}\" name=\"{rule}\" time=\"0.000\">\
                 <error type=\"interrupted\" message=\"the drill was interrupted before its end\"/>\
                 </testcase>"
            );
        }
        out.push_str("</testsuite>\n</testsuites>\n");
        out
    }

    fn case(&self, out: &mut String, verdict: &Verdict) {
        let _infallible = write!(
            out,
            "<testcase classname=\"semel-drill.{}\" name=\"{}\" time=\"{}\">",
            escaped(&self.name),
            verdict.rule.name,
            seconds(verdict.took())
        );
        let why = escaped(&self.secrets.masked(&verdict.seen));
        let _infallible = match verdict.ended {
            Ended::Kept => write!(out, "<system-out>{why}</system-out>"),
            Ended::NotTried(_) => write!(out, "<skipped message=\"{why}\"/>"),
            Ended::Broken(_) => {
                let evidence = escaped(&self.evidence(verdict, WIDTH_MAX));
                write!(out, "<failure type=\"broken\" message=\"{why}\">{evidence}</failure>")
            }
            Ended::Failed(_) => {
                let evidence = escaped(&self.evidence(verdict, WIDTH_MAX));
                write!(out, "<error type=\"failed\" message=\"{why}\">{evidence}</error>")
            }
        };
        out.push_str("</testcase>\n");
    }
}

fn seconds(span: Duration) -> String {
    format!("{:.3}", span.as_secs_f64())
}

/// Escapes a text for an attribute or an element. What XML cannot hold is shown by its number.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                out.extend(c.escape_unicode());
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn what_xml_cannot_hold_is_shown_by_its_number() {
        assert_eq!(
            escaped("<a b=\"&\">\u{0}\u{1b}\r\u{ffff}\n"),
            "&lt;a b=&quot;&amp;&quot;&gt;\\u{0}\\u{1b}\\u{d}\\u{ffff}\n"
        );
    }
}
