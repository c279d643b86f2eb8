//! The verdict: the books against what was told.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use semel::{IntentId, store::capability::Counts};
use semel_testkit::history::{Broken, Promise};
use serde::Serialize;

use super::{
    caller::{NOT_KEPT, not_kept},
    crowd::Crowd,
    events::{ARRIVE, Events, IN_ORDER, TRUE},
    intent,
    ledger::Ledger,
    redis::{Losses, RedisFigures},
    settings::{OnLost, Settings, Store, Upstream},
    stage::{Raged, Replays, Settled, was_in_trouble},
    trouble::{Log, Trouble},
};
use crate::{
    http::scenario::Rule,
    report::{Ended, Verdict},
};

/// How many examples of a broken rule are told.
const EXAMPLES: usize = 5;

const ANSWERS: Rule = Rule {
    name: "one-answer",
    says: "All callers of an intent are told the same final answer, to the byte, and it is its own.",
};
const DEFINITE: Rule = Rule {
    name: "definite",
    says: "Every intent becomes definite, and nothing comes that must not.",
};
const DONE: Rule =
    Rule { name: "done", says: "Under rerun every intent is done, and nobody is needed." };
const DOUBLE: Rule = Rule { name: "no-double", says: "No intent has more than one effect." };
const EXPLAINED: Rule = Rule {
    name: "explained",
    says: "An intent is unknown only under hold, and only if its holder or its answer was lost.",
};
const LOST: Rule = Rule { name: "no-loss", says: "An acknowledged success has its effect." };
const RECORDS: Rule = Rule {
    name: "no-record-lost",
    says: "What was acknowledged is in the store, but for what its settings say that it may lose.",
};
const REPLAYED: Rule = Rule {
    name: "replayed",
    says: "Every gateway replays every final answer to the byte, after everything was killed.",
};

/// What a drill counted.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Where everything that was drawn came from; a text, since not every reader keeps 64 bits of a
    /// number.
    pub seed: String,
    /// Where the records were kept.
    pub store: Store,
    /// The major of PostgreSQL, if it was that.
    pub major: Option<u32>,
    /// How Redis was set up, if it was that.
    pub redis: Option<RedisFigures>,
    /// How many gateways shared it.
    pub gateways: usize,
    /// What happened when a holder was lost.
    pub on_lost: OnLost,
    /// What the upstream made of a key.
    pub upstream: Upstream,
    /// How many clients asked.
    pub clients: usize,
    /// How long trouble was made.
    pub trouble_seconds: f64,
    /// How long everything took, replays included.
    pub seconds: f64,
    /// How many intents there were.
    pub intents: u64,
    /// How many requests were sent.
    pub requests: u64,
    /// How many final answers came.
    pub answers: u64,
    /// How many effects there are in the books.
    pub effects: u64,
    /// How many intents the upstream refused for good.
    pub refused: usize,
    /// How many are done while their answer broke off, so that nobody could keep it.
    pub not_kept: usize,
    /// How often the same key had to be sent again, by why.
    pub again: BTreeMap<&'static str, u64>,
    /// How often each trouble was made.
    pub trouble: BTreeMap<Trouble, usize>,
    /// How often a caller was told that nobody can say.
    pub told_unknown: u64,
    /// How many intents were unknown in the end.
    pub unknown: u64,
    /// How many were told unknown, and ended by the holder that came back.
    pub came_back: u64,
    /// How many the operator resolved as done.
    pub resolved_done: u64,
    /// How many the operator resolved as not done.
    pub resolved_not_done: u64,
    /// How many of these had to be forced.
    pub forced: u64,
    /// How many final answers were asked for again afterwards.
    pub replays: u64,
    /// How many intents have more than one effect.
    pub double: usize,
    /// How many acknowledged successes have no effect.
    pub lost: usize,
    /// How many intents were told different answers, or one that is not theirs.
    pub differs: usize,
    /// How many final answers are not replayed.
    pub not_replayed: usize,
    /// How many final answers were acknowledged, and are not in the store any more.
    pub records_lost: usize,
    /// What came of records that the store lost as its settings say that it may, where they do.
    pub by_loss: Option<ByLoss>,
    /// What became of the events, where there were any.
    pub events: Option<Events>,
}

