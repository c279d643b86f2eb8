//! Every ask and every answer in order, and whether each answer was true when it was given.
//!
//! All instants are the store's time. What a store decided lies somewhere between the moment it was
//! asked and the moment its answer was heard, so every rule takes the end of that span at which the
//! answer could still have been true: an answer is called untrue only if it was so at every instant.

mod judge;

use std::{collections::BTreeMap, time::Duration};

use semel::{IntentId, Timestamp, decide::OnLost};

use super::{Broken, Promise, Told};

/// The number of one ask of a history, and of the run that it became.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ask(usize);

impl Ask {
    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> usize {
        self.0
    }
}

/// What holds for an ask.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Terms {
    /// What is asked for: equal contents have equal numbers.
    pub content: u64,
    /// What becomes of what a lost holder held.
    pub on_lost: OnLost,
    /// How long a holder may be believed alive.
    pub lease: Duration,
    /// How long an outcome is replayed.
    pub replay_for: Duration,
    /// How long it is remembered that the intent was finished.
    pub remember_for: Duration,
    /// How long a call may be on its way.
    pub transit: Duration,
}

/// What a run says when it ends.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Said {
    /// It had no effect.
    NoEffect,
    /// It is done or failed for good, and this is what everybody is to be told.
    Outcome(Told),
    /// It may have had an effect.
    Perhaps,
}

#[derive(Debug)]
struct Asked {
    id: IntentId,
    terms: Terms,
    seq: u64,
    /// The earliest instant at which the store can have heard of it.
    at: Timestamp,
    /// The latest time the store showed while it was asked.
    peak: Timestamp,
    run: Option<Run>,
    /// When its word was last: what it held has ended for certain.
    over: Option<(u64, Timestamp)>,
    /// When its caller went away, without a word or with a lost one.
    left: Option<Timestamp>,
}

#[derive(Debug)]
struct Run {
    /// The latest instant at which it can have been granted.
    by: Timestamp,
    believes_until: Timestamp,
    keys: Vec<u64>,
    said: Option<Said>,
    /// It said once that it may have acted, whatever was said later.
    doubted: bool,
}

/// A moment from which on an intent may be remembered for a bounded time only.
#[derive(Debug)]
struct Open {
    run: Option<usize>,
    by: Timestamp,
    at: Timestamp,
    terms: Terms,
}

/// One outcome that somebody tried to store.
#[derive(Debug)]
struct Kept {
    told: Told,
    /// The run that it ends.
    run: Option<usize>,
    content: Option<u64>,
    /// The latest instant at which that run can have been granted.
    by: Timestamp,
    /// The earliest instant at which it can have been stored.
    at: Timestamp,
    terms: Terms,
    /// When somebody was first told.
    told_at: Option<(u64, Timestamp)>,
}

impl Kept {
    /// Says whether it can be that nobody remembers it at `now`.
    fn may_be_absent(&self, now: Timestamp) -> bool {
        now >= self.at.after(self.terms.remember_for)
    }

    fn may_be_forgotten(&self, now: Timestamp) -> bool {
        now >= self.at.after(self.terms.replay_for)
    }

    fn was_told_before(&self, seq: u64) -> bool {
        self.told_at.is_some_and(|(told, _)| told < seq)
    }
}

#[derive(Debug, Default)]
struct Course {
    asks: Vec<usize>,
    kept: Vec<Kept>,
    open: Vec<Open>,
    /// Somebody was told that nobody can say, and nobody was granted it or told more since.
    in_doubt: bool,
    /// When that last ended.
    doubt_until: u64,
    /// When somebody's transaction last had the lock of the name.
    locked: Option<u64>,
}

/// All asks of a history.
#[derive(Debug, Default)]
pub(super) struct Asks {
    asks: Vec<Asked>,
    courses: BTreeMap<IntentId, Course>,
    promise: Option<Promise>,
    seq: u64,
    broken: Vec<Broken>,
}

impl Asks {
    pub(super) fn promise(&mut self, promise: Promise) {
        self.promise = Some(promise);
    }

