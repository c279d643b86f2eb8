//! What may happen next.

use std::fmt;

use semel::State;

use super::{
    bounds::{Bounds, Clock},
    rules::{Gives, Rules, StoreAway},
    store::{self, NOW},
    world::{Effect, End, Operator, Said, Stage, Ticks, World},
};

/// One thing that happens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// A caller stops waiting for its claim, and gives back by token what it may hold.
    Abandon(u8),
    Ask {
        holder: u8,
        content: u8,
    },
    /// The claim that was sent last arrives, and its answer is heard or lost.
    Claim {
        holder: u8,
        heard: bool,
    },
    /// A claim that is no longer waited for arrives.
    ClaimLate(u8),
    /// A holder that has not begun goes away.
    Drop(u8),
    /// An end that is no longer waited for arrives.
    EndLate(u8),
    Finish {
        holder: u8,
        end: End,
        fate: Fate,
    },
    /// A release by token arrives.
    GiveBack {
        holder: u8,
        heard: bool,
    },
    /// A holder stops trying to store its end.
    GiveUp(u8),
    /// An operator says "not done" by force, whatever may still be on its way.
    Force,
    /// An operator tells "not done" at once, whether or not that is too early.
    Hasten,
    Land(u8),
    /// An operator gives up a lost holder.
    Lapse,
    /// An operator looks, and sends what it found.
    Look(Said),
    /// A holder reads the answer to its renewal, and sends its effect if that is not too late.
    Read(u8),
    Renew {
        holder: u8,
        heard: bool,
    },
    Resend(u8),
    /// What an operator sent arrives, and the answer is heard or lost.
    Resolve {
        heard: bool,
    },
    /// The store is opened again, or a standby promoted; its time falls back by so many ticks.
    Restart(Ticks),
    /// A caller whose claim is not answered runs all the same.
    RunAnyway(u8),
    /// A holder sends its effect; past its deadline it renews first, and that is answered or not.
    Start {
        holder: u8,
        answered: bool,
    },
    Sweep,
    Tick,
}

/// What becomes of the end of a run when it is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It arrives, and its answer is lost.
    AnswerLost,
    /// It arrives, and its answer is heard.
    Heard,
    /// It is held up, and no longer waited for.
    HeldUp,
}

/// Lists what may happen in a world.
pub fn steps(world: &World, rules: &Rules, bounds: &Bounds, into: &mut Vec<Step>) {
    into.clear();
    let mut asked = 0;
    let mut idle = None;
    for (holder, at) in (0..).zip(&world.holders) {
        if at.stage == Stage::Idle {
            idle = idle.or(Some(holder));
        } else {
            asked += 1;
            of_holder(world, holder, rules, bounds, into);
        }
    }
    // Those who have not asked yet are all alike.
    if let Some(holder) = idle.filter(|_| asked < bounds.holders) {
        // Contents are told apart by nothing but who asked first.
        let contents = if asked == 0 { 1 } else { bounds.contents };
        into.extend((0..contents).map(|content| Step::Ask { holder, content }));
    }
    of_operator(world, rules, bounds, into);
    into.push(Step::Tick);
    if bounds.sweeps && world.record.is_some_and(|record| sweeps(&record, rules)) {
        into.push(Step::Sweep);
    }
    if world.restarts < bounds.restarts {
        let written = rules.store.persists_time && bounds.clock == Clock::Persisted;
        let most = if written { world.since_write } else { bounds.jump_max };
        into.extend((0..=most).map(Step::Restart));
    }
}

fn sweeps(record: &super::world::Kept, rules: &Rules) -> bool {
    (rules.sweep)(&store::record(record), NOW) != semel::decide::Sweep::Keep
}

