//! Ordered logs of one group of consumers: assigned and revoked on command.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use semel::{
    Clock, Monotonic,
    inbox::{
        Acked, Delivery, LogId, Position, Receipt, Received, Redelivered, Settlement, Source,
        SourceCapabilities, SourceError,
    },
};
use tokio::sync::Notify;

/// Logs in memory, as one owner sees them.
#[derive(Debug)]
pub struct MemoryLog {
    clock: Arc<dyn Clock>,
    held: Mutex<Held>,
    woken: Notify,
}

#[derive(Debug, Default)]
struct Held {
    logs: BTreeMap<LogId, Log>,
    out: BTreeMap<Receipt, Position>,
    assigned: Vec<LogId>,
    revoked: Vec<LogId>,
    receipts: u64,
}

#[derive(Debug, Default)]
struct Log {
    messages: Vec<Delivery>,
    /// Up to where the group has settled.
    committed: u64,
    settled: BTreeSet<u64>,
    /// What is handed out next; `None` while it is nobody's.
    next: Option<u64>,
    /// Up to where it was ever handed out.
    handed: u64,
    not_before: Monotonic,
}

impl MemoryLog {
    /// Makes logs without messages.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, held: Mutex::default(), woken: Notify::new() })
    }

    /// Appends a message to a log.
    pub fn append(&self, log: &LogId, mut delivery: Delivery) {
        let mut held = self.held();
        let of = held.logs.entry(log.clone()).or_default();
        let offset = u64::try_from(of.messages.len()).unwrap_or(u64::MAX);
        delivery.position = Some(Position { log: log.clone(), offset });
        of.messages.push(delivery);
        drop(held);
        self.woken.notify_waiters();
    }

    /// Gives a log to the owner.
    pub fn assign(&self, log: &LogId) {
        let mut held = self.held();
        held.logs.entry(log.clone()).or_default();
        held.assigned.push(log.clone());
        drop(held);
        self.woken.notify_waiters();
    }

    /// Takes a log from the owner: what it has not settled comes to the next.
    pub fn revoke(&self, log: &LogId) {
        let mut held = self.held();
        held.let_go(log);
        held.revoked.push(log.clone());
        drop(held);
        self.woken.notify_waiters();
    }

    /// Forgets what the group has settled, as a group that was deleted.
    pub fn forget_offsets(&self, log: &LogId) {
        if let Some(log) = self.held().logs.get_mut(log) {
            log.committed = 0;
        }
    }

    /// Up to where a log is settled.
    #[must_use]
    pub fn committed(&self, log: &LogId) -> u64 {
        self.held().logs.get(log).map_or(0, |log| log.committed)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn let_go(&mut self, log: &LogId) {
        self.out.retain(|_, position| position.log != *log);
        if let Some(log) = self.logs.get_mut(log) {
            log.next = None;
            log.settled.clear();
        }
    }

    fn take(&mut self, max: usize, now: Monotonic) -> Vec<Delivery> {
        let mut taken = Vec::new();
        for log in self.logs.values_mut().filter(|log| log.not_before <= now) {
            while let Some(next) = log.next.filter(|_| taken.len() < max) {
                let at = usize::try_from(next).unwrap_or(usize::MAX);
                let Some(mut delivery) = log.messages.get(at).cloned() else { break };
                self.receipts += 1;
                delivery.receipt = Receipt(self.receipts);
                delivery.redelivered = match next < log.handed {
                    true => Redelivered::Yes(None),
                    false => Redelivered::No,
                };
                self.out.extend(delivery.position.clone().map(|at| (delivery.receipt, at)));
                log.handed = log.handed.max(next + 1);
                log.next = Some(next + 1);
                taken.push(delivery);
            }
        }
        taken
    }

    fn settle(&mut self, receipt: Receipt, settlement: Settlement, now: Monotonic) -> Acked {
        let Some(Position { log, offset }) = self.out.remove(&receipt) else { return Acked::Lost };
        let Some(of) = self.logs.get_mut(&log) else { return Acked::Lost };
        match settlement {
            Settlement::Ack => {
                of.settled.insert(offset);
                while of.settled.remove(&of.committed) {
                    of.committed += 1;
                }
            }
            Settlement::Again(pause) => {
                of.next = of.next.map(|next| next.min(offset));
                of.not_before = of.not_before.max(now.after(pause));
                self.out.retain(|_, out| out.log != log || out.offset < offset);
            }
        }
        Acked::Confirmed
    }
}

#[async_trait]
impl Source for MemoryLog {
    fn capabilities(&self) -> SourceCapabilities {
        let mut capabilities = SourceCapabilities::new("memory-log");
        capabilities.logs = true;
        capabilities.horizon = Some(Duration::from_secs(86_400));
        capabilities
    }

    async fn receive(&self, max: usize, wait: Duration) -> Result<Received, SourceError> {
        let until = self.clock.monotonic().after(wait);
        loop {
            let woken = self.woken.notified();
            let (now, mut next) = (self.clock.monotonic(), until);
            {
                let mut held = self.held();
                let mut received = Received::default();
                received.revoked = std::mem::take(&mut held.revoked);
                received.assigned = std::mem::take(&mut held.assigned);
                received.deliveries = held.take(max, now);
                let is_empty = received.revoked.is_empty()
                    && received.assigned.is_empty()
                    && received.deliveries.is_empty();
                if !is_empty || now >= until {
                    return Ok(received);
                }
                for log in held.logs.values().filter(|log| log.not_before > now) {
                    next = next.min(log.not_before);
                }
            }
            tokio::select! {
                () = woken => {}
                () = self.clock.sleep_until(next) => {}
            }
        }
    }

    async fn start(&self, logs: Vec<(LogId, Option<u64>)>) -> Result<(), SourceError> {
        let mut held = self.held();
        for (log, from) in logs {
            if let Some(log) = held.logs.get_mut(&log) {
                log.committed = from.unwrap_or(log.committed);
                log.next = Some(log.committed);
            }
        }
        drop(held);
        self.woken.notify_waiters();
        Ok(())
    }

    async fn settle(
        &self,
        settlements: Vec<(Receipt, Settlement)>,
    ) -> Result<Vec<Acked>, SourceError> {
        let now = self.clock.monotonic();
        let mut held = self.held();
        let settled = settlements
            .into_iter()
            .map(|(receipt, settlement)| held.settle(receipt, settlement, now))
            .collect();
        drop(held);
        self.woken.notify_waiters();
        Ok(settled)
    }

    async fn close(&self) -> Result<(), SourceError> {
        let mut held = self.held();
        let logs: Vec<_> = held.logs.keys().cloned().collect();
        logs.iter().for_each(|log| held.let_go(log));
        Ok(())
    }
}
