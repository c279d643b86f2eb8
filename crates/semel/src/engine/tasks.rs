//! The one door by which an engine starts tasks.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

/// Says when tasks go on, for a simulation that plays every order. In production the runtime says it.
pub trait Turns: fmt::Debug + Send + Sync + 'static {
    /// Returns the turn of a new task.
    fn task(&self) -> Box<dyn Turn>;
}

/// The turn of one task.
pub trait Turn: Send + 'static {
    /// Is ready when the task goes on now; it is asked before each step of the task.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// Tasks that are waited for when their owner ends. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tasks {
    tracker: TaskTracker,
    turns: Option<Arc<dyn Turns>>,
}

impl Tasks {
    /// Starts tasks on `tracker`; `turns` says when each goes on, or nobody but the runtime does.
    #[must_use]
    pub const fn new(tracker: TaskTracker, turns: Option<Arc<dyn Turns>>) -> Self {
        Self { tracker, turns }
    }

    /// Starts a task.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        match &self.turns {
            None => self.tracker.spawn(task),
            Some(turns) => self.tracker.spawn(Paced { turn: turns.task(), task: Box::pin(task) }),
        }
    }

    /// Waits until every task has ended.
    pub(crate) async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

impl From<TaskTracker> for Tasks {
    fn from(tracker: TaskTracker) -> Self {
        Self::new(tracker, None)
    }
}

struct Paced<F> {
    turn: Box<dyn Turn>,
    task: Pin<Box<F>>,
}

impl<F: Future> Future for Paced<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        ready!(self.turn.poll_turn(cx));
        self.task.as_mut().poll(cx)
    }
}