fn of_holder(world: &World, holder: u8, rules: &Rules, bounds: &Bounds, into: &mut Vec<Step>) {
    let may_lose = world.lost < bounds.lost;
    let at = &world.holders[usize::from(holder)];
    match at.stage {
        Stage::Asking => {
            into.push(Step::Abandon(holder));
            if at.sent < 2 && (may_lose || !at.flying) {
                into.push(Step::Resend(holder));
            }
            if rules.engine.store_away == StoreAway::Run {
                into.push(Step::RunAnyway(holder));
            }
        }
        Stage::Holding => of_waiting(world, holder, bounds, into),
        Stage::Renewed => into.extend([Step::Drop(holder), Step::Read(holder)]),
        Stage::Started => of_started(world, holder, bounds, into),
        Stage::Ending => {
            into.push(Step::GiveUp(holder));
            ends(holder, at.end, may_lose, into);
        }
        Stage::Abandoning => {
            into.push(Step::GiveBack { holder, heard: true });
            if may_lose {
                into.push(Step::GiveBack { holder, heard: false });
            }
        }
        Stage::Gone | Stage::Idle | Stage::Over => {}
    }
    let waits = at.stage == Stage::Asking;
    if at.flying && waits {
        into.push(Step::Claim { holder, heard: true });
        if may_lose {
            into.push(Step::Claim { holder, heard: false });
        }
    }
    if at.late || at.flying && !waits {
        into.push(Step::ClaimLate(holder));
    }
    if at.echo {
        into.push(Step::EndLate(holder));
    }
    if matches!(at.effect, Effect::Flying(_)) {
        into.push(Step::Land(holder));
    }
}

fn of_waiting(world: &World, holder: u8, bounds: &Bounds, into: &mut Vec<Step>) {
    let may_lose = world.lost < bounds.lost;
    let at = &world.holders[usize::from(holder)];
    into.push(Step::Drop(holder));
    ends(holder, End::Clean, may_lose, into);
    ends(holder, End::Failed, may_lose, into);
    let found = at.asks_first.is_some() && world.landed() > 0;
    if found {
        ends(holder, End::Done, may_lose, into);
    }
    if !found && at.asks_first.unwrap_or(0) == 0 {
        into.push(Step::Start { holder, answered: true });
        if at.deadline <= 0 && may_lose {
            into.push(Step::Start { holder, answered: false });
        }
    }
    renewals(holder, may_lose, into);
}

fn of_started(world: &World, holder: u8, bounds: &Bounds, into: &mut Vec<Step>) {
    let may_lose = world.lost < bounds.lost;
    let at = &world.holders[usize::from(holder)];
    // Who runs without a permit has nothing to end.
    if at.fence == 0 {
        return;
    }
    if at.effect == Effect::Landed {
        ends(holder, End::Done, may_lose, into);
    }
    ends(holder, End::Doubt, may_lose, into);
    renewals(holder, may_lose, into);
}

fn renewals(holder: u8, may_lose: bool, into: &mut Vec<Step>) {
    into.push(Step::Renew { holder, heard: true });
    if may_lose {
        into.push(Step::Renew { holder, heard: false });
    }
}

fn ends(holder: u8, end: End, may_lose: bool, into: &mut Vec<Step>) {
    into.push(Step::Finish { holder, end, fate: Fate::Heard });
    if may_lose {
        into.push(Step::Finish { holder, end, fate: Fate::AnswerLost });
        into.push(Step::Finish { holder, end, fate: Fate::HeldUp });
    }
}

fn of_operator(world: &World, rules: &Rules, bounds: &Bounds, into: &mut Vec<Step>) {
    let may_lose = world.lost < bounds.lost;
    if let Operator::Tells { .. } = world.operator {
        into.push(Step::Resolve { heard: true });
        if may_lose {
            into.push(Step::Resolve { heard: false });
        }
    }
    let Some(record) = world.record else { return };
    let lapsed = record.state == State::Running && store::is_listed(&record);
    if lapsed {
        into.push(Step::Lapse);
    }
    if world.operator != Operator::Idle || world.resolutions == bounds.resolutions {
        return;
    }
    let settle = Ticks::try_from(bounds.settle).unwrap();
    let length = Ticks::try_from(record.length).unwrap();
    let settled = record.renewed + length + settle <= 0;
    let gives = lapsed && rules.engine.operator == Gives::Running;
    match (record.state, world.landed() > 0) {
        (State::Unknown, true) => into.push(Step::Look(Said::Done)),
        (State::Unknown, false) => {
            into.push(Step::Hasten);
            if bounds.forces {
                into.push(Step::Force);
            }
            if settled {
                into.extend([Said::NotDone, Said::NotDoneAnew, Said::Release].map(Step::Look));
            }
        }
        (State::Running, false) if gives && settled => into.push(Step::Look(Said::Release)),
        _ => {}
    }
}

