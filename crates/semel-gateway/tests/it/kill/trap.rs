//! The moment at which the gateway dies.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use semel_testkit::SeededEntropy;
use tokio::sync::Notify;

/// Where a request is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// At the upstream, and nothing is done.
    Arrived,
    /// Its row is made, and nothing is answered.
    Made,
    /// The upstream has answered.
    Answered,
    /// The client has sent it.
    Sent,
    /// The client has got an answer.
    Told,
}

const PHASES: [Phase; 5] = [Phase::Arrived, Phase::Made, Phase::Answered, Phase::Sent, Phase::Told];

/// After how many requests a trap goes off at the latest.
const REQUESTS_MAX: u64 = 120;

/// When a trap goes off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) phase: Phase,
    /// The how manieth request springs it.
    pub(super) request: u64,
    /// Whether that request stands still until the gateway is dead.
    pub(super) held: bool,
    /// How long the gateway still lives.
    pub(super) jitter: Duration,
}

impl Plan {
    /// Draws a plan.
    pub(super) fn drawn(chance: &SeededEntropy) -> Self {
        let phase = PHASES[usize::try_from(chance.below(5)).unwrap()];
        Self {
            phase,
            request: 1 + chance.below(REQUESTS_MAX),
            held: chance.below(2) == 0,
            jitter: Duration::from_micros(chance.below(2_000)),
        }
    }
}

/// Watches all requests, and tells when the gateway has to die.
#[derive(Debug, Default)]
pub(super) struct Trap {
    plan: Mutex<Option<Plan>>,
    sprung: Notify,
    dead: Notify,
}

impl Trap {
    pub(super) fn set(&self, plan: Plan) {
        *self.plan.lock().unwrap() = Some(plan);
    }

    /// Waits until the trap has gone off and its jitter is over.
    pub(super) async fn sprung(&self, plan: &Plan) {
        self.sprung.notified().await;
        let until = Instant::now() + plan.jitter;
        while Instant::now() < until {
            tokio::task::yield_now().await;
        }
    }

    /// Lets the request go on that sprang it.
    pub(super) fn dead(&self) {
        // Whoever did not come to the trap in time passes from now on.
        *self.plan.lock().unwrap() = None;
        self.dead.notify_waiters();
    }

    /// A request passes.
    pub(super) async fn pass(&self, phase: Phase) {
        let dead = self.dead.notified();
        tokio::pin!(dead);
        if self.springs(phase, || {
            dead.as_mut().enable();
        }) {
            dead.await;
        }
    }

    /// Whether a request springs the trap and stands still.
    fn springs(&self, phase: Phase, listen: impl FnOnce()) -> bool {
        let mut set = self.plan.lock().unwrap();
        let Some(plan) = set.as_mut().filter(|plan| plan.phase == phase) else {
            return false;
        };
        plan.request -= 1;
        if plan.request > 0 {
            return false;
        }
        let held = plan.held;
        *set = None;
        listen();
        self.sprung.notify_one();
        held
    }
}
