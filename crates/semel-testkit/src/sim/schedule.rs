//! Who goes on next: drawn from the seed, among all tasks of all machines that could.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use semel::engine::{Tasks, Turn, Turns};
use tokio_util::task::TaskTracker;

use super::chance::Chance;

/// What a machine does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Health {
    /// None of its tasks goes on again, and none of them is dropped: as a process that is killed.
    Dead,
    /// None of its tasks goes on for a while.
    Frozen,
    Running,
}

/// The tasks that could go on.
#[derive(Debug)]
pub(super) struct Schedule {
    inner: Mutex<Inner>,
    order: Order,
}

/// How the next task is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// Any.
    Any,
    /// Nearly always the one that has waited longest.
    Oldest,
    /// Mostly the one that came last.
    Newest,
}

#[derive(Debug)]
struct Inner {
    machines: Vec<Health>,
    ready: Vec<Ready>,
    tasks: u64,
}

#[derive(Debug)]
struct Ready {
    task: u64,
    machine: usize,
    granted: Arc<AtomicBool>,
    waker: Waker,
}

impl Schedule {
    pub(super) fn new(order: Order) -> Arc<Self> {
        let inner = Inner { machines: Vec::new(), ready: Vec::new(), tasks: 0 };
        Arc::new(Self { inner: Mutex::new(inner), order })
    }

    /// Adds a machine, and returns its number.
    pub(super) fn machine(&self) -> usize {
        let mut inner = self.lock();
        inner.machines.push(Health::Running);
        inner.machines.len() - 1
    }

    pub(super) fn health(&self, machine: usize) -> Health {
        self.lock().machines[machine]
    }

    pub(super) fn set(&self, machine: usize, health: Health) {
        self.lock().machines[machine] = health;
    }

    /// Lets a machine go on if it is frozen; whether it was.
    pub(super) fn thaw(&self, machine: usize) -> bool {
        let is_frozen = self.health(machine) == Health::Frozen;
        if is_frozen {
            self.set(machine, Health::Running);
        }
        is_frozen
    }

    /// Returns the tasks of a machine, which go on when it is their turn.
    pub(super) fn tasks(self: &Arc<Self>, machine: usize) -> Tasks {
        Tasks::new(TaskTracker::new(), Some(self.turns(machine)))
    }

    pub(super) fn turns(self: &Arc<Self>, machine: usize) -> Arc<dyn Turns> {
        Arc::new(MachineTurns { schedule: Arc::clone(self), machine })
    }

    /// Lets one task go on, if any can; which.
    pub(super) fn step(&self, chance: &Chance) -> Option<u64> {
        let mut inner = self.lock();
        let runs = |ready: &Ready| inner.machines[ready.machine] == Health::Running;
        let able = inner.ready.iter().filter(|ready| runs(ready)).count();
        if able == 0 {
            return None;
        }
        let nth = match self.order {
            Order::Oldest if !chance.one_in(8) => 0,
            Order::Newest if !chance.one_in(3) => able - 1,
            _ => chance.index(able),
        };
        let mut able = inner.ready.iter().enumerate().filter(|(_, ready)| runs(ready));
        let (at, _) = able.nth(nth)?;
        let ready = inner.ready.remove(at);
        drop(inner);
        ready.granted.store(true, Ordering::Relaxed);
        ready.waker.wake();
        Some(ready.task)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct MachineTurns {
    schedule: Arc<Schedule>,
    machine: usize,
}

impl Turns for MachineTurns {
    fn task(&self) -> Box<dyn Turn> {
        let mut inner = self.schedule.lock();
        inner.tasks += 1;
        Box::new(TaskTurn {
            task: inner.tasks,
            machine: self.machine,
            schedule: Arc::clone(&self.schedule),
            granted: Arc::default(),
            waits: false,
        })
    }
}

struct TaskTurn {
    task: u64,
    machine: usize,
    schedule: Arc<Schedule>,
    granted: Arc<AtomicBool>,
    waits: bool,
}

impl Turn for TaskTurn {
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.granted.swap(false, Ordering::Relaxed) {
            self.waits = false;
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut self.waits, true) {
            let ready = Ready {
                task: self.task,
                machine: self.machine,
                granted: Arc::clone(&self.granted),
                waker: cx.waker().clone(),
            };
            self.schedule.lock().ready.push(ready);
        }
        Poll::Pending
    }
}

impl Drop for TaskTurn {
    fn drop(&mut self) {
        if self.waits {
            self.schedule.lock().ready.retain(|ready| ready.task != self.task);
        }
    }
}

impl fmt::Debug for TaskTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskTurn").field("task", &self.task).finish_non_exhaustive()
    }
}

/// Is ready once every task that was woken has come to the schedule.
#[derive(Debug, Default)]
pub(super) struct Gathered(bool);

impl Future for Gathered {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // A runtime of one thread polls all that were woken before it polls this again.
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