    pub(super) fn broken(&self) -> &[Broken] {
        &self.broken
    }

    pub(super) fn ids(&self) -> Vec<IntentId> {
        self.courses.keys().cloned().collect()
    }

    pub(super) fn ask(&mut self, id: &IntentId, terms: Terms, now: Timestamp) -> Ask {
        self.seq += 1;
        let ask = self.asks.len();
        self.asks.push(Asked {
            id: id.clone(),
            terms,
            seq: self.seq,
            at: now,
            peak: now,
            run: None,
            over: None,
            left: None,
        });
        self.courses.entry(id.clone()).or_default().asks.push(ask);
        Ask(ask)
    }

    pub(super) fn ends(&mut self, ask: Ask, said: Said, now: Timestamp) {
        self.seq += 1;
        let asked = &mut self.asks[ask.0];
        let Some(run) = asked.run.as_mut() else { return };
        if let Said::Outcome(told) = &said {
            let kept = Kept {
                told: told.clone(),
                run: Some(ask.0),
                content: Some(asked.terms.content),
                by: run.by,
                at: now,
                terms: asked.terms,
                told_at: None,
            };
            self.courses.entry(asked.id.clone()).or_default().kept.push(kept);
        } else if said == Said::NoEffect || asked.terms.on_lost == OnLost::Rerun {
            let open = Open { run: Some(ask.0), by: run.by, at: now, terms: asked.terms };
            self.courses.entry(asked.id.clone()).or_default().open.push(open);
        }
        asked.peak = now;
        run.doubted |= said == Said::Perhaps;
        run.said = Some(said);
    }

    pub(super) fn over(&mut self, ask: Ask, now: Timestamp) {
        self.seq += 1;
        self.asks[ask.0].over = Some((self.seq, now));
    }

    pub(super) fn left(&mut self, ask: Ask, now: Timestamp) {
        self.seq += 1;
        let asked = &mut self.asks[ask.0];
        asked.left = Some(now);
        // What a claim without an answer had won is given back.
        if asked.run.is_none() && asked.terms.on_lost != OnLost::Hold {
            let open = Open { run: Some(ask.0), by: now, at: asked.at, terms: asked.terms };
            self.courses.entry(asked.id.clone()).or_default().open.push(open);
        }
    }

    pub(super) fn locked(&mut self, id: &IntentId) {
        self.seq += 1;
        self.courses.entry(id.clone()).or_default().locked = Some(self.seq);
    }

    pub(super) fn stuck(&mut self, id: &IntentId) {
        self.broken.push(Broken::Stuck(id.clone()));
    }

    /// What was not heard of yet may reach the store at an earlier time than it was sent at.
    pub(super) fn turned_back(&mut self, from: Timestamp, to: Timestamp) {
        for asked in self.asks.iter_mut().filter(|asked| asked.over.is_none()) {
            asked.at = asked.at.min(to);
            asked.peak = asked.peak.max(from);
        }
        for course in self.courses.values_mut() {
            let untold = course.kept.iter_mut().filter(|kept| kept.told_at.is_none());
            untold.for_each(|kept| kept.at = kept.at.min(to));
            course.open.iter_mut().for_each(|open| open.at = open.at.min(to));
        }
    }

    pub(super) fn resolves(
        &mut self,
        id: &IntentId,
        run: Option<Ask>,
        told: Option<Told>,
        terms: Terms,
        now: Timestamp,
    ) {
        self.seq += 1;
        let by = run.and_then(|run| self.asks[run.0].run.as_ref()).map_or(now, |run| run.by);
        let Some(told) = told else {
            let open = Open { run: run.map(|run| run.0), by, at: now, terms };
            self.courses.entry(id.clone()).or_default().open.push(open);
            return;
        };
        let (run, content) = (run.map(|run| run.0), run.map(|run| self.asks[run.0].terms.content));
        let kept = Kept { told, run, content, by, at: now, terms, told_at: None };
        self.courses.entry(id.clone()).or_default().kept.push(kept);
    }
}
