//! What must be true of every intent, whatever was killed when.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{crowd::Told, till::Rows};
use crate::message::Message;

/// What a run came to.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) kills: usize,
    pub(super) intents: usize,
    pub(super) acknowledged: usize,
    pub(super) unknown: usize,
    pub(super) overtaken: usize,
    pub(super) rows: usize,
    pub(super) wrong: Vec<String>,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, intents, acknowledged, unknown, overtaken, rows, wrong } = self;
        write!(
            f,
            "{kills} kills, {intents} intents, {acknowledged} acknowledged, {unknown} unknown, \
             {overtaken} overtaken, {rows} rows, {} violations",
            wrong.len()
        )?;
        wrong.iter().take(20).try_for_each(|wrong| write!(f, "\n  {wrong}"))
    }
}

impl Verdict {
    /// Judges what the clients were told by what the upstream did.
    pub(super) fn judge(&mut self, told: &BTreeMap<String, Told>, rows: &Rows) {
        self.intents = told.len();
        for (key, told) in told {
            let made = rows.of(key);
            self.acknowledged += usize::from(!told.answers.is_empty());
            self.unknown += usize::from(only_unknown(told));
            if made.len() > 1 {
                self.wrong.push(format!("{key} has {} rows", made.len()));
            }
            for answer in &told.answers {
                if made.first().is_none_or(|row| row.as_bytes() != answer.body) {
                    self.wrong.push(format!("{key} was told {} of {made:?}", answer.text()));
                }
            }
        }
        self.rows = rows.count();
        let known: usize = told.keys().map(|key| rows.of(key).len()).sum();
        if known != self.rows {
            self.wrong.push(format!("{} rows are of no intent", self.rows - known));
        }
    }

    /// Every intent has exactly one row.
    pub(super) fn exactly_one(&mut self, told: &BTreeMap<String, Told>, rows: &Rows) {
        for key in told.keys() {
            let made = rows.of(key).len();
            if made != 1 {
                self.wrong.push(format!("{key} has {made} rows at the end"));
            }
        }
        self.rows = rows.count();
    }

    /// What nobody could say is what the operator is shown.
    pub(super) fn reported(&mut self, told: &BTreeMap<String, Told>, listed: &BTreeSet<String>) {
        let unknown = told.iter().filter(|(_, told)| only_unknown(told));
        let unknown: BTreeSet<_> = unknown.map(|(key, _)| key.clone()).collect();
        for key in unknown.symmetric_difference(listed) {
            let shown = listed.contains(key);
            self.wrong.push(format!("{key} is unknown and not listed, or the reverse: {shown}"));
        }
    }

    /// What is replayed is byte for byte what was told first.
    pub(super) fn replayed(
        &mut self,
        told: &BTreeMap<String, Told>,
        again: &BTreeMap<String, Message>,
    ) {
        for (key, told) in told {
            let Some(again) = again.get(key) else {
                self.wrong.push(format!("{key} was not answered again"));
                continue;
            };
            if again.header("idempotent-replayed") != Some("true") {
                self.wrong.push(format!("{key} ran again: {again:?}"));
            }
            if told.answers.iter().any(|first| parts(first) != parts(again)) {
                self.wrong.push(format!("{key} was told {:?} and then {again:?}", told.answers));
            }
        }
    }
}

/// Whether no client was told an outcome. A holder that comes late tells one client what another one
/// could not be told.
fn only_unknown(told: &Told) -> bool {
    told.unknown > 0 && told.answers.is_empty()
}

/// What a replay repeats.
fn parts(answer: &Message) -> (u16, Option<&str>, Option<&str>, &[u8]) {
    let header = |name| answer.header(name);
    (answer.status(), header("content-type"), header("location"), &answer.body)
}
