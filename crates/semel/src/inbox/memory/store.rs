//! What happens beside the effects.

use async_trait::async_trait;

use super::{Counted, Kept, Known, MemoryInbox};
use crate::{
    clock::Timestamp,
    error::StoreError,
    inbox::{
        inspect::{InboxAudit, InboxAuditKind},
        message::{Consumer, LogId, MessageId},
        store::{
            ATTEMPTS_KEPT, Attempts, InboxStore, InboxSweep, InboxSwept, Mismatch, Park,
            ParkAnswer, ParkedMessage, ParkedState, READ_MAX, Recorded, Standing, Uncount,
            each_once, within_read,
        },
    },
};

#[async_trait]
impl InboxStore for MemoryInbox {
    /// A map has each name once.
    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn attempts(
        &self,
        consumer: Consumer,
        messages: Vec<MessageId>,
    ) -> Result<Vec<Attempts>, StoreError> {
        within_read(messages.len())?;
        let (now, kept) = (self.clock.wall(), self.kept());
        let read = |message| kept.attempts_of(&(consumer.clone(), message), now);
        Ok(messages.into_iter().map(read).collect())
    }

    async fn count(
        &self,
        consumer: Consumer,
        messages: Vec<MessageId>,
    ) -> Result<Vec<Attempts>, StoreError> {
        within_read(messages.len())?;
        let (now, mut kept) = (self.clock.wall(), self.kept());
        for message in each_once(&messages) {
            let first = Counted { count: 0, first_at: now, last_at: now };
            let counted = kept.attempts.entry((consumer.clone(), message.clone()));
            let counted = counted.or_insert(first);
            counted.count = counted.count.saturating_add(1);
            counted.last_at = now;
        }
        let read = |message| kept.attempts_of(&(consumer.clone(), message), now);
        Ok(messages.into_iter().map(read).collect())
    }

    async fn uncount(
        &self,
        consumer: Consumer,
        messages: Vec<MessageId>,
        why: Uncount,
    ) -> Result<(), StoreError> {
        within_read(messages.len())?;
        let mut kept = self.kept();
        for message in each_once(&messages) {
            let name = (consumer.clone(), message.clone());
            let left = match (why, kept.attempts.get_mut(&name)) {
                (Uncount::GivenBack, Some(counted)) => {
                    counted.count = counted.count.saturating_sub(1);
                    counted.count
                }
                _ => 0,
            };
            if left == 0 {
                kept.attempts.remove(&name);
            }
            let is_done = kept.known.get(&name).map(|known| known.recorded.standing);
            if why == Uncount::Ended && is_done == Some(Standing::Done) {
                kept.parked.remove(&name);
            }
        }
        Ok(())
    }

    async fn park(&self, park: Park) -> Result<ParkAnswer, StoreError> {
        park.check()?;
        let (now, mut kept) = (self.clock.wall(), self.kept());
        let Park { consumer, delivery, fingerprint, moves, attempts, why } = park;
        let name = (consumer, delivery.message.clone());
        if kept.known.get(&name).is_some_and(|k| k.recorded.standing != Standing::Parked) {
            return Ok(ParkAnswer::Ended);
        }
        if let Some(position) = delivery.position.as_ref().filter(|_| moves) {
            let log = (name.0.clone(), position.log.clone());
            if kept.positions.get(&log).is_some_and(|next| *next > position.offset) {
                return Ok(ParkAnswer::Ended);
            }
            kept.positions.insert(log, position.offset.saturating_add(1));
        }
        let recorded = Recorded {
            fingerprint,
            standing: Standing::Parked,
            answer: None,
            events: Vec::new(),
            at: now,
        };
        kept.known.entry(name.clone()).or_insert(Known { recorded, remember_until: None });
        kept.attempts.remove(&name);
        let copy = ParkedMessage {
            consumer: name.0.clone(),
            message: delivery.message,
            payload: delivery.payload,
            headers: delivery.headers,
            key: delivery.key,
            position: delivery.position,
            sent_at: delivery.sent_at,
            state: ParkedState::Failed,
            attempts,
            why,
            parked_at: now,
        };
        kept.parked.insert(name, copy);
        Ok(ParkAnswer::Parked)
    }

    async fn due(
        &self,
        consumer: Consumer,
        limit: usize,
    ) -> Result<Vec<ParkedMessage>, StoreError> {
        let kept = self.kept();
        let is_due =
            |copy: &&ParkedMessage| copy.consumer == consumer && copy.state == ParkedState::Retry;
        let mut due: Vec<_> = kept.parked.values().filter(is_due).cloned().collect();
        due.sort_by_key(|copy| copy.parked_at);
        due.truncate(limit.min(READ_MAX));
        Ok(due)
    }

    async fn positions(
        &self,
        consumer: Consumer,
        logs: Vec<LogId>,
    ) -> Result<Vec<Option<u64>>, StoreError> {
        within_read(logs.len())?;
        let kept = self.kept();
        let next = |log| kept.positions.get(&(consumer.clone(), log)).copied();
        Ok(logs.into_iter().map(next).collect())
    }

    async fn report(&self, mismatch: Mismatch) -> Result<(), StoreError> {
        let row = InboxAudit {
            note: mismatch.note().into(),
            consumer: mismatch.consumer,
            message: mismatch.message,
            at: self.clock.wall(),
            kind: InboxAuditKind::Mismatch,
            actor: "".into(),
        };
        self.kept().note(row);
        Ok(())
    }
}

impl Kept {
    pub(super) fn attempts_of(&self, name: &super::Name, now: Timestamp) -> Attempts {
        let counted = self.attempts.get(name);
        Attempts {
            count: counted.map_or(0, |counted| counted.count),
            first_at: counted.map_or(now, |counted| counted.first_at),
            now,
        }
    }

    pub(super) fn note(&mut self, row: InboxAudit) {
        self.audit.push_front(row);
        self.audit.truncate(super::AUDIT_MAX);
    }
}

#[async_trait]
impl InboxSweep for MemoryInbox {
    async fn sweep_inbox(&self, limit: u32) -> Result<InboxSwept, StoreError> {
        let (now, mut kept) = (self.clock.wall(), self.kept());
        let limit = usize::try_from(limit.max(1)).unwrap_or(usize::MAX);
        let is_over = |known: &Known| known.remember_until.is_some_and(|until| until <= now);
        let over = kept.known.iter().filter(|(_, known)| is_over(known)).take(limit);
        let over: Vec<_> = over.map(|(name, _)| name.clone()).collect();
        let is_stale = |name: &super::Name, counted: &Counted| {
            kept.known.contains_key(name) || counted.last_at.after(ATTEMPTS_KEPT) <= now
        };
        let stale = kept.attempts.iter().filter(|(name, counted)| is_stale(name, counted));
        let stale: Vec<_> = stale.take(limit).map(|(name, _)| name.clone()).collect();
        for name in &over {
            kept.known.remove(name);
        }
        for name in &stale {
            kept.attempts.remove(name);
        }
        Ok(InboxSwept {
            messages: u64::try_from(over.len()).unwrap_or(u64::MAX),
            attempts: u64::try_from(stale.len()).unwrap_or(u64::MAX),
            more: over.len() == limit || stale.len() == limit,
        })
    }
}