impl Step {
    /// The same step of the holders by other names.
    pub fn renamed(self, names: &[u8]) -> Self {
        let to = |holder: u8| names[usize::from(holder)];
        match self {
            Self::Abandon(holder) => Self::Abandon(to(holder)),
            Self::Ask { holder, content } => Self::Ask { holder: to(holder), content },
            Self::Claim { holder, heard } => Self::Claim { holder: to(holder), heard },
            Self::ClaimLate(holder) => Self::ClaimLate(to(holder)),
            Self::Drop(holder) => Self::Drop(to(holder)),
            Self::EndLate(holder) => Self::EndLate(to(holder)),
            Self::Finish { holder, end, fate } => Self::Finish { holder: to(holder), end, fate },
            Self::GiveBack { holder, heard } => Self::GiveBack { holder: to(holder), heard },
            Self::GiveUp(holder) => Self::GiveUp(to(holder)),
            Self::Land(holder) => Self::Land(to(holder)),
            Self::Read(holder) => Self::Read(to(holder)),
            Self::Renew { holder, heard } => Self::Renew { holder: to(holder), heard },
            Self::Resend(holder) => Self::Resend(to(holder)),
            Self::RunAnyway(holder) => Self::RunAnyway(to(holder)),
            Self::Start { holder, answered } => Self::Start { holder: to(holder), answered },
            Self::Force
            | Self::Hasten
            | Self::Lapse
            | Self::Look(_)
            | Self::Resolve { .. }
            | Self::Restart(_)
            | Self::Sweep
            | Self::Tick => self,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |holder: &u8| char::from(b'A' + holder);
        let lost = |heard: &bool| if *heard { "" } else { "; the answer is lost" };
        match self {
            Self::Abandon(h) => write!(f, "{} stops waiting, and gives back by token", name(h)),
            Self::Ask { holder: h, content } => write!(f, "{} asks for content {content}", name(h)),
            Self::Claim { holder: h, heard } => {
                write!(f, "the claim of {} arrives{}", name(h), lost(heard))
            }
            Self::ClaimLate(h) => write!(f, "a late copy of the claim of {} arrives", name(h)),
            Self::Drop(h) => write!(f, "{} goes away before it began", name(h)),
            Self::EndLate(h) => write!(f, "a late copy of the end of {} arrives", name(h)),
            Self::Finish { holder: h, end, fate } => {
                let fate = match fate {
                    Fate::AnswerLost => "; the answer is lost",
                    Fate::Heard => "",
                    Fate::HeldUp => "; it is held up",
                };
                write!(f, "{} ends as {end:?}{fate}", name(h))
            }
            Self::GiveBack { holder: h, heard } => {
                write!(f, "{} is released by token{}", name(h), lost(heard))
            }
            Self::GiveUp(h) => write!(f, "{} stops trying to store its end", name(h)),
            Self::Force => f.write_str("an operator says not done by force"),
            Self::Hasten => f.write_str("an operator sees no effect, and says not done at once"),
            Self::Land(h) => write!(f, "the effect of {} happens", name(h)),
            Self::Lapse => f.write_str("an operator gives up the lost holder"),
            Self::Look(said) => write!(f, "an operator looks, and sends: {said}"),
            Self::Read(h) => write!(f, "{} reads the answer to its renewal", name(h)),
            Self::Renew { holder: h, heard } => write!(f, "{} renews{}", name(h), lost(heard)),
            Self::Resend(h) => write!(f, "{} hears no answer, and asks again", name(h)),
            Self::Resolve { heard } => write!(f, "what the operator sent arrives{}", lost(heard)),
            Self::Restart(back) => {
                write!(f, "the store is restarted, and its time falls back by {back}")
            }
            Self::RunAnyway(h) => write!(f, "{} hears no answer, and runs all the same", name(h)),
            Self::Start { holder: h, answered: true } => {
                write!(f, "{} sends its effect, or renews first if it is late", name(h))
            }
            Self::Start { holder: h, answered: false } => {
                write!(f, "{} renews before its effect; the answer is lost", name(h))
            }
            Self::Sweep => f.write_str("the sweep comes"),
            Self::Tick => f.write_str("time passes"),
        }
    }
}
