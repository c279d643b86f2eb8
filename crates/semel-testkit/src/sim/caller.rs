//! Callers, whom nobody kills: they ask, lose patience, and ask again.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::{handler::handle, world::World};

/// How long a caller waits for its handler.
const PATIENCE: Duration = Duration::from_secs(900);

/// Asks for one intent a few times.
pub(super) async fn call(world: Arc<World>) {
    let chance = world.chance.clone();
    let id = world.key(chance.index(world.plan.keys));
    for _ in 0..world.plan.asks {
        let lease = world.plan.policy.lease;
        let pause = chance.pick(&[Duration::ZERO, lease, lease * 6, Duration::from_secs(90)]);
        world.time.passes(chance.span(pause)).await;
        let process = world.process(world.any_slot());
        let content = if chance.one_in(4) { chance.below(world.plan.contents) } else { 0 };
        let handler = handle(Arc::clone(&world), process.clone(), id.clone(), content);
        let steps = (chance.below(100) < world.plan.cut).then(|| 1 + chance.below(60));
        let cut = Cut { future: Some(Box::pin(handler)), steps };
        let handled = process.tasks.spawn(cut);
        tokio::select! {
            biased;
            _ = handled => {}
            () = process.killed.cancelled() => {}
            () = world.time.passes(PATIENCE) => {}
        }
    }
}

/// Drops a future after a number of steps, wherever it stands.
struct Cut<F> {
    future: Option<Pin<Box<F>>>,
    steps: Option<u64>,
}

impl<F: Future<Output = ()>> Future for Cut<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.steps {
            Some(0) => self.future = None,
            Some(steps) => *steps -= 1,
            None => {}
        }
        match &mut self.future {
            Some(future) => future.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }
}
