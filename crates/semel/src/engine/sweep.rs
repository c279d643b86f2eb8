//! Retention in the background, in bounded steps.

use std::{sync::Arc, sync::atomic::Ordering, time::Duration};

use super::Engine;
use crate::store::capability::{Sweep, SweepBudget};

/// How long one step may take: one that hangs must not end the sweep for good.
const STEP: Duration = Duration::from_secs(60);

/// The pause between two steps while more is due, so that live work comes first.
const BETWEEN: Duration = Duration::from_millis(20);

pub(super) fn start(engine: &Engine, sweep: Arc<dyn Sweep>, every: Duration, budget: SweepBudget) {
    let swept = engine.clone();
    engine.inner.tasks.spawn(async move {
        let mut pause = every;
        loop {
            let until = swept.now().after(pause);
            tokio::select! {
                biased;
                () = swept.inner.closing.cancelled() => return,
                () = swept.inner.clock.sleep_until(until) => {}
            }
            let step = Arc::clone(&sweep);
            let until = swept.now().after(STEP);
            let stepped = swept.owned_until(until, async move { step.sweep(budget).await });
            pause = match stepped.await {
                Ok(step) => {
                    let touched = step.forgotten + step.deleted;
                    swept.inner.counters.swept.fetch_add(touched, Ordering::Relaxed);
                    if step.more { BETWEEN } else { every }
                }
                Err(error) => {
                    tracing::warn!(%error, "the sweep could not go on");
                    every
                }
            };
        }
    });
}