/// What comes of records that the store lost: whoever asks again is somebody new.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ByLoss {
    /// How many intents have more than one effect.
    pub double: usize,
    /// How many were told different answers.
    pub differs: usize,
    /// How many final answers are not replayed.
    pub not_replayed: usize,
}

/// Figures and verdicts.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was counted.
    pub figures: Figures,
    /// How each rule fared.
    pub verdicts: Vec<Verdict>,
}

impl Report {
    /// Says whether every rule was kept.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.verdicts.iter().all(|verdict| !matches!(verdict.ended, Ended::Broken(_)))
    }
}

/// What is judged.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) settings: &'a Settings,
    pub(super) crowd: &'a Crowd,
    pub(super) ledger: &'a Ledger,
    pub(super) log: &'a Log,
    pub(super) counts: Counts,
    pub(super) events: Option<Events>,
}

/// What breaks each rule.
#[derive(Debug, Default)]
struct Faults {
    differs: Vec<String>,
    double: Vec<String>,
    lost: Vec<String>,
    not_replayed: Vec<String>,
    undone: Vec<String>,
    by_loss: ByLoss,
}

impl ByLoss {
    /// Counts what is broken if the loss of a record explains it.
    const fn explains(&mut self, broken: &Broken) -> bool {
        let counted = match broken {
            Broken::Twice { .. } => &mut self.double,
            Broken::Differs { .. } => &mut self.differs,
            Broken::NotReplayed { .. } => &mut self.not_replayed,
            _ => return false,
        };
        *counted += 1;
        true
    }
}

impl Seen<'_> {
    /// Says whether the store may have lost what was written for an intent, as its settings say.
    fn may_be_lost(&self, losses: &Losses, number: u64) -> bool {
        let Some(known) = self.crowd.book.get(number) else { return false };
        // What was told of before was written before.
        let to = known.told.unwrap_or_else(Instant::now);
        self.log.may_have_lost(&losses.0, known.first, to)
    }
}

pub(super) fn judge(seen: &Seen<'_>, raged: Raged, settled: &Settled, replays: &Replays) -> Report {
    let losses = seen.settings.redis.losses(seen.settings.store);
    let faults = faults(seen, replays, &losses);
    let figures = figures(seen, raged, settled, replays, &faults, &losses);
    let unexplained = settled.unexplained.iter();
    let unexplained = unexplained.map(|number| format!("intent {number} is unknown for no reason"));
    let holds = seen.settings.on_lost == OnLost::Hold;
    let mut verdicts = vec![
        verdict(
            DOUBLE,
            faults.double,
            format!(
                "{} effects of {} intents{}",
                figures.effects,
                figures.intents,
                acted_twice(figures.by_loss)
            ),
        ),
        records(seen, settled, &losses, &figures),
        verdict(LOST, faults.lost, format!("{} final answers", figures.answers)),
        verdict(ANSWERS, faults.differs, format!("{} requests", figures.requests)),
        verdict(REPLAYED, faults.not_replayed, format!("{} asked for again", figures.replays)),
        verdict(DEFINITE, indefinite(seen, settled), states(&seen.counts)),
        verdict(EXPLAINED, unexplained.collect(), format!("{} were unknown", figures.unknown)),
    ];
    if !holds {
        let seen = format!("{} effects, {} refused", figures.effects, figures.refused);
        verdicts.push(verdict(DONE, faults.undone, seen));
    }
    if let Some(events) = &seen.events {
        verdicts.extend(of_events(events));
    }
    Report { figures, verdicts }
}

/// Judges whether what is not in the store may be lost.
fn records(seen: &Seen<'_>, settled: &Settled, losses: &Losses, figures: &Figures) -> Verdict {
    let lost = settled.missing.iter().filter(|number| !seen.may_be_lost(losses, **number));
    let lost =
        lost.map(|number| format!("intent {number} was acknowledged, and is not in the store"));
    let told = match figures.records_lost {
        0 => "everything acknowledged is there".to_owned(),
        count => format!("{count} acknowledged and lost"),
    };
    verdict(RECORDS, lost.collect(), told)
}

