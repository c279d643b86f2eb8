//! `odd-keys`: keys that are empty, long, foreign, or nearly equal.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::{Rule, Scenario};
use crate::{
    http::{
        drill::Drill,
        exchange::{Got, Request},
        judge::{Judged, judge},
        trial::{Trial, Tried, broken},
        words::{listed, shown},
    },
    plan::{KeyStyle, Names},
};

/// The longest documented key, where none is documented.
const LENGTH_MAX: usize = 255;

pub(super) struct OddKeys;

#[async_trait]
impl Scenario for OddKeys {
    fn rule(&self) -> Rule {
        Rule {
            name: "odd-keys",
            says: "An odd key is refused, or is one key as it stands: never cut, never folded, never \
                   an effect without protection, never a server's error.",
        }
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        None
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let mut tally = Tally::default();
        for (what, lines) in single(trial) {
            let before = tally.faults.len();
            alone(trial, &mut tally, &what, &lines).await?;
            if tally.faults.len() > before {
                trial.blame(lines);
            }
        }
        for (what, one, other) in pairs(trial) {
            let (before, keys) = (tally.faults.len(), [one, other]);
            pair(trial, &mut tally, &what, keys.clone()).await?;
            if tally.faults.len() > before {
                trial.blame(keys);
            }
        }
        tally.verdict()
    }
}

#[derive(Default)]
struct Tally {
    refused: usize,
    taken: usize,
    /// Statuses of refusals that are documented for no key, no good one, and no right one.
    undocumented: BTreeSet<u16>,
    faults: Vec<String>,
}

impl Tally {
    fn verdict(self) -> Tried {
        let Self { refused, taken, undocumented, faults } = self;
        if !faults.is_empty() {
            return broken(faults.join("; "));
        }
        let seen = format!("{refused} odd keys were refused, {taken} were taken as they stand");
        if undocumented.is_empty() {
            return Ok(seen);
        }
        let statuses: Vec<_> = undocumented.into_iter().collect();
        Ok(format!("{seen}; some were refused with {}, which is not documented", listed(&statuses)))
    }
}

/// Keys by themselves: each a request with one or several key lines.
fn single(trial: &Trial<'_>) -> Vec<(String, Vec<String>)> {
    let tail = format!("{:016x}", trial.fresh());
    let documented = trial.drill.expected.key.max_length.unwrap_or(LENGTH_MAX);
    let one = |what: &str, key: String| (what.to_owned(), vec![key]);
    let dressed = |what: &str, key: String| one(what, dressed(trial, key));
    let long = |length: usize| format!("{tail}{}", "k".repeat(length.saturating_sub(tail.len())));
    vec![
        one("an empty key", String::new()),
        one("an empty key in quotes", "\"\"".into()),
        one("a key of blanks", "   ".into()),
        one("a key of blanks in quotes", "\"   \"".into()),
        dressed(&format!("a key of {} characters", documented + 1), long(documented + 1)),
        dressed("a key of 10,000 characters", long(10_000)),
        one("a key that is not ASCII", format!("clé-ключ-鍵-{tail}")),
        one("a key with a tab inside", format!("tab\t{tail}")),
        dressed("a key with a blank inside", format!("two words {tail}")),
        dressed("a key with a comma", format!("one, two {tail}")),
        one("a key with one quote", format!("\"half-{tail}")),
        dressed("a key with a path", format!("../../{tail}/..%2F%00:*?#")),
        dressed("a key that is SQL", format!("'; DROP TABLE keys; -- {tail}")),
        ("two key lines that differ".into(), vec![format!("one-{tail}"), format!("two-{tail}")]),
    ]
}

/// Keys that are nearly equal, and name two intents.
fn pairs(trial: &Trial<'_>) -> Vec<(String, String, String)> {
    let tail = format!("{:016x}", trial.fresh());
    let documented = trial.drill.expected.key.max_length.unwrap_or(LENGTH_MAX);
    let two = |what: &str, one: String, other: String| {
        (what.to_owned(), dressed(trial, one), dressed(trial, other))
    };
    let long =
        |end: char| format!("{tail}{}{end}", "k".repeat(documented.saturating_sub(tail.len())));
    let fit = |length: usize, end: char| {
        format!("{tail}{}{end}", "k".repeat(length.saturating_sub(tail.len() + 1)))
    };
    let longer = |end: &str| format!("{tail}{}{end}", "k".repeat(1024));
    // Where a column is shorter than what is documented, keys are cut to it.
    let cut = [33, 37, 65, 129, documented].into_iter().filter(|length| *length <= documented);
    let cut = cut.map(|length| {
        let what = format!("keys of {length} characters that differ in the last one");
        two(&what, fit(length, 'a'), fit(length, 'b'))
    });
    let mut pairs: Vec<_> = cut.collect();
    pairs.extend([
        two("keys that differ after the longest documented length", long('a'), long('b')),
        two("keys of 1,000 characters that differ at their end", longer("a"), longer("b")),
        two("keys that differ in case", format!("Case-{tail}-X"), format!("case-{tail}-x")),
        two("keys that differ in leading zeros", format!("007{tail}"), format!("7{tail}")),
        two("a key and its percent-encoding", format!("a/b-{tail}"), format!("a%2Fb-{tail}")),
        two("a path and what it leads to", format!("x/../y-{tail}"), format!("y-{tail}")),
        two("keys with another colon", format!("a:b-{tail}"), format!("a-b:{tail}")),
        two("keys that differ in an underscore", format!("a_b-{tail}"), format!("axb-{tail}")),
    ]);
    pairs
}

