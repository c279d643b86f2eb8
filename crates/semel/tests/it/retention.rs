//! Sweeping in the background.

use std::{
    future::pending,
    panic::resume_unwind,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use semel::{
    Policy, StoreError, StoreErrorKind,
    decide::OnLost,
    store::{
        capability::{Sweep, SweepBudget, Swept},
        memory::MemoryStore,
    },
};

use crate::world::{World, created, policy};

const EVERY: Duration = Duration::from_secs(60);
const BUDGET: SweepBudget = SweepBudget { records: 10 };

/// Counts steps, and fails the first ones if told to.
struct Counted {
    memory: Arc<MemoryStore>,
    failures: AtomicUsize,
    steps: Mutex<Vec<Swept>>,
}

impl Counted {
    fn new(world: &World, failures: usize) -> Arc<Self> {
        Arc::new(Self {
            memory: Arc::clone(&world.memory),
            failures: AtomicUsize::new(failures),
            steps: Mutex::default(),
        })
    }
}

#[async_trait]
impl Sweep for Counted {
    async fn sweep(&self, budget: SweepBudget) -> Result<Swept, StoreError> {
        let failing = |left: usize| left.checked_sub(1);
        if self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, failing).is_ok() {
            return Err(StoreError::new(StoreErrorKind::Busy, "not now"));
        }
        let step = self.memory.sweep(budget).await?;
        self.steps.lock().unwrap().push(step);
        Ok(step)
    }
}

async fn finish(world: &World, count: usize) {
    for n in 0..count {
        let holder = world.hold(&format!("k{n}"), policy(OnLost::Hold)).await;
        holder.complete(created()).await.unwrap();
    }
}

#[tokio::test]
async fn the_sweep_goes_in_bounded_steps_until_nothing_is_due() {
    let world = World::new();
    finish(&world, 35).await;
    let held = world.hold("held", policy(OnLost::Hold)).await;
    let sweep = Counted::new(&world, 0);
    world.engine.sweep_with(sweep.clone(), EVERY, BUDGET);
    world.clock.advance(Policy::default().remember_for);
    world.clock.run(EVERY + Duration::from_secs(1)).await;
    let steps = std::mem::take(&mut *sweep.steps.lock().unwrap());
    assert!(steps.iter().all(|step| step.deleted <= 10), "{steps:?}");
    assert_eq!(steps.iter().map(|step| step.deleted).sum::<u64>(), 35);
    assert_eq!(world.engine.stats().swept, 35);
    assert!(steps.len() >= 4, "{steps:?}");
    assert!(world.record("held").await.is_some());
    drop(held);
    world.clock.run(EVERY * 3).await;
    assert_eq!(sweep.steps.lock().unwrap().len(), 3, "one step in each period when all is done");
    assert!(world.engine.close(EVERY).await, "the sweep ends with its engine");
}

#[tokio::test]
async fn a_sweep_that_fails_goes_on_later() {
    let world = World::new();
    finish(&world, 1).await;
    world.clock.advance(Policy::default().replay_for);
    let sweep = Counted::new(&world, 2);
    world.engine.sweep_with(sweep.clone(), EVERY, BUDGET);
    world.clock.run(EVERY * 3).await;
    assert_eq!(world.engine.stats().swept, 1);
}

/// A store whose first step never ends, and whose second panics.
struct Troubled {
    memory: Arc<MemoryStore>,
    steps: AtomicUsize,
}

#[async_trait]
impl Sweep for Troubled {
    async fn sweep(&self, budget: SweepBudget) -> Result<Swept, StoreError> {
        match self.steps.fetch_add(1, Ordering::Relaxed) {
            0 => pending().await,
            1 => resume_unwind(Box::new("the second step panics")),
            _ => self.memory.sweep(budget).await,
        }
    }
}

#[tokio::test]
async fn a_sweep_that_hangs_or_panics_goes_on_later() {
    let world = World::new();
    finish(&world, 1).await;
    world.clock.advance(Policy::default().replay_for);
    let sweep = Troubled { memory: Arc::clone(&world.memory), steps: AtomicUsize::new(0) };
    world.engine.sweep_with(Arc::new(sweep), EVERY, BUDGET);
    world.clock.run(EVERY * 6).await;
    assert_eq!(world.engine.stats().swept, 1);
}