/// Says what a lost record did besides.
fn acted_twice(by_loss: Option<ByLoss>) -> String {
    match by_loss {
        Some(ByLoss { double, .. }) if double > 0 => {
            format!(", {double} acted again since their record was lost")
        }
        _ => String::new(),
    }
}

fn of_events(events: &Events) -> [Verdict; 3] {
    let Events { committed, rolled_back, arrived, copies, faults, .. } = events;
    let seen = format!("{committed} committed, {arrived} arrived");
    [
        verdict(ARRIVE, faults.lost.clone(), seen),
        verdict(IN_ORDER, faults.out_of_order.clone(), format!("{copies} further copies")),
        verdict(TRUE, faults.untrue.clone(), format!("{rolled_back} were rolled back")),
    ]
}

/// Checks the history against the promise.
fn faults(seen: &Seen<'_>, replays: &Replays, losses: &Losses) -> Faults {
    let Seen { settings, crowd, ledger, .. } = seen;
    let history = &crowd.watch.history;
    for number in 0..crowd.book.len() {
        let (id, page) = (intent::id(number), ledger.page(number));
        history.effects(&id, page.effects);
        if page.effects == 0 && page.refused.is_some() {
            history.in_doubt(&id);
        }
    }
    let promise = match settings.on_lost {
        OnLost::Hold => Promise::AtMostOnce,
        OnLost::Rerun => Promise::ExactlyOnce,
    };
    let replayed = |id: &IntentId| {
        let number = intent::number(id.key.as_str())?;
        replays.told.get(&number).cloned()
    };
    let mut faults = Faults::default();
    let may_be_lost = |number: u64| seen.may_be_lost(losses, number);
    for broken in history.check(promise, replayed) {
        let number = intent::number(broken.id().key.as_str());
        if number.is_some_and(may_be_lost) && faults.by_loss.explains(&broken) {
            continue;
        }
        let kind = match &broken {
            Broken::Again(_) | Broken::TwoHolders(_) | Broken::Twice { .. } => &mut faults.double,
            Broken::Differs { .. }
            | Broken::Invented { .. }
            | Broken::OtherContent(_)
            | Broken::Untrue { .. } => &mut faults.differs,
            Broken::Lost(_) => &mut faults.lost,
            Broken::NotReplayed { .. } => &mut faults.not_replayed,
            Broken::Stuck(_) | Broken::Undone(_) => &mut faults.undone,
        };
        kind.push(excerpt(broken.to_string()));
    }
    faults.not_replayed.extend(replays.wrong.iter().cloned());
    for (number, told) in &replays.told {
        let page = ledger.page(*number);
        let is_not_kept = *told == not_kept();
        if is_not_kept && page.effects == 0 {
            faults
                .lost
                .push(format!("intent {number}: told that it was done, and no effect is there"));
        }
        let may_be_not_kept = || page.broke_off || was_in_trouble(crowd, seen.log, *number);
        let is_fine =
            page.is_own(told) || (is_not_kept && may_be_not_kept()) || may_be_lost(*number);
        if !is_fine {
            faults.differs.push(excerpt(format!("intent {number} is told {told}, not its own")));
        }
    }
    faults
}

/// What did not come to an end as it should.
fn indefinite(seen: &Seen<'_>, settled: &Settled) -> Vec<String> {
    let (count, mut wrong) = seen.crowd.watch.all_wrong();
    let told = u64::try_from(wrong.len()).unwrap_or(u64::MAX);
    if count > told {
        wrong.push(format!("and {} more", count - told));
    }
    wrong.extend(settled.resolved.refused.iter().cloned());
    for (left, state) in [(seen.counts.running, "running"), (seen.counts.unknown, "unknown")] {
        if left > 0 {
            wrong.push(format!("{left} records are {state} in the end"));
        }
    }
    wrong
}

