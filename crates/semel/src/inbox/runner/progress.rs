//! How far a lane's task has come, so that whoever ends it knows what it leaves.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::inbox::{
    message::{Delivery, MessageId},
    source::{Receipt, Settlement},
};

/// Shared by a task and the loop.
#[derive(Debug, Default)]
pub(super) struct Progress(Mutex<Done>);

/// What a task has done.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// What is to be settled.
    pub(super) settlements: Vec<(Receipt, Settlement)>,
    /// What it has not come to the end of.
    pub(super) left: Vec<Receipt>,
    /// Messages of which an attempt is counted that has not come to its end.
    pub(super) counted: Vec<MessageId>,
    /// Whether an ordered log goes on from a message that failed.
    pub(super) rewinds: bool,
    /// Whether something failed that every message needs.
    pub(super) away: bool,
}

impl Progress {
    pub(super) fn of(deliveries: &[Delivery]) -> Self {
        let left = deliveries.iter().map(|delivery| delivery.receipt).collect();
        Self(Mutex::new(Done { left, ..Done::default() }))
    }

    /// A message has come to its end here.
    pub(super) fn settle(&self, delivery: &Delivery, settlement: Settlement) {
        let mut done = self.lock();
        done.left.retain(|left| *left != delivery.receipt);
        done.counted.retain(|counted| *counted != delivery.message);
        done.settlements.push((delivery.receipt, settlement));
    }

    /// An attempt of these messages is counted.
    pub(super) fn count(&self, messages: &[MessageId]) {
        self.lock().counted.extend_from_slice(messages);
    }

    pub(super) fn rewind(&self) {
        self.lock().rewinds = true;
    }

    pub(super) fn away(&self) {
        self.lock().away = true;
    }

    /// Takes what is done until now.
    pub(super) fn take(&self) -> Done {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Done> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
