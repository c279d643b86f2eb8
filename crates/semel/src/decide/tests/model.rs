//! The decision as a model: every order in which three callers, a network that delays and repeats
//! claims, a clock and an honest operator can act, searched to the end.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use super::{FENCE, LEASE, NOW, OWN, REMEMBER, REPLAY, by_plan, id};
use crate::{
    clock::Timestamp,
    decide::{
        self, Ask, Compare, Decision, Finish, FinishKind, OnLost, ReleaseAsk, ResolveAsk,
        ResolveDecision, Settle, Verdict,
    },
    outcome::Outcome,
    record::{Fence, Record, State, Token},
};

const CALLERS: u8 = 3;
const TICKS: u8 = 2;

/// The functions under test, so that a canary can break one.
#[derive(Clone, Copy)]
struct Rules {
    on_lost: OnLost,
    claim: fn(Option<&Record>, &Ask, Timestamp) -> Decision,
    complete: fn(Option<&Record>, Token, Fence, &Finish, Timestamp) -> Settle,
}

impl Rules {
    const fn right(on_lost: OnLost) -> Self {
        Self { on_lost, claim: decide::claim, complete: decide::complete }
    }
}

/// Where a caller stands. Each makes one claim, under a token of its own.
#[derive(Clone, Copy, Debug, Hash, PartialEq)]
enum Caller {
    Idle,
    /// Its claim is on its way, and may arrive now, later, or several times.
    Asked,
    Holds {
        fence: Fence,
        deadline: Timestamp,
    },
    Acted {
        fence: Fence,
    },
    /// It has gone away and gives back by token.
    Abandoning,
    /// Giving back was answered for certain.
    Gone,
    Over,
}

#[derive(Clone, Debug)]
struct World {
    record: Option<Record>,
    callers: [Caller; CALLERS as usize],
    asked_at: [Timestamp; CALLERS as usize],
    ticks: u8,
    effects: u8,
    /// Whose completion was acknowledged.
    acknowledged: Option<u8>,
    last_fence: Fence,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Abandon(u8),
    Act(u8),
    Ask(u8),
    Complete { caller: u8, answer_lost: bool },
    Deliver(u8),
    GiveBack(u8),
    Release(u8),
    Resolve,
    Tick,
}

fn token(caller: u8) -> Token {
    Token::from_bytes([caller + 1; 16])
}

fn end(caller: u8) -> Finish {
    Finish {
        kind: FinishKind::Done,
        outcome: Some(Outcome::new(u16::from(caller), "")),
        reason: None,
        replay_for: REPLAY * 100,
        remember_for: REMEMBER * 100,
    }
}

impl World {
    fn new() -> Self {
        Self {
            record: None,
            callers: [Caller::Idle; CALLERS as usize],
            asked_at: [NOW; CALLERS as usize],
            ticks: 0,
            effects: 0,
            acknowledged: None,
            last_fence: Fence::default(),
        }
    }

    /// A tick is a lease and a bit, so that a claim asked for before it is late after it.
    fn now(&self) -> Timestamp {
        NOW.after((LEASE + Duration::from_micros(1)) * u32::from(self.ticks))
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for caller in 0..CALLERS {
            let deliver = Step::Deliver(caller);
            let complete = |answer_lost| Step::Complete { caller, answer_lost };
            match self.callers[usize::from(caller)] {
                Caller::Idle => steps.push(Step::Ask(caller)),
                Caller::Asked => steps.extend([deliver, Step::Abandon(caller)]),
                Caller::Holds { .. } => steps.extend([
                    deliver,
                    Step::Abandon(caller),
                    Step::Act(caller),
                    Step::Release(caller),
                ]),
                Caller::Acted { .. } => steps.extend([deliver, complete(false), complete(true)]),
                Caller::Abandoning => steps.extend([deliver, Step::GiveBack(caller)]),
                Caller::Gone | Caller::Over => steps.push(deliver),
            }
        }
        if self.ticks < TICKS {
            steps.push(Step::Tick);
        }
        if matches!(&self.record, Some(record) if record.state == State::Unknown) {
            steps.push(Step::Resolve);
        }
        steps
    }

