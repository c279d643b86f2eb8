//! The rules by which an answer is judged.

use semel::{IntentId, Timestamp};

use super::{Ask, Asked, Asks, Kept, Run, Said};
use crate::history::{Broken, Promise, Told, Untrue};

impl Asks {
    pub(in crate::history) fn runs(&mut self, ask: Ask, by: Timestamp, believes_until: Timestamp) {
        self.seq += 1;
        let run = Run { by, believes_until, keys: Vec::new(), said: None, doubted: false };
        self.asks[ask.0].run = Some(run);
        let asked = &self.asks[ask.0];
        let id = asked.id.clone();
        let course = &self.courses[&id];
        let again = course.kept.iter().any(|kept| {
            kept.was_told_before(asked.seq) && !kept.may_be_absent(by) && kept.run != Some(ask.0)
        });
        let others = course.asks.iter().filter(|other| **other != ask.0);
        let others: Vec<_> =
            others.filter_map(|other| Some((*other, self.asks[*other].run.as_ref()?))).collect();
        let beside = others.iter().any(|(_, run)| {
            let believed = if run.by < by { run.believes_until } else { believes_until };
            run.said.is_none() && believed > by.max(run.by)
        });
        let changed = others.iter().any(|(other, run)| {
            self.asks[*other].terms.content != asked.terms.content
                && run.said != Some(Said::NoEffect)
                && !self.expired(*other, by)
                && !self.expired(ask.0, run.by)
        });
        self.breaks(again, || Broken::Again(id.clone()));
        self.breaks(beside, || Broken::TwoHolders(id.clone()));
        self.breaks(changed, || Broken::OtherContent(id.clone()));
        self.doubt_ends(id);
    }

    pub(in crate::history) fn acts(&mut self, ask: Ask, key: u64) {
        self.seq += 1;
        let Some(run) = self.asks[ask.0].run.as_mut() else { return };
        run.keys.push(key);
        let by = run.by;
        let id = self.asks[ask.0].id.clone();
        let keyed = self.promise == Some(Promise::Keyed);
        let mut effects = 1;
        for other in self.courses[&id].asks.iter().filter(|other| **other != ask.0) {
            let Some(run) = &self.asks[*other].run else { continue };
            let apart = self.expired(*other, by) || self.expired(ask.0, run.by);
            let counts = |other: &&u64| !(apart || keyed && **other == key);
            effects += run.keys.iter().filter(counts).count();
        }
        self.breaks(effects > 1, || Broken::Twice { id: id.clone(), effects });
    }

    pub(in crate::history) fn told(&mut self, ask: Ask, told: &Told, now: Timestamp) {
        self.seq += 1;
        let seq = self.seq;
        let asked = &mut self.asks[ask.0];
        asked.over = Some((seq, now));
        let (id, content, asked_at, ask_seq) =
            (asked.id.clone(), asked.terms.content, asked.at, asked.seq);
        let course = &self.courses[&id];
        let Some(which) = course.kept.iter().position(|kept| kept.told == *told) else {
            self.broken.push(Broken::Invented { id, told: told.clone() });
            return;
        };
        let this = &course.kept[which];
        let success = (200..400).contains(&told.status);
        let lost = success && !self.acted(this, &id);
        let other = this.content.is_some_and(|kept| kept != content);
        // Somebody was told earlier than this ask began, so it was stored before that.
        let outlived = this
            .told_at
            .is_some_and(|(_, told_at)| asked_at > told_at.after(this.terms.replay_for));
        let against = course.kept.iter().enumerate().find(|(at, kept)| {
            let later = kept.may_be_absent(this.by) || this.may_be_absent(kept.by);
            let stale = this.was_told_before(ask_seq)
                && kept.was_told_before(ask_seq)
                && this.told_at < kept.told_at;
            *at != which && kept.told_at.is_some() && (!later || stale)
        });
        let against = against.map(|(_, kept)| kept.told.clone());
        if let Some(first) = against {
            self.broken.push(Broken::Differs { id: id.clone(), first, later: told.clone() });
        }
        self.breaks(lost, || Broken::Lost(id.clone()));
        self.breaks(other, || Broken::OtherContent(id.clone()));
        self.breaks(outlived, || Broken::untrue(&id, Untrue::Outlived));
        let course = self.courses.get_mut(&id);
        let kept = course.and_then(|course| course.kept.get_mut(which));
        if let Some(kept) = kept {
            kept.told_at.get_or_insert((seq, now));
        }
        self.doubt_ends(id);
    }

