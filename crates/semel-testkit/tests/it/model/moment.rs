//! What a step does: a verb arrives at the store, which decides by the production functions, writes, and
//! answers; the history beside the record is written too, and every answer judged by it.

use semel::{
    Record,
    decide::{
        self, Ask, Compare, Decision, Finish, FinishKind, Grant, OnLost, ReleaseAsk, ResolveAsk,
        ResolveDecision, Settle, Verdict,
    },
};

use super::{
    bounds::{Bounds, Clock},
    properties::{self, Broken, demand},
    rules::{GivenBack, Rules, Time},
    step::{Fate, Step},
    store::{self, NOW},
    world::{BY_OPERATOR, End, Kept, NOBODY, Operator, Said, Stage, Standing, Ticks, World},
};

/// An operator's own claim, which is never granted.
const STRANGER: u8 = u8::MAX - 2;

/// One step in the making.
#[derive(Debug)]
pub struct Moment<'a> {
    pub world: World,
    pub rules: &'a Rules,
    pub bounds: &'a Bounds,
}

type Judged<T = ()> = Result<T, Broken>;

impl Moment<'_> {
    /// Takes a step.
    pub fn take(&mut self, step: Step) -> Judged {
        match step {
            Step::Force => self.force()?,
            Step::Hasten => self.hasten()?,
            Step::Lapse => self.lapse()?,
            Step::Look(said) => self.look(said),
            Step::Resolve { heard } => self.resolve(heard)?,
            Step::Restart(back) => self.restart(back),
            Step::Sweep => self.sweep()?,
            Step::Tick => self.world.tick(self.bounds),
            of_holder => self.of_holder(of_holder)?,
        }
        properties::always(&self.world, self.bounds)?;
        self.world.settle(self.bounds);
        Ok(())
    }

    pub fn record(&self) -> Option<Record> {
        self.world.record.as_ref().map(store::record)
    }

    pub fn write(&mut self, next: &Record) {
        self.world.record = Some(store::kept(next));
        self.world.since_write = 0;
    }

    pub fn lose_one(&mut self) {
        self.world.lost += 1;
    }

    /// A claim arrives and is decided; returns the decision, for whoever hears it.
    pub fn claim(&mut self, holder: u8) -> Judged<Decision> {
        let asks = self.world.holders[usize::from(holder)];
        let ask = self.ask(holder, asks.content, asks.not_after, self.bounds.on_lost);
        let record = self.record();
        let began = asks.not_after - self.bounds.not_after;
        let now = match self.rules.store.time {
            Time::Deciding => NOW,
            Time::Caller => store::at(self.bounds.lease),
            Time::Began => store::at(began.min(0)),
        };
        let decision = (self.rules.claim)(record.as_ref(), &ask, now);
        self.decided(holder, &ask, record.as_ref(), &decision)?;
        Ok(decision)
    }

    fn ask(&self, token: u8, content: u8, not_after: Ticks, on_lost: OnLost) -> Ask {
        Ask {
            id: store::id(),
            token: store::token(token),
            fingerprint: store::content(content),
            older: Vec::new(),
            not_after: store::at(not_after),
            lease: store::span(u8::try_from(self.bounds.lease).unwrap()),
            on_lost,
            compare: Compare::Strict,
            claimed_by: None,
        }
    }

    /// Judges a decision, and writes what it says to the record and to the history.
    fn decided(
        &mut self,
        holder: u8,
        ask: &Ask,
        record: Option<&Record>,
        decision: &Decision,
    ) -> Judged {
        if properties::begins_anew(&self.world, decision) {
            self.world.truth.busy_left = self.bounds.lease;
            self.world.truth.fell_back = false;
        }
        properties::claim(&self.world, holder, decision, ask.on_lost)?;
        match (decision, record) {
            (Decision::Grant(grant), _) => {
                let floor = store::fence(self.world.floor);
                self.granted(holder, &decide::grant(record, ask, *grant, floor, NOW), *grant)?;
            }
            (Decision::Lose(_), Some(record)) => {
                self.write(&decide::lose(record, NOW));
                self.world.truth.standing = Standing::Doubted;
            }
            (Decision::RefuseAndRewind(_), Some(record)) => {
                self.write(&(self.rules.rewind)(record, NOW));
            }
            _ => {}
        }
        Ok(())
    }

    fn granted(&mut self, holder: u8, next: &Record, grant: Grant) -> Judged {
        let number = store::number(next.fence);
        demand(number > self.world.truth.max_fence, Broken::FenceShrank)?;
        let incarnation = u8::try_from(next.incarnation).unwrap();
        if grant == Grant::Fresh {
            self.world.begin_life();
        } else {
            properties::incarnation(&self.world, incarnation)?;
        }
        self.write(next);
        let truth = &mut self.world.truth;
        truth.standing = Standing::Held;
        (truth.owner, truth.fence, truth.max_fence) = (holder, number, number);
        truth.content = self.world.holders[usize::from(holder)].content;
        truth.incarnation = incarnation;
        (truth.lease_left, truth.busy_left) = (self.bounds.lease, self.bounds.lease);
        (truth.told, truth.kept, truth.resolved_by) = (None, None, 0);
        Ok(())
    }

    /// A renewal arrives; returns whether the lease is held.
    pub fn renew(&mut self, holder: u8, length: u8) -> Judged<bool> {
        let fence = self.world.holders[usize::from(holder)].fence;
        let permit = (store::token(holder), store::fence(fence));
        let renewed = (self.rules.renew)(self.record().as_ref(), permit, store::span(length), NOW);
        let truth = &mut self.world.truth;
        let held = truth.standing == Standing::Held && truth.is_alive(holder, fence);
        match renewed {
            Settle::Write(next) => {
                demand(held, Broken::SupersededWrite)?;
                truth.lease_left = Ticks::try_from(length).unwrap();
                truth.busy_left = truth.lease_left;
                truth.fell_back = false;
                self.write(&next);
                Ok(true)
            }
            Settle::Already => Err(Broken::Untruthful("already renewed")),
            Settle::Stale => demand(!held, Broken::Untruthful("stale renewal")).map(|()| false),
        }
    }

    /// The end of a run arrives; returns whether the holder's client is told of it.
    pub fn finish(&mut self, holder: u8, end: End) -> Judged<bool> {
        match (end, self.bounds.on_lost) {
            (End::Clean, _) => self.release_by_permit(holder, false).map(|()| false),
            (End::Doubt, OnLost::Rerun) => self.release_by_permit(holder, true).map(|()| false),
            (End::Doubt, OnLost::Reconcile) => self.renew(holder, 0).map(|_| false),
            (End::Doubt, OnLost::Hold) => self.complete(holder, FinishKind::Unknown),
            (End::Failed, _) => self.complete(holder, FinishKind::Failed),
            (End::Done | End::None, _) => self.complete(holder, FinishKind::Done),
        }
    }

    fn complete(&mut self, holder: u8, kind: FinishKind) -> Judged<bool> {
        let fence = self.world.holders[usize::from(holder)].fence;
        let permit = (store::token(holder), store::fence(fence));
        let unknown = kind == FinishKind::Unknown;
        let finish = self.ended(kind, (!unknown).then_some(holder));
        let alive = self.world.truth.is_alive(holder, fence);
        match (self.rules.complete)(self.record().as_ref(), permit, &finish, NOW) {
            Settle::Write(next) => {
                demand(alive, Broken::SupersededWrite)?;
                self.write(&next);
                self.ends(unknown, holder);
                Ok(!unknown)
            }
            Settle::Already => {
                let end = if unknown { End::Doubt } else { End::Done };
                let own = properties::is_own_end(&self.world, holder, end);
                let own = own && self.world.truth.fence == fence;
                demand(own, Broken::Untruthful("already ended"))?;
                Ok(self.world.truth.standing == Standing::Ended)
            }
            Settle::Stale => {
                let remembered = self.world.truth.is_remembered();
                let own = properties::is_own_end(&self.world, holder, End::Done) && remembered;
                let stale = !(alive || own && self.world.truth.fence == fence);
                demand(stale, Broken::Untruthful("stale end"))?;
                let tells = !unknown && properties::acted(&self.world, holder);
                demand(!tells || self.rules.store.keeps_conflicts, Broken::Unreported)?;
                Ok(false)
            }
        }
    }

    fn ended(&self, kind: FinishKind, by: Option<u8>) -> Finish {
        Finish {
            kind,
            outcome: by.map(store::outcome),
            reason: None,
            replay_for: store::span(self.bounds.replay_for),
            remember_for: store::span(self.bounds.remember_for),
        }
    }

    fn ends(&mut self, unknown: bool, by: u8) {
        let truth = &mut self.world.truth;
        truth.standing = if unknown { Standing::Doubted } else { Standing::Ended };
        if !unknown {
            truth.kept = Some(by);
            truth.replay_until = Ticks::try_from(self.bounds.replay_for).unwrap();
            truth.remember_until = Ticks::try_from(self.bounds.remember_for).unwrap();
        }
    }

    fn release_by_permit(&mut self, holder: u8, compare: bool) -> Judged {
        let fence = self.world.holders[usize::from(holder)].fence;
        let settled = self.release(holder, Some(fence), compare)?;
        let alive = self.world.truth.is_alive(holder, fence);
        self.released(holder, &settled, alive, compare)
    }

    /// A release by token arrives; returns whether anything but "not held" was answered.
    pub fn give_back(&mut self, holder: u8) -> Judged<bool> {
        let settled = self.release(holder, None, false)?;
        let alive = self.world.truth.is_alive(holder, self.world.truth.fence);
        self.released(holder, &settled, alive, false)?;
        Ok(settled != Settle::Stale)
    }

    fn release(&mut self, token: u8, fence: Option<u8>, compare: bool) -> Judged<Settle> {
        let ask = ReleaseAsk {
            token: store::token(token),
            fence: fence.map(store::fence),
            compare,
            reason: None,
            remember_for: store::span(self.bounds.remember_for),
        };
        Ok((self.rules.release)(self.record().as_ref(), &ask, NOW))
    }

    fn released(&mut self, holder: u8, settled: &Settle, alive: bool, compare: bool) -> Judged {
        match settled {
            Settle::Write(next) => {
                demand(alive, Broken::SupersededWrite)?;
                // After a take-over some run may have had an effect, whatever the last one says.
                let taken_over = self.world.record.is_some_and(|record| record.taken_over);
                let before = self.world.record.is_some_and(|record| record.compare);
                self.write(next);
                self.frees(compare || taken_over || before);
                Ok(())
            }
            Settle::Already => {
                let own = properties::is_own_end(&self.world, holder, End::Clean);
                demand(own, Broken::Untruthful("already released"))
            }
            Settle::Stale => {
                let fence = self.world.holders[usize::from(holder)].fence;
                let own = properties::is_own_end(&self.world, holder, End::Clean)
                    && fence == self.world.truth.fence;
                demand(!alive && !own, Broken::Untruthful("not held"))
            }
        }
    }

    fn frees(&mut self, compare: bool) {
        let truth = &mut self.world.truth;
        truth.standing = Standing::Free { compare };
        truth.remember_until = Ticks::try_from(self.bounds.remember_for).unwrap();
    }

    fn look(&mut self, verdict: Said) {
        let Some(Kept { token, fence, .. }) = self.world.record else { return };
        self.world.resolutions += 1;
        let id = self.world.resolutions;
        self.world.operator = Operator::Tells { id, token, fence, verdict };
    }

    /// Looks and tells in one moment.
    fn hasten(&mut self) -> Judged {
        self.look(Said::NotDone);
        self.resolve(true)
    }

    /// Tells "not done" although that may not be so: what follows is excused, and in the audit.
    fn force(&mut self) -> Judged {
        self.world.truth.forced = true;
        self.look(Said::NotDone);
        self.resolve(true)
    }

    fn resolve(&mut self, heard: bool) -> Judged {
        let Operator::Tells { id, token, fence, verdict } = self.world.operator else {
            return Ok(());
        };
        if heard {
            self.world.operator = Operator::Idle;
        } else {
            self.lose_one();
        }
        let verdict = match verdict {
            Said::Done => Verdict::Done(store::outcome(BY_OPERATOR)),
            Said::NotDone => Verdict::NotDone { new_incarnation: false },
            Said::NotDoneAnew => Verdict::NotDone { new_incarnation: true },
            Said::Release => return self.operator_releases(token, fence),
        };
        let done = matches!(verdict, Verdict::Done(_));
        let ask = ResolveAsk {
            resolve_id: [id; 16],
            token: store::token(token),
            fence: store::fence(fence),
            verdict,
            settle_for: store::span(self.bounds.settle),
            force: self.world.truth.forced,
            replay_for: store::span(self.bounds.replay_for),
            remember_for: store::span(self.bounds.remember_for),
        };
        let decision = (self.rules.resolve)(self.record().as_ref(), &ask, NOW);
        self.resolved(id, (token, fence), done, &decision)
    }

    fn resolved(&mut self, id: u8, seen: (u8, u8), done: bool, met: &ResolveDecision) -> Judged {
        let truth = self.world.truth;
        let as_seen = truth.standing == Standing::Doubted && truth.is_alive(seen.0, seen.1);
        let ended = matches!(truth.standing, Standing::Ended | Standing::Free { .. });
        let stored = truth.resolved_by == id && ended && truth.is_remembered();
        let says = |holds: bool, answer| demand(holds, Broken::Untruthful(answer));
        match met {
            ResolveDecision::Write(next) => {
                demand(as_seen, Broken::SupersededWrite)?;
                self.write(next);
                self.world.truth.resolved_by = id;
                if done {
                    self.ends(false, BY_OPERATOR);
                } else {
                    let incarnation = u8::try_from(next.incarnation).unwrap();
                    // An operator who changes the derived keys says so in the audit.
                    self.frees(true);
                    self.world.truth.incarnation = incarnation;
                }
                Ok(())
            }
            ResolveDecision::Already => says(truth.resolved_by == id, "already resolved"),
            ResolveDecision::Changed(_) => says(!as_seen && !stored, "changed"),
            ResolveDecision::Absent => says(!truth.is_remembered(), "absent"),
            ResolveDecision::TooEarly(_) => says(as_seen && !done, "too early"),
        }
    }

    fn operator_releases(&mut self, token: u8, fence: u8) -> Judged {
        let settled = self.release(token, Some(fence), true)?;
        let alive = self.world.truth.is_alive(token, fence);
        match settled {
            Settle::Write(next) => {
                demand(alive, Broken::SupersededWrite)?;
                self.write(&next);
                self.frees(true);
                Ok(())
            }
            Settle::Already | Settle::Stale => demand(!alive, Broken::Untruthful("not held")),
        }
    }

    /// Makes a lost holder unknown by a claim that is never granted.
    fn lapse(&mut self) -> Judged {
        let Some(record) = self.record() else { return Ok(()) };
        let content = self.world.truth.content;
        let ask = self.ask(STRANGER, content, 0, OnLost::Hold);
        let decision = (self.rules.claim)(Some(&record), &ask, NOW);
        if let Decision::Lose(_) = decision {
            let over = self.world.truth.lease_left <= 0;
            demand(over, Broken::SecondHolder)?;
            self.write(&decide::lose(&record, NOW));
            self.world.truth.standing = Standing::Doubted;
        }
        Ok(())
    }

    fn sweep(&mut self) -> Judged {
        let Some(record) = self.record() else { return Ok(()) };
        match (self.rules.sweep)(&record, NOW) {
            decide::Sweep::Keep => {}
            decide::Sweep::Forget => {
                let mut next = record;
                next.outcome = None;
                self.write(&next);
                // What was dropped is over, whatever a clock that falls back says.
                self.world.truth.replay_until = Ticks::MIN / 2;
            }
            decide::Sweep::Delete => {
                demand(!self.world.truth.is_remembered(), Broken::RetentionCut)?;
                if self.rules.store.raises_floor {
                    self.world.floor = self.world.floor.max(store::number(record.fence));
                }
                self.world.record = None;
                self.world.since_write = 0;
                let truth = &mut self.world.truth;
                truth.standing = Standing::Nothing;
                truth.owner = NOBODY;
                (truth.content, truth.incarnation, truth.resolved_by, truth.fence) = (0, 0, 0, 0);
                (truth.told, truth.kept) = (None, None);
            }
        }
        Ok(())
    }

    /// The store is opened again; what was on its way to it is gone.
    fn restart(&mut self, back: Ticks) {
        for holder in &mut self.world.holders {
            (holder.flying, holder.late, holder.echo) = (false, false, false);
        }
        self.world.restarts += 1;
        self.world.shift(back);
        self.world.since_write = 0;
        if self.world.truth.standing == Standing::Held {
            self.world.truth.busy_left = self.bounds.lease;
            self.world.truth.fell_back = back > 0 && self.bounds.clock == Clock::Server;
        }
    }

    /// Says whether a release by token is the last word.
    pub fn is_definite(&self, holder: u8, held: bool) -> bool {
        let at = &self.world.holders[usize::from(holder)];
        let past = at.not_after < 0;
        match (self.rules.engine.given_back, at.sent) {
            (GivenBack::AtOnce, _) => true,
            (GivenBack::OneCopy | GivenBack::PastNotAfter, 0) => true,
            (GivenBack::OneCopy, _) | (GivenBack::PastNotAfter, 1) => held || past,
            (GivenBack::PastNotAfter, _) => past,
        }
    }

    pub fn stage(&mut self, holder: u8, stage: Stage) {
        self.world.holders[usize::from(holder)].stage = stage;
    }

    /// Says whether a fate counts among the lost answers.
    pub fn meets(&mut self, fate: Fate) {
        if fate != Fate::Heard {
            self.lose_one();
        }
    }
}
