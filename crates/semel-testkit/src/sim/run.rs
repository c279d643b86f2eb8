//! Playing one world to its end, and judging it.

use std::{sync::Arc, time::Duration};

use semel::{Begun, Call, IntentId, Timestamp};

use super::{
    caller::call,
    chance::Chance,
    handler::{outcome, told},
    operator::{self, Operator},
    plan::Plan,
    schedule::Gathered,
    server::Lie,
    time::Time,
    trace::Tally,
    trouble::{heal, trouble},
    world::{Process, World},
};
use crate::history::{Broken, Said, Told};

/// How many steps a world may take, and how long it may last.
const STEPS_MAX: u64 = 1_000_000;
const LASTS_MAX: Duration = Duration::from_secs(86_400);

/// How one world went.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Simulated {
    /// The seed that plays it again.
    pub seed: u64,
    /// A digest of every step and its instant.
    pub digest: u64,
    /// How many steps it took.
    pub steps: u64,
    /// How often each thing happened.
    pub tally: Tally,
    /// What was broken, in order.
    pub broken: Vec<String>,
    /// What happened, line by line, if that was asked for.
    pub lines: String,
}

/// Plays the world of a seed.
#[must_use]
pub fn simulate(seed: u64, lie: Lie) -> Simulated {
    play(seed, lie, false)
}

/// Plays the world of a seed once more, and writes down what happens.
#[must_use]
pub fn written(seed: u64, lie: Lie) -> Simulated {
    play(seed, lie, true)
}

fn play(seed: u64, lie: Lie, written: bool) -> Simulated {
    let chance = Chance::new(seed);
    let plan = Plan::draw(&chance, lie);
    // Without drivers for time and sockets nothing comes from outside.
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime of one thread");
    let (world, steps, ends) = runtime.block_on(async {
        let world = World::new(plan, chance, written);
        world.trace.note("world", &format_args!("{:?}", world.plan));
        let (steps, ends) = drive(&world).await;
        (world, steps, ends)
    });
    world.end();
    let mut broken = world.faults();
    broken.extend(world.history.broken().iter().map(Broken::to_string));
    if !ends {
        broken.push("the world never comes to an end".to_owned());
    }
    let mut tally = world.trace.tally();
    for engine in world.engines() {
        engine.stats().named().into_iter().for_each(|(name, times)| tally.add(name, times));
    }
    let digest = world.trace.digest();
    let lines = world.trace.lines();
    drop(runtime);
    Simulated { seed, digest, steps, tally, broken, lines }
}

/// Lets everybody go on in turn until the script has ended; whether it did.
async fn drive(world: &Arc<World>) -> (u64, bool) {
    let script = world.outside.spawn(script(Arc::clone(world)));
    let (mut steps, mut broken) = (0, 0);
    loop {
        Gathered::default().await;
        let breaks = world.history.broken_since(broken);
        breaks.iter().for_each(|breaks| world.trace.note("broken", breaks));
        broken += breaks.len();
        if script.is_finished() {
            let ended = script.await;
            ended.expect("the script itself does not fail");
            return (steps, true);
        }
        steps += 1;
        let stepped = world.schedule.step(&world.chance);
        match (stepped, world.time.next()) {
            (Some(task), _) => {
                world.trace.step(task);
                if world.chance.one_in(4) {
                    let jitter = Duration::from_nanos(world.chance.below(50_000));
                    world.time.advance_to(world.time.now() + jitter);
                }
            }
            (None, Some(next)) if next < Time::START + LASTS_MAX => world.time.advance_to(next),
            (None, _) => return (steps, false),
        }
        if steps > STEPS_MAX {
            return (steps, false);
        }
    }
}

async fn script(world: Arc<World>) {
    let callers: Vec<_> =
        (0..world.plan.callers).map(|_| world.outside.spawn(call(Arc::clone(&world)))).collect();
    world.outside(trouble(Arc::clone(&world)));
    world.outside(operator::watch(Arc::clone(&world)));
    for caller in callers {
        caller.await.expect("a caller does not fail");
    }
    heal(&world).await;
    let mut operator = Operator::default();
    for number in 0..world.plan.keys {
        let id = world.key(number);
        if !settles(&world, &mut operator, &id).await {
            world.history.stuck(&id);
        }
    }
    world.time.passes(world.plan.sweep_every * 2 + Duration::from_secs(60)).await;
    world.judges().await;
}

/// Asks until an intent has come to its end, as callers do for as long as it matters to them.
async fn settles(world: &Arc<World>, operator: &mut Operator, id: &IntentId) -> bool {
    for _ in 0..20 {
        let process = world.process(0);
        if asks_once_more(world, &process, id).await {
            return true;
        }
        operator.looks(world, id).await;
        world.time.passes(world.plan.policy.lease * 2 + Duration::from_secs(10)).await;
    }
    false
}

async fn asks_once_more(world: &Arc<World>, process: &Process, id: &IntentId) -> bool {
    let content = world.content_of(id).await;
    let ask = world.history.ask(id, world.terms(content), world.now());
    let fingerprint = World::fingerprint(content);
    let call = Call::new(id.clone(), fingerprint, world.plan.policy(&world.chance));
    match process.engine.begin(call).await {
        Ok(Begun::Replay(record)) => {
            let told = record.outcome.as_ref().map(Told::from);
            told.iter().for_each(|told| world.history.told(ask, told, world.now()));
            world.trace.note("settled: told", &id.key);
            true
        }
        Ok(Begun::Refused(refusal)) => {
            world.history.refused(ask, refusal.code(), world.now());
            world.trace.note("settled: refused", &refusal.code());
            refusal.code() == "forgotten"
        }
        Ok(Begun::Run(holder)) => {
            let by = world.server.granted_at(holder.permit().token);
            world.history.runs(ask, by, Timestamp::default());
            let found = holder.ask_first() && world.is_acted_on(id);
            if !found && holder.start().await.is_ok() {
                world.acts(ask, id, holder.permit().incarnation.into());
            }
            let told = told(if found { 200 } else { 201 }, ask.number());
            world.history.ends(ask, Said::Outcome(told.clone()), world.now());
            let ended = holder.complete(outcome(&told)).await;
            let stored = ended.is_ok();
            if stored {
                world.history.told(ask, &told, world.now());
            }
            world.trace.note("settled: ran", &id.key);
            stored
        }
        Err(_) => {
            world.history.left(ask, world.now());
            false
        }
    }
}