    pub(in crate::history) fn refused(&mut self, ask: Ask, code: &str, now: Timestamp) {
        self.seq += 1;
        let seq = self.seq;
        let asked = &mut self.asks[ask.0];
        asked.over = Some((seq, now));
        let asked = &self.asks[ask.0];
        let now = asked.peak.max(now);
        let id = asked.id.clone();
        let course = &self.courses[&id];
        let locked = course.locked.is_some_and(|locked| locked > asked.seq);
        // What somebody was told before this ask began is what everybody with the same content gets.
        let hidden = course.kept.iter().any(|kept| {
            let still = match code {
                "forgotten" => !kept.may_be_forgotten(now),
                "in-progress" if locked => false,
                "mismatch" if kept.content != Some(asked.terms.content) => false,
                // It may be remembered no more, and somebody else may run.
                _ => !kept.may_be_absent(now) && !kept.may_be_forgotten(now),
            };
            still && kept.was_told_before(asked.seq)
        });
        let others = || course.asks.iter().filter(|other| **other != ask.0);
        let why = match code {
            "forgotten" => {
                let forgotten = course.kept.iter().any(|kept| kept.may_be_forgotten(now));
                (!forgotten).then_some(Untrue::Forgotten)
            }
            "in-progress" => {
                let held = locked || others().any(|other| self.may_hold(*other, asked));
                (!held).then_some(Untrue::InProgress)
            }
            "mismatch" => {
                let content = |other: &usize| self.asks[*other].terms.content;
                let other = others().any(|other| content(other) != asked.terms.content);
                (!other).then_some(Untrue::Mismatch)
            }
            "unknown" => {
                let lost = course.asks.iter().any(|other| self.may_be_lost(*other, asked, now));
                let doubt = course.in_doubt || course.doubt_until > asked.seq;
                (!lost && !doubt).then_some(Untrue::Unknown)
            }
            _ => None,
        };
        self.breaks(hidden, || Broken::NotReplayed { id: id.clone(), replayed: None });
        match why {
            Some(why) => self.broken.push(Broken::untrue(&id, why)),
            None if code == "unknown" => self.courses.entry(id).or_default().in_doubt = true,
            None => {}
        }
    }

    /// Says whether another ask may have held the intent while `asked` was asked.
    fn may_hold(&self, other: usize, asked: &Asked) -> bool {
        let other = &self.asks[other];
        let lasts = |from: Timestamp| from.after(other.terms.transit + other.terms.lease);
        match (other.over, other.left) {
            // What it sent before it ended may arrive later, and be granted or renewed again.
            (Some((seq, at)), _) if seq < asked.seq => {
                let ended = |run: &Run| matches!(run.said, Some(Said::Outcome(_)));
                let again = !other.run.as_ref().is_some_and(ended);
                again && asked.at < lasts(at)
            }
            (None, Some(at)) => asked.at < lasts(at),
            _ => true,
        }
    }

    /// Says whether an ask may have been granted and lost before `asked` was answered; that may be the
    /// ask itself, whose first answer did not come.
    fn may_be_lost(&self, other: usize, asked: &Asked, now: Timestamp) -> bool {
        let other = &self.asks[other];
        let perhaps = other.run.as_ref().is_some_and(|run| run.doubted);
        if let Some((seq, _)) = other.over.filter(|_| !perhaps && other.seq != asked.seq) {
            let granted = other.run.is_some();
            if !granted || seq < asked.seq {
                return false;
            }
        }
        perhaps || now >= other.at.after(other.terms.lease)
    }

    /// Says whether what a run did may be remembered no more when another was granted by `by`: it, or
    /// one that came after it, ended long enough ago.
    fn expired(&self, ask: usize, by: Timestamp) -> bool {
        let Some(run) = &self.asks[ask].run else { return true };
        let course = &self.courses[&self.asks[ask].id];
        let kept = course.kept.iter().map(|kept| (kept.run, kept.by, kept.at, kept.terms));
        let open = course.open.iter().map(|open| (open.run, open.by, open.at, open.terms));
        kept.chain(open).any(|(ended, granted, at, terms)| {
            (ended == Some(ask) || granted >= run.by) && by >= at.after(terms.remember_for)
        })
    }

    /// Says whether there is an effect behind an outcome: of its own run, or of one that it found.
    fn acted(&self, kept: &Kept, id: &IntentId) -> bool {
        let acts = |ask: usize| self.asks[ask].run.as_ref().is_some_and(|r| !r.keys.is_empty());
        let found = |ask: &usize| acts(*ask) && !self.expired(*ask, kept.by);
        kept.run.is_some_and(acts) || self.courses[id].asks.iter().any(found)
    }

    fn doubt_ends(&mut self, id: IntentId) {
        let seq = self.seq;
        let course = self.courses.entry(id).or_default();
        if std::mem::take(&mut course.in_doubt) {
            course.doubt_until = seq;
        }
    }

    fn breaks(&mut self, is_broken: bool, broken: impl FnOnce() -> Broken) {
        if is_broken {
            self.broken.push(broken());
        }
    }
}
