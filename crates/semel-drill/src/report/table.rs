//! The report for a person: a table of verdicts, and below it what was sent and answered.

use std::fmt::Write;

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};

use super::{Ended, Report, Verdict, curl::printable};
use crate::{
    http::{Request, scenario::Rule},
    plan::written,
};

/// How wide a table is at most: the last column is wrapped.
pub const WIDTH_MAX: u16 = 118;

/// How wide it is at least: below that no sentence could be read.
const WIDTH_MIN: u16 = 60;

const LINE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));

/// How many exchanges are shown from the start and from the end of a rule's drill.
const SHOWN_EACH_END: usize = 8;

/// Which rules are shown with their exchanges.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Show {
    /// All that were tried.
    All,
    /// Those that are broken, and those of which it could not be found out.
    Broken,
}

impl Report {
    /// Returns the report as a table of at most so many columns, with exchanges below it.
    #[must_use]
    pub fn table(&self, show: Show, width: u16) -> String {
        let width = width.clamp(WIDTH_MIN, WIDTH_MAX);
        let mut out = self.verdict_table(width);
        for verdict in self.verdicts.iter().filter(|verdict| is_shown(verdict, show)) {
            out.push_str("\n\n");
            out.push_str(&self.evidence(verdict, width));
        }
        out.push_str("\n\n");
        out.push_str(&self.summary());
        out
    }

    fn verdict_table(&self, width: u16) -> String {
        let mut table = Table::new();
        table
            .load_style(LINE)
            .set_header(["rule", "verdict", "effects", "what was seen"])
            .set_width(width)
            .set_content_arrangement(ContentArrangement::Dynamic);
        for verdict in &self.verdicts {
            table.add_row([
                verdict.rule.name.to_owned(),
                verdict.ended.word().to_owned(),
                effects(verdict),
                printable(&self.secrets.masked(&verdict.seen)),
            ]);
        }
        table.trim_fmt()
    }

    /// A rule in full: its sentence, why it ended so, and its exchanges.
    pub(super) fn evidence(&self, verdict: &Verdict, width: u16) -> String {
        let mut out = format!("{}  {}\n", verdict.ended.word(), verdict.rule.name);
        let seen = printable(&self.secrets.masked(&verdict.seen));
        for (label, text) in [("rule", verdict.rule.says), ("seen", seen.as_str())] {
            for (at, line) in wrapped(text, usize::from(width) - 8).iter().enumerate() {
                let _infallible = writeln!(out, "  {:4}  {line}", if at == 0 { label } else { "" });
            }
        }
        let told = telling(verdict);
        let hidden = told.len().saturating_sub(2 * SHOWN_EACH_END);
        for (nth, at) in told.iter().enumerate() {
            if hidden > 0 && nth == SHOWN_EACH_END {
                let _infallible = writeln!(out, "\n  … {hidden} more like these");
            }
            if hidden == 0 || nth < SHOWN_EACH_END || nth >= told.len() - SHOWN_EACH_END {
                let _infallible =
                    writeln!(out, "\n{}", self.exchange(at + 1, &verdict.exchanges[*at]));
            }
        }
        let all = verdict.exchanges.len();
        if hidden > 0 || told.len() < all {
            let _infallible = writeln!(out, "\n  {all} exchanges in all; `--json` has them");
        }
        out.truncate(out.trim_end().len());
        out
    }

    /// The last two lines, with the seed that gives the same chance again.
    #[must_use]
    pub fn summary(&self) -> String {
        let counts = self.counts();
        let found = match (self.outcome(), counts.kept) {
            (super::Outcome::Kept, _) => "Every rule that was tried is kept.",
            (super::Outcome::Broken, _) => "A rule is broken.",
            (super::Outcome::NotFoundOut, _) if self.interrupted => "The drill was interrupted.",
            (super::Outcome::NotFoundOut, 1) if counts.failed == 0 => {
                "Only the control was tried, which says nothing about repetitions."
            }
            (super::Outcome::NotFoundOut, _) => "It could not be found out.",
        };
        format!(
            "{found} {} kept, {} broken, {} failed, {} not tried.\n{} at {}, {}, seed {}",
            counts.kept,
            counts.broken,
            counts.failed,
            counts.not_tried,
            self.name,
            self.target,
            written(self.took),
            self.seed
        )
    }
}