    fn take(&mut self, step: Step, rules: &Rules) {
        match step {
            Step::Abandon(caller) => self.set(caller, Caller::Abandoning),
            Step::Act(caller) => self.act(caller),
            Step::Ask(caller) => {
                self.asked_at[usize::from(caller)] = self.now();
                self.set(caller, Caller::Asked);
            }
            Step::Complete { caller, answer_lost } => self.complete(caller, answer_lost, rules),
            Step::Deliver(caller) => self.deliver(caller, rules),
            Step::GiveBack(caller) => {
                self.release(caller);
                // Copies of the claim may be on their way: the answer is definite past its instant.
                if self.now() > self.not_after(caller) {
                    self.set(caller, Caller::Gone);
                }
            }
            Step::Release(caller) => {
                self.release(caller);
                self.set(caller, Caller::Abandoning);
            }
            Step::Resolve => self.resolve(),
            Step::Tick => self.ticks += 1,
        }
    }

    fn set(&mut self, caller: u8, next: Caller) {
        self.callers[usize::from(caller)] = next;
    }

    fn not_after(&self, caller: u8) -> Timestamp {
        self.asked_at[usize::from(caller)].after(LEASE)
    }

    fn write(&mut self, settle: &Settle) {
        if let Settle::Write(next) = settle {
            self.record = Some((**next).clone());
        }
    }

    fn deliver(&mut self, caller: u8, rules: &Rules) {
        let ask = Ask {
            id: id(),
            token: token(caller),
            fingerprint: by_plan(1, 1),
            older: Vec::new(),
            not_after: self.not_after(caller),
            lease: LEASE,
            on_lost: rules.on_lost,
            compare: Compare::Strict,
            claimed_by: None,
        };
        let now = self.now();
        let seen = self.record.as_ref();
        let holds = match (rules.claim)(seen, &ask, now) {
            Decision::Grant(grant) => {
                let next = decide::grant(seen, &ask, grant, Fence::default(), now);
                assert!(next.fence > self.last_fence, "a fence did not grow");
                self.last_fence = next.fence;
                self.record = Some(next);
                true
            }
            Decision::Lose(_) => {
                self.record = seen.map(|record| decide::lose(record, now));
                false
            }
            Decision::Yours => true,
            _ => false,
        };
        if self.callers[usize::from(caller)] == Caller::Asked {
            let fence = self.record.as_ref().map(|record| record.fence).unwrap_or_default();
            let deadline = self.asked_at[usize::from(caller)].after(LEASE);
            let told = if holds { Caller::Holds { fence, deadline } } else { Caller::Abandoning };
            self.set(caller, told);
        }
    }

    /// Past its own deadline a holder renews before it acts.
    fn act(&mut self, caller: u8) {
        let Caller::Holds { fence, deadline } = self.callers[usize::from(caller)] else { return };
        let now = self.now();
        if now >= deadline {
            let renewed = decide::renew(self.record.as_ref(), token(caller), fence, LEASE, now);
            self.write(&renewed);
            if !matches!(renewed, Settle::Write(_)) {
                self.set(caller, Caller::Over);
                return;
            }
        }
        self.effects += 1;
        self.set(caller, Caller::Acted { fence });
    }

    fn complete(&mut self, caller: u8, answer_lost: bool, rules: &Rules) {
        let Caller::Acted { fence } = self.callers[usize::from(caller)] else { return };
        let (seen, now) = (self.record.as_ref(), self.now());
        let settle = (rules.complete)(seen, token(caller), fence, &end(caller), now);
        self.write(&settle);
        if !answer_lost {
            if settle != Settle::Stale {
                self.acknowledged = Some(caller);
            }
            self.set(caller, Caller::Over);
        }
    }

    fn release(&mut self, caller: u8) -> Settle {
        let ask = ReleaseAsk {
            token: token(caller),
            fence: None,
            compare: false,
            reason: None,
            remember_for: REMEMBER * 100,
        };
        let settle = decide::release(self.record.as_ref(), &ask, self.now());
        self.write(&settle);
        settle
    }

    /// An honest operator says what is true of the last holder at this moment.
    fn resolve(&mut self) {
        let Some(record) = self.record.clone() else { return };
        let holder = (0..CALLERS).find(|caller| token(*caller) == record.token);
        let acted = self.effects > 0;
        let verdict = match holder {
            Some(holder) if acted => Verdict::Done(Outcome::new(u16::from(holder), "")),
            _ => Verdict::NotDone { new_incarnation: false },
        };
        let ask = ResolveAsk {
            resolve_id: [9; 16],
            token: record.token,
            fence: record.fence,
            verdict,
            settle_for: Duration::ZERO,
            force: false,
            replay_for: REPLAY * 100,
            remember_for: REMEMBER * 100,
        };
        if let ResolveDecision::Write(next) = decide::resolve(Some(&record), &ask, self.now()) {
            self.record = Some(*next);
        }
    }