fn figures(
    seen: &Seen<'_>,
    raged: Raged,
    settled: &Settled,
    replays: &Replays,
    faults: &Faults,
    losses: &Losses,
) -> Figures {
    let Seen { settings, crowd, ledger, log, .. } = seen;
    let watch = &crowd.watch;
    let of_major = (settings.store == Store::Postgres).then(|| settings.major.number());
    let with = |status: u16| replays.told.values().filter(|told| told.status == status).count();
    Figures {
        seed: settings.seed.to_string(),
        store: settings.store,
        major: of_major,
        redis: settings.redis.figures(settings.store),
        gateways: settings.gateways,
        on_lost: settings.on_lost,
        upstream: settings.upstream,
        clients: settings.clients,
        trouble_seconds: rounded(raged.trouble_for),
        seconds: rounded(raged.begun.elapsed()),
        intents: crowd.book.len(),
        requests: watch.requests(),
        answers: watch.answers(),
        effects: ledger.effects(),
        refused: with(402),
        not_kept: with(NOT_KEPT),
        again: watch.again(),
        trouble: log.counts(),
        told_unknown: watch.unknown(),
        unknown: u64::try_from(settled.unknown.len()).unwrap_or(u64::MAX),
        came_back: settled.came_back,
        resolved_done: settled.resolved.done,
        resolved_not_done: settled.resolved.not_done,
        forced: settled.resolved.forced,
        replays: replays.count,
        double: faults.double.len(),
        lost: faults.lost.len(),
        differs: faults.differs.len(),
        not_replayed: faults.not_replayed.len(),
        records_lost: settled.missing.len(),
        by_loss: losses.can_happen().then_some(faults.by_loss),
        events: seen.events.clone(),
    }
}

/// Says how many records are in which state.
fn states(counts: &Counts) -> String {
    let Counts { done, forgotten, open, running, stuck, unknown, .. } = counts;
    let rest = [
        (forgotten, "forgotten"),
        (open, "given back"),
        (running, "running"),
        (stuck, "running past their lease"),
        (unknown, "unknown"),
    ];
    let rest = rest.iter().filter(|(count, _)| **count > 0);
    let rest: String = rest.map(|(count, state)| format!(", {count} {state}")).collect();
    format!("{done} records done{rest}")
}

fn rounded(span: Duration) -> f64 {
    (span.as_secs_f64() * 10.0).round() / 10.0
}

fn excerpt(mut text: String) -> String {
    const MOST: usize = 400;
    if let Some((at, _)) = text.char_indices().nth(MOST) {
        text.truncate(at);
        text.push('…');
    }
    text
}

fn verdict(rule: Rule, faults: Vec<String>, seen: String) -> Verdict {
    let count = faults.len();
    let mut told = faults;
    told.truncate(EXAMPLES);
    let ended = match count {
        0 => Ended::Kept,
        _ => {
            let more = if count > EXAMPLES {
                format!("; and {} more", count - EXAMPLES)
            } else {
                String::new()
            };
            Ended::Broken(format!("{}{more}", told.join("; ")))
        }
    };
    Verdict { rule, ended, seen, effects: Vec::new(), exchanges: Vec::new(), guilty: Vec::new() }
}

#[cfg(test)]
mod tests {
    use semel_testkit::history::Told;

    use super::*;

    #[test]
    fn what_was_seen_is_said_in_words() {
        let mut counts = Counts { done: 4, ..Counts::default() };
        assert_eq!(states(&counts), "4 records done");
        counts.stuck = 1;
        counts.unknown = 2;
        assert_eq!(states(&counts), "4 records done, 1 running past their lease, 2 unknown");
        let told = Told { status: 201, body: b"{\"a\":1}\n".as_slice().into() };
        assert_eq!(told.to_string(), "201 {\"a\":1}");
    }

    #[test]
    fn a_rule_is_broken_by_a_single_fault_and_tells_a_few() {
        assert_eq!(verdict(LOST, vec![], String::new()).ended, Ended::Kept);
        let one = verdict(LOST, vec!["a".to_owned()], String::new());
        assert_eq!(one.ended, Ended::Broken("a".to_owned()));
        let many = verdict(LOST, vec!["a".to_owned(); 7], String::new());
        assert_eq!(many.ended, Ended::Broken("a; a; a; a; a; and 2 more".to_owned()));
    }
}
