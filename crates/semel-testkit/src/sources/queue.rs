//! A queue: it hands out in any order, and again what was not acknowledged.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use semel::{
    Clock, Monotonic,
    inbox::{
        Acked, Delivery, LogId, MessageId, Receipt, Received, Redelivered, Settlement, Source,
        SourceCapabilities, SourceError,
    },
};
use tokio::sync::Notify;

/// A queue in memory. It remembers what was acknowledged, and loses acknowledgements on command.
#[derive(Debug)]
pub struct MemoryQueue {
    clock: Arc<dyn Clock>,
    horizon: Option<Duration>,
    held: Mutex<Held>,
    woken: Notify,
}

#[derive(Debug, Default)]
struct Held {
    waiting: VecDeque<Waiting>,
    out: BTreeMap<Receipt, Delivery>,
    acked: Vec<MessageId>,
    receipts: u64,
    lose: usize,
    broken: bool,
    closed: bool,
}

#[derive(Debug)]
struct Waiting {
    delivery: Delivery,
    not_before: Monotonic,
}

impl MemoryQueue {
    /// Makes an empty queue whose messages may come again for a day.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Self::repeating(clock, Some(Duration::from_secs(86_400)))
    }

    /// Makes an empty queue whose messages may come again for a given time.
    #[must_use]
    pub fn repeating(clock: Arc<dyn Clock>, horizon: Option<Duration>) -> Arc<Self> {
        Arc::new(Self { clock, horizon, held: Mutex::default(), woken: Notify::new() })
    }

    /// Puts a message in, to be delivered as it is.
    pub fn send(&self, delivery: Delivery) {
        let not_before = self.clock.monotonic();
        self.held().waiting.push_back(Waiting { delivery, not_before });
        self.woken.notify_waiters();
    }

    /// Loses the next calls that settle: each fails, and what it settled comes again.
    pub fn lose_settlements(&self, calls: usize) {
        self.held().lose = calls;
    }

    /// Fails every call until it is said otherwise.
    pub fn break_down(&self, broken: bool) {
        self.held().broken = broken;
        self.woken.notify_waiters();
    }

    /// Has everything that is not settled come again, as after the end of its consumer.
    pub fn restart(&self) {
        let now = self.clock.monotonic();
        let mut held = self.held();
        held.closed = false;
        let out = std::mem::take(&mut held.out);
        out.into_values().for_each(|delivery| held.again(delivery, now));
        drop(held);
        self.woken.notify_waiters();
    }

    /// What was acknowledged, in order.
    #[must_use]
    pub fn acked(&self) -> Vec<MessageId> {
        self.held().acked.clone()
    }

    /// How many messages are not acknowledged.
    #[must_use]
    pub fn left(&self) -> usize {
        let held = self.held();
        held.waiting.len() + held.out.len()
    }

    /// Whether its consumer has closed it.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.held().closed
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn again(&mut self, mut delivery: Delivery, not_before: Monotonic) {
        delivery.redelivered = match delivery.redelivered {
            Redelivered::Yes(Some(times)) => Redelivered::Yes(Some(times + 1)),
            _ => Redelivered::Yes(Some(1)),
        };
        self.waiting.push_back(Waiting { delivery, not_before });
    }

    fn take(&mut self, max: usize, now: Monotonic) -> Vec<Delivery> {
        let mut taken = Vec::new();
        let mut at = 0;
        while at < self.waiting.len() && taken.len() < max {
            if self.waiting[at].not_before > now {
                at += 1;
                continue;
            }
            if let Some(Waiting { mut delivery, .. }) = self.waiting.remove(at) {
                self.receipts += 1;
                delivery.receipt = Receipt(self.receipts);
                self.out.insert(delivery.receipt, delivery.clone());
                taken.push(delivery);
            }
        }
        taken
    }

    /// Fails if it is broken.
    fn answers(&self) -> Result<(), SourceError> {
        match self.broken {
            true => Err(SourceError::new("the queue is away", true)),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Source for MemoryQueue {
    fn capabilities(&self) -> SourceCapabilities {
        let mut capabilities = SourceCapabilities::new("memory-queue");
        capabilities.horizon = self.horizon;
        capabilities
    }

    async fn receive(&self, max: usize, wait: Duration) -> Result<Received, SourceError> {
        let until = self.clock.monotonic().after(wait);
        loop {
            let woken = self.woken.notified();
            let (now, mut next) = (self.clock.monotonic(), until);
            {
                let mut held = self.held();
                held.answers()?;
                let deliveries = held.take(max, now);
                if !deliveries.is_empty() || now >= until {
                    let mut received = Received::default();
                    received.deliveries = deliveries;
                    return Ok(received);
                }
                for waiting in &held.waiting {
                    next = next.min(waiting.not_before);
                }
            }
            tokio::select! {
                () = woken => {}
                () = self.clock.sleep_until(next) => {}
            }
        }
    }

    /// A queue has no logs to begin.
    async fn start(&self, _: Vec<(LogId, Option<u64>)>) -> Result<(), SourceError> {
        Ok(())
    }

    async fn settle(
        &self,
        settlements: Vec<(Receipt, Settlement)>,
    ) -> Result<Vec<Acked>, SourceError> {
        let now = self.clock.monotonic();
        let mut held = self.held();
        held.answers()?;
        let loses = held.lose > 0;
        held.lose = held.lose.saturating_sub(1);
        let mut acked = Vec::new();
        for (receipt, settlement) in settlements {
            let Some(delivery) = held.out.remove(&receipt) else {
                acked.push(Acked::Lost);
                continue;
            };
            match settlement {
                Settlement::Ack if !loses => held.acked.push(delivery.message),
                Settlement::Ack => held.again(delivery, now),
                Settlement::Again(pause) => held.again(delivery, now.after(pause)),
            }
            acked.push(Acked::Confirmed);
        }
        drop(held);
        self.woken.notify_waiters();
        match loses {
            true => Err(SourceError::new("the answer to a settlement was lost", true)),
            false => Ok(acked),
        }
    }

    async fn close(&self) -> Result<(), SourceError> {
        self.restart();
        self.held().closed = true;
        Ok(())
    }
}
