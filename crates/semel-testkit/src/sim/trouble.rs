//! What happens to processes and to the store while others work.

use std::{sync::Arc, time::Duration};

use super::world::World;

/// How often something happens in one world.
const TROUBLES_MAX: usize = 40;

/// Makes trouble until the world is calm.
pub(super) async fn trouble(world: Arc<World>) {
    let chance = world.chance.clone();
    world.weather.turns(world.plan.faults, world.plan.slowness);
    for _ in 0..TROUBLES_MAX {
        world.time.passes(chance.span(world.plan.trouble_every * 2)).await;
        if world.is_calm() {
            return;
        }
        happens(&world);
    }
}

fn happens(world: &Arc<World>) {
    let chance = &world.chance;
    let lease = world.plan.policy.lease;
    match chance.below(10) {
        0..4 => {
            let span = chance.span(chance.pick(&[lease, lease * 6, lease * 40]));
            let slot = world.any_slot();
            let frozen = Arc::clone(world);
            world.outside(async move { frozen.freeze(slot, span).await });
        }
        4 => world.kill(world.any_slot()),
        5 => {
            let span = chance.span(Duration::from_secs(20));
            world.trace.note("store away", &format_args!("for {span:?}"));
            world.server.goes_away(span);
        }
        6 if world.plan.jumps => {
            // Past some leases, and past what is replayed for a short time only.
            world.jump(chance.pick(&[chance.span(lease * 2), Duration::from_secs(60)]));
        }
        7 if world.plan.jumps => {
            world.trace.note("store's clock turned back", &"");
            world.server.turns_back();
        }
        8 => {
            world.trace.note("weather turns", &"");
            let faults = if chance.one_in(2) { world.plan.faults } else { 0 };
            world.weather.turns(faults, world.plan.slowness);
        }
        _ => {}
    }
}

/// Ends all trouble: what is frozen goes on, what was on its way arrives.
pub(super) async fn heal(world: &Arc<World>) {
    world.calm();
    world.weather.clears();
    world.server.goes_away(Duration::ZERO);
    for process in world.processes() {
        world.schedule.thaw(process.machine);
    }
    world.time.passes(world.plan.policy.lease * 3 + Duration::from_secs(120)).await;
}