    /// Names what the world is but for the size of its fences, which grow for ever.
    fn key(&self) -> u64 {
        let last = self.record.as_ref().map(|record| record.fence);
        let callers = self.callers.map(|caller| match caller {
            Caller::Holds { fence, deadline } => {
                (Some(fence) == last, Caller::Holds { fence: FENCE, deadline })
            }
            Caller::Acted { fence } => (Some(fence) == last, Caller::Acted { fence: FENCE }),
            other => (false, other),
        });
        let record = self.record.as_ref().map(|r| {
            let kept = r.outcome.as_ref().map(|outcome| outcome.status);
            (r.state, r.token, r.lease.renewed_at, r.takeovers, r.compare, r.resolved_by, kept)
        });
        let mut hasher = DefaultHasher::new();
        (callers, record, self.asked_at, self.ticks, self.effects, self.acknowledged)
            .hash(&mut hasher);
        hasher.finish()
    }

    /// Says which promise is broken, if any.
    fn broken(&self, on_lost: OnLost) -> Option<&'static str> {
        let record = self.record.as_ref();
        let running = record.filter(|record| record.state == State::Running);
        let gone = |caller: u8| self.callers[usize::from(caller)] == Caller::Gone;
        let ghost =
            running.is_some_and(|record| (0..CALLERS).any(|c| gone(c) && token(c) == record.token));
        let kept = record.and_then(|record| record.outcome.as_ref()).map(|kept| kept.status);
        let lost = self.acknowledged.is_some_and(|caller| kept != Some(u16::from(caller)));
        [
            (on_lost == OnLost::Hold && self.effects > 1, "a second effect"),
            (ghost, "a claim that was given back holds the key"),
            (lost, "an acknowledged outcome is not what is kept"),
        ]
        .into_iter()
        .find_map(|(broken, what)| broken.then_some(what))
    }
}

/// Searches every order of steps; returns how many worlds there are, or the first way to a broken
/// promise.
fn search(rules: &Rules) -> Result<usize, (&'static str, Vec<Step>)> {
    let mut seen = HashSet::new();
    let mut open = vec![(World::new(), 0)];
    // How each world was reached: the step before, and where that one stands.
    let mut ways: Vec<(usize, Option<Step>)> = vec![(0, None)];
    while let Some((world, way)) = open.pop() {
        if !seen.insert(world.key()) {
            continue;
        }
        if let Some(what) = world.broken(rules.on_lost) {
            let steps = std::iter::successors(Some(way), |at| Some(ways[*at].0));
            let mut steps: Vec<_> = steps.map_while(|at| ways[at].1).collect();
            steps.reverse();
            return Err((what, steps));
        }
        for step in world.steps() {
            let mut next = world.clone();
            next.take(step, rules);
            ways.push((way, Some(step)));
            open.push((next, ways.len() - 1));
        }
    }
    Ok(seen.len())
}

#[test]
fn no_order_of_steps_breaks_a_promise() {
    for on_lost in [OnLost::Hold, OnLost::Rerun] {
        let worlds = search(&Rules::right(on_lost)).unwrap();
        assert!(worlds > 10_000, "only {worlds} worlds were searched under {on_lost:?}");
    }
}

#[test]
fn a_search_without_the_token_check_finds_the_lost_outcome() {
    let complete = |seen: Option<&Record>, _, _, finish: &Finish, now| {
        let (token, fence) = seen.map_or((OWN, FENCE), |r| (r.token, r.fence));
        decide::complete(seen, token, fence, finish, now)
    };
    let found = search(&Rules { complete, ..Rules::right(OnLost::Rerun) });
    assert_eq!(found.unwrap_err().0, "an acknowledged outcome is not what is kept");
}

#[test]
fn a_search_without_not_after_finds_the_ghost() {
    let claim = |seen: Option<&Record>, ask: &Ask, now| {
        decide::claim(seen, &Ask { not_after: Timestamp::MAX, ..ask.clone() }, now)
    };
    let found = search(&Rules { claim, ..Rules::right(OnLost::Hold) });
    assert_eq!(found.unwrap_err().0, "a claim that was given back holds the key");
}

#[test]
fn a_search_in_which_hold_takes_over_finds_the_second_effect() {
    let claim = |seen: Option<&Record>, ask: &Ask, now| {
        decide::claim(seen, &Ask { on_lost: OnLost::Rerun, ..ask.clone() }, now)
    };
    let found = search(&Rules { claim, ..Rules::right(OnLost::Hold) });
    assert_eq!(found.unwrap_err().0, "a second effect");
}
