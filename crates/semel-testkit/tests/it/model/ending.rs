//! No key stays where it is for ever: from every world there is a fair way on by which somebody who asks
//! again and again gets a definite answer.

use std::collections::HashSet;

use semel::decide::{self, Compare, Decision, Refusal, ResolveAsk, ResolveDecision};

use super::{
    bounds::Bounds,
    properties::{Broken, demand},
    rules::Rules,
    store::{self, NOW},
    world::{Kept, World},
};

/// The records whose end is known.
#[derive(Debug, Default)]
pub struct Endings(HashSet<Kept>);

impl Endings {
    /// Lets everybody be still but one caller who asks at every tick, and an operator.
    pub fn check(&mut self, world: &World, rules: &Rules, bounds: &Bounds) -> Result<(), Broken> {
        let Some(record) = world.record.filter(|record| !self.0.contains(record)) else {
            return Ok(());
        };
        demand(ends(record, rules, bounds), Broken::Unreported)?;
        self.0.insert(record);
        Ok(())
    }
}

fn ends(mut kept: Kept, rules: &Rules, bounds: &Bounds) -> bool {
    let patience = 2 * bounds.lease + i8::try_from(bounds.settle).unwrap() + bounds.jump_max + 2;
    for _ in 0..patience {
        match answer(&kept, rules, bounds) {
            Answer::Definite => return true,
            Answer::Later(next) => kept = next,
        }
        kept.renewed -= 1;
        let past = |at: i8| if at == i8::MAX { at } else { (at - 1).max(-100) };
        kept.replay_until = past(kept.replay_until);
        kept.remember_until = past(kept.remember_until);
    }
    false
}

enum Answer {
    Definite,
    Later(Kept),
}

fn answer(kept: &Kept, rules: &Rules, bounds: &Bounds) -> Answer {
    let record = store::record(kept);
    let ask = decide::Ask {
        id: store::id(),
        token: store::token(77),
        fingerprint: store::content(kept.content),
        older: Vec::new(),
        not_after: NOW,
        lease: store::span(1),
        on_lost: bounds.on_lost,
        compare: Compare::Strict,
        claimed_by: None,
    };
    match (rules.claim)(Some(&record), &ask, NOW) {
        Decision::Lose(_) => Answer::Later(store::kept(&decide::lose(&record, NOW))),
        Decision::RefuseAndRewind(_) => Answer::Later(store::kept(&(rules.rewind)(&record, NOW))),
        Decision::Refuse(Refusal::Unknown { .. }) => resolve(kept, rules, bounds),
        Decision::Refuse(Refusal::InProgress { .. }) | Decision::TooLate => Answer::Later(*kept),
        _ => Answer::Definite,
    }
}

fn resolve(kept: &Kept, rules: &Rules, bounds: &Bounds) -> Answer {
    let ask = ResolveAsk {
        resolve_id: [77; 16],
        token: store::token(kept.token),
        fence: store::fence(kept.fence),
        verdict: decide::Verdict::NotDone { new_incarnation: false },
        settle_for: store::span(bounds.settle),
        force: false,
        replay_for: store::span(bounds.replay_for),
        remember_for: store::span(bounds.remember_for),
    };
    match (rules.resolve)(Some(&store::record(kept)), &ask, NOW) {
        ResolveDecision::Write(next) => Answer::Later(store::kept(&next)),
        _ => Answer::Later(*kept),
    }
}