/// A key in the form that is documented, so that it is odd in nothing else.
fn dressed(trial: &Trial<'_>, key: String) -> String {
    match trial.drill.expected.key.style {
        KeyStyle::Quoted => format!("\"{key}\""),
        KeyStyle::Uuid => key,
    }
}

/// Sends a request with an odd key, and again: it is refused, or protected.
async fn alone(trial: &Trial<'_>, tally: &mut Tally, what: &str, keys: &[String]) -> Tried<()> {
    let names = trial.intent_with(keys.first().cloned().unwrap_or_default());
    let request = with_keys(trial, &names, keys);
    let got = trial.ask(what, &request).await;
    match judge(&trial.drill.expected, &got) {
        Judged::Done(first) => {
            let again = trial.until_definite(&format!("{what}, again"), &request).await;
            let count = trial.count_up_to(&names, 1).await?;
            let fault = match (again, count) {
                (_, 0) => Some("was answered as done and had no effect".to_owned()),
                (_, 2..) => Some(format!("did not protect: {count} effects")),
                (Err(_), _) => Some("was taken, and its retry got no definite answer".to_owned()),
                (Ok((Judged::Done(again), _)), _) => trial
                    .difference(&first, &again)
                    .map(|difference| format!("was taken, but in its retry {difference}")),
                (Ok((_, got)), _) => Some(format!("was taken, and its retry got {}", shown(&got))),
            };
            tally.taken += 1;
            tally.faults.extend(fault.map(|fault| format!("{what} {fault}")));
        }
        _ => refused(trial, tally, what, &names, &got).await?,
    }
    Ok(())
}

/// Judges a request that was not answered as done.
async fn refused(
    trial: &Trial<'_>,
    tally: &mut Tally,
    what: &str,
    names: &Names,
    got: &Got,
) -> Tried<()> {
    let status = got.answer().map(|answer| answer.status);
    let is_refusal = status.is_some_and(|status| (400..500).contains(&status));
    let expected = &trial.drill.expected;
    let documented = [&expected.bad_key, &expected.missing_key, &expected.mismatch];
    let known = |status: &u16| documented.iter().any(|known| known.contains(status));
    tally.undocumented.extend(status.filter(|status| is_refusal && !known(status)));
    let count = trial.count(names).await?;
    tally.refused += usize::from(is_refusal);
    if !is_refusal {
        tally.faults.push(format!("{what} got {}", shown(got)));
    } else if count > 0 {
        tally.faults.push(format!("{what} was refused, and had an effect all the same"));
    }
    Ok(())
}

/// Sends two intents under keys that are nearly equal: each is refused, or happens under its own key.
async fn pair(trial: &Trial<'_>, tally: &mut Tally, what: &str, keys: [String; 2]) -> Tried<()> {
    let [one, other] = keys.map(|key| trial.intent_with(key));
    let mut taken = Vec::new();
    for names in [&one, &other] {
        let request = with_keys(trial, names, std::slice::from_ref(&names.key));
        let got = trial.ask(what, &request).await;
        match judge(&trial.drill.expected, &got) {
            Judged::Done(answer) => {
                taken.push(answer);
                if trial.count_up_to(names, 1).await? == 0 {
                    tally.faults.push(format!("{what} were taken for one"));
                }
            }
            Judged::Mismatch if !taken.is_empty() => {
                tally.faults.push(format!("{what} were taken for one: the second is a mismatch"));
            }
            _ => refused(trial, tally, what, names, &got).await?,
        }
    }
    tally.taken += taken.len();
    Ok(())
}

/// The operation of the plan with these key lines, as they stand.
fn with_keys(trial: &Trial<'_>, names: &Names, keys: &[String]) -> Request {
    let header = &trial.drill.expected.key.header;
    let mut request = trial.keyless(&trial.drill.plan.request, names);
    request.headers.extend(keys.iter().map(|key| (header.clone(), key.clone())));
    request
}
