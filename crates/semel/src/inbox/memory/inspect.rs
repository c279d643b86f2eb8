//! What operators see, and say.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::MemoryInbox;
use crate::{
    error::StoreError,
    inbox::{
        inspect::{
            COUNT_MAX, ConsumerState, Had, InboxAudit, InboxAuditKind, InboxInspect, LIST_MAX,
            Mark, MessageState, ParkedFilter,
        },
        message::{Consumer, MessageId},
        store::{ParkedMessage, ParkedState, Standing},
    },
    store::Actor,
};

fn bounded(limit: u32) -> usize {
    usize::try_from(limit.min(LIST_MAX)).unwrap_or(usize::MAX)
}

fn counted(of: usize) -> u64 {
    u64::try_from(of).unwrap_or(u64::MAX)
}

#[async_trait]
impl InboxInspect for MemoryInbox {
    async fn consumers(&self) -> Result<Vec<ConsumerState>, StoreError> {
        let (now, kept) = (self.clock.wall(), self.kept());
        let names = kept.known.keys().chain(kept.attempts.keys()).chain(kept.parked.keys());
        let names = names.map(|(consumer, _)| consumer);
        let names: BTreeSet<_> =
            names.chain(kept.positions.keys().map(|(consumer, _)| consumer)).collect();
        let state = |consumer: &Consumer| {
            let of = |name: &&super::Name| name.0 == *consumer;
            let in_state = |state| {
                kept.parked.values().filter(move |p| p.consumer == *consumer && p.state == state)
            };
            let positions = kept.positions.iter().filter(|((owner, _), _)| owner == consumer);
            ConsumerState {
                consumer: consumer.clone(),
                remembered: counted(kept.known.keys().filter(of).count()).min(COUNT_MAX.into()),
                positions: positions.map(|((_, log), next)| (log.clone(), *next)).collect(),
                failed: counted(in_state(ParkedState::Failed).count()),
                retry: counted(in_state(ParkedState::Retry).count()),
                oldest_failed: in_state(ParkedState::Failed).map(|p| p.parked_at).min(),
                attempted: counted(kept.attempts.keys().filter(of).count()),
                now,
            }
        };
        Ok(names.into_iter().take(bounded(LIST_MAX)).map(state).collect())
    }

    async fn had(
        &self,
        consumer: Consumer,
        after: Option<MessageId>,
        limit: u32,
    ) -> Result<Vec<Had>, StoreError> {
        let kept = self.kept();
        let of = kept.known.iter().filter(|((owner, _), _)| *owner == consumer);
        let behind = of.filter(|((_, message), _)| Some(message) > after.as_ref());
        Ok(behind.take(bounded(limit)).map(had).collect())
    }

    async fn message(
        &self,
        consumer: Consumer,
        message: MessageId,
    ) -> Result<MessageState, StoreError> {
        let (now, kept, name) = (self.clock.wall(), self.kept(), (consumer, message));
        Ok(MessageState {
            recorded: kept.known.get(&name).map(|known| known.recorded.clone()),
            parked: kept.parked.get(&name).cloned(),
            attempts: Some(kept.attempts_of(&name, now)).filter(|attempts| attempts.count > 0),
        })
    }

    async fn chain(&self, id: Box<str>) -> Result<Vec<Had>, StoreError> {
        let kept = self.kept();
        let of = kept.known.iter().filter(|((_, message), _)| message.id() == &*id);
        Ok(of.take(bounded(LIST_MAX)).map(had).collect())
    }

    async fn parked(&self, filter: ParkedFilter) -> Result<Vec<ParkedMessage>, StoreError> {
        let kept = self.kept();
        let fits = |(name, copy): &(&super::Name, &ParkedMessage)| {
            filter.consumer.as_ref().is_none_or(|consumer| copy.consumer == *consumer)
                && filter.state.is_none_or(|state| copy.state == state)
                && filter.after.as_ref().is_none_or(|after| *name > after)
        };
        let listed = kept.parked.iter().filter(fits).map(|(_, copy)| copy.clone());
        Ok(listed.take(bounded(filter.limit)).collect())
    }

    async fn mark(
        &self,
        consumer: Consumer,
        message: MessageId,
        mark: Mark,
        actor: Actor,
    ) -> Result<bool, StoreError> {
        let (now, mut kept) = (self.clock.wall(), self.kept());
        let name = (consumer.clone(), message.clone());
        let standing = kept.known.get(&name).map(|known| known.recorded.standing);
        let waits = matches!(standing, Some(Standing::LeftOut | Standing::Parked));
        if !waits || !kept.parked.contains_key(&name) {
            return Ok(false);
        }
        let (standing, state) = match mark {
            Mark::Retry => (Standing::Parked, ParkedState::Retry),
            Mark::Drop | Mark::Skip => (Standing::LeftOut, ParkedState::Skipped),
        };
        if let Some(known) = kept.known.get_mut(&name) {
            known.recorded.standing = standing;
        }
        if let Some(copy) = kept.parked.get_mut(&name) {
            copy.state = state;
        }
        if mark == Mark::Drop {
            kept.parked.remove(&name);
        }
        kept.note(InboxAudit {
            consumer,
            message,
            at: now,
            kind: InboxAuditKind::Marked(mark),
            actor: actor.name,
            note: actor.note,
        });
        Ok(true)
    }

    async fn inbox_audit(
        &self,
        consumer: Option<Consumer>,
        limit: u32,
    ) -> Result<Vec<InboxAudit>, StoreError> {
        let kept = self.kept();
        let of = |row: &&InboxAudit| consumer.as_ref().is_none_or(|of| row.consumer == *of);
        Ok(kept.audit.iter().filter(of).take(bounded(limit)).cloned().collect())
    }
}

fn had(((consumer, message), known): (&super::Name, &super::Known)) -> Had {
    let (consumer, message) = (consumer.clone(), message.clone());
    Had { consumer, message, recorded: known.recorded.clone() }
}