/// Lists rules with their sentences, for a person.
#[must_use]
pub fn rules_table(rules: impl IntoIterator<Item = Rule>) -> String {
    two_columns(rules.into_iter().map(|rule| (rule.name, rule.says)))
}

/// Lists rules with their sentences, as a table in Markdown.
#[must_use]
pub fn rules_page(rules: impl IntoIterator<Item = Rule>) -> String {
    let rows = rules.into_iter().map(|rule| format!("| `{}` | {} |", rule.name, rule.says));
    ["| rule | what must hold |".to_owned(), "|---|---|".to_owned()]
        .into_iter()
        .chain(rows)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Lists names with what is said of each, wrapped in at most as many columns as the table has.
pub(crate) fn two_columns<'a>(rows: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let rows: Vec<_> = rows.into_iter().collect();
    let name_width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for (name, says) in rows {
        let width = usize::from(WIDTH_MAX).saturating_sub(name_width + 2);
        for (at, line) in wrapped(&printable(says), width).iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            lines.push(format!("{name:name_width$}  {line}"));
        }
    }
    lines.join("\n")
}

fn is_shown(verdict: &Verdict, show: Show) -> bool {
    match verdict.ended {
        Ended::Broken(_) | Ended::Failed(_) => true,
        Ended::Kept => show == Show::All,
        Ended::NotTried(_) => false,
    }
}

/// Picks the exchanges that tell most: those of the keys that the sentence speaks of, or, where there
/// are too many, those of the intents whose count stands out from that of the others.
fn telling(verdict: &Verdict) -> Vec<usize> {
    let all = 0..verdict.exchanges.len();
    let is_guilty = |at: &usize| {
        let mut headers = verdict.exchanges[*at].request.headers.iter();
        headers.any(|(_, value)| verdict.guilty.contains(value))
    };
    let guilty: Vec<_> = all.clone().filter(is_guilty).collect();
    if !guilty.is_empty() {
        return guilty;
    }
    let usual = counts(verdict).into_iter().max_by_key(|(_, intents)| *intents);
    let stands_out = |count: u64| usual.is_some_and(|(usual, _)| usual != count);
    let intents: Vec<_> = verdict
        .effects
        .iter()
        .filter(|(_, count)| stands_out(*count))
        .map(|(intent, _)| intent.as_str())
        .collect();
    if intents.is_empty() || all.len() <= 2 * SHOWN_EACH_END {
        return all.collect();
    }
    let is_of = |request: &Request| {
        let body = String::from_utf8_lossy(&request.body);
        intents.iter().any(|intent| request.path.contains(intent) || body.contains(intent))
    };
    let picked: Vec<_> = all.clone().filter(|at| is_of(&verdict.exchanges[*at].request)).collect();
    if picked.is_empty() { all.collect() } else { picked }
}

/// Counts the intents by how many effects they had.
fn counts(verdict: &Verdict) -> Vec<(u64, usize)> {
    let mut counts: Vec<(u64, usize)> = Vec::new();
    for (_, count) in &verdict.effects {
        match counts.iter_mut().find(|(known, _)| known == count) {
            Some((_, intents)) => *intents += 1,
            None => counts.push((*count, 1)),
        }
    }
    counts.sort_unstable();
    counts
}

/// Shows how many intents had how many effects: `1`, or `39 × 1, 1 × 2`.
fn effects(verdict: &Verdict) -> String {
    let counts = counts(verdict);
    let shown = counts.iter().map(|(count, intents)| match intents {
        1 if counts.len() == 1 => count.to_string(),
        _ => format!("{intents} × {count}"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Breaks a text into lines between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        match lines.last_mut() {
            Some(last) if line == 0 || line + 1 + word.chars().count() <= width => {
                if line > 0 {
                    last.push(' ');
                }
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
