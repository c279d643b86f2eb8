//! An honest operator: says "done" when the effect is there, and "not done" only when nobody can send it
//! any more.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use semel::{
    IntentId, Record, State, Token,
    decide::{Resolution, ResolveAsk, Verdict},
    store::Actor,
};

use super::{
    handler::{outcome, told},
    server::Lie,
    world::World,
};

/// What the operator has found out, and will say again until it is heard.
#[derive(Debug, Default)]
pub(super) struct Operator {
    doubts: BTreeMap<Token, Doubt>,
}

#[derive(Debug)]
struct Doubt {
    first_seen: Duration,
    resolution: Option<ResolveAsk>,
}

impl Operator {
    /// Looks at one intent, and ends a doubt if that can be done honestly.
    pub(super) async fn looks(&mut self, world: &Arc<World>, id: &IntentId) {
        let Some(record) = world.server.record(id).await else { return };
        if record.state != State::Unknown {
            return;
        }
        let now = world.time.now();
        let doubt =
            self.doubts.entry(record.token).or_insert(Doubt { first_seen: now, resolution: None });
        if doubt.resolution.is_none() {
            doubt.resolution = found_out(world, id, &record, now - doubt.first_seen);
        }
        let Some(ask) = doubt.resolution.clone() else { return };
        let actor = Actor { name: "ada".into(), note: "looked".into() };
        let engine = world.process(world.any_slot()).engine;
        let resolved = engine.resolve(id.clone(), ask.clone(), actor).await;
        let what = match (&resolved, &ask.verdict) {
            (Ok(Resolution::Stored | Resolution::Already), Verdict::NotDone { .. }) => {
                "resolved: not done"
            }
            (Ok(Resolution::Stored | Resolution::Already), _) => "resolved: done",
            (Ok(Resolution::TooEarly(_)), _) => "resolved: too early",
            (Ok(_), _) => "resolved: changed before",
            (Err(_), _) => "resolved: not heard",
        };
        world.trace.note(what, &id.key);
    }
}

/// Makes a resolution, if something can be said for certain.
fn found_out(
    world: &World,
    id: &IntentId,
    record: &Record,
    seen_for: Duration,
) -> Option<ResolveAsk> {
    let run = world.run_of(record.token);
    let acted = run.is_some_and(|run| world.has_acted(run));
    // From when it was first seen, no lease was renewed; whoever believed in one does so no more, and
    // what was sent has arrived.
    let policy = &world.plan.policy;
    let patience = policy.lease + policy.lease / 100 + world.plan.flight * 2;
    let guesses = matches!(world.plan.lie, Lie::OperatorGuesses);
    let resolve_id = world.chance.bytes();
    let verdict = if acted && !guesses {
        let number = usize::try_from(world.chance.below(u64::MAX)).unwrap_or_default();
        let told = told(200, number);
        world.history.resolves(id, run, Some(told.clone()), world.terms(0), world.now());
        Verdict::Done(outcome(&told))
    } else if guesses || seen_for > patience + Duration::from_millis(200) {
        world.history.resolves(id, run, None, world.terms(0), world.now());
        Verdict::NotDone { new_incarnation: world.chance.one_in(2) }
    } else {
        return None;
    };
    Some(ResolveAsk {
        resolve_id,
        token: record.token,
        fence: record.fence,
        verdict,
        settle_for: policy.settle_for,
        force: guesses,
        replay_for: policy.replay_for,
        remember_for: policy.remember_for,
    })
}

/// Looks at every intent now and then, until the world is calm.
pub(super) async fn watch(world: Arc<World>) {
    let mut operator = Operator::default();
    while !world.is_calm() {
        let lease = world.plan.policy.lease;
        world.time.passes(lease / 2 + world.chance.span(lease * 4)).await;
        for number in 0..world.plan.keys {
            operator.looks(&world, &world.key(number)).await;
        }
    }
}
