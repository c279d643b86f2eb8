//! Reads and words for operators.

use async_trait::async_trait;

use super::{
    super::{
        audit::{OutboxAudit, OutboxAuditKind},
        event::EventId,
        store::{
            Destination, DestinationState, EventFilter, LeftOut, OutboxInspect, Park, Parked,
            ParkedFilter, ParkedState, Placed, READ_MAX, Replayed,
        },
    },
    Inner, MemoryOutbox,
    cursor::Cursor,
    invalid,
};
use crate::{clock::Timestamp, error::StoreError, store::Actor};

#[async_trait]
impl OutboxInspect for MemoryOutbox {
    async fn destinations(&self) -> Result<Vec<DestinationState>, StoreError> {
        let (inner, now) = self.lock();
        let states = inner.cursors.iter().map(|(of, cursor)| inner.state(of, cursor, now));
        let mut states: Vec<_> = states.collect();
        states.sort_unstable_by(|a, b| a.destination.cmp(&b.destination));
        Ok(states)
    }

    async fn events(&self, filter: EventFilter) -> Result<Vec<Placed>, StoreError> {
        let (inner, _) = self.lock();
        let rows = inner.rows.values().map(|row| &row.placed);
        let named = rows.filter(|placed| names(&filter, placed));
        Ok(named.take(limit(filter.limit)).cloned().collect())
    }

    async fn parked(&self, filter: ParkedFilter) -> Result<Vec<Parked>, StoreError> {
        let (inner, _) = self.lock();
        let named = inner.parked.rows().filter(|row| names_parked(&filter, row));
        Ok(named.take(limit(filter.limit)).cloned().collect())
    }

    async fn mark(
        &self,
        destination: Destination,
        seqs: Vec<u64>,
        state: ParkedState,
        actor: Actor,
    ) -> Result<u64, StoreError> {
        let kind = match state {
            ParkedState::Drop => OutboxAuditKind::Drop,
            ParkedState::Retry => OutboxAuditKind::Retry,
            ParkedState::Skip => OutboxAuditKind::Skip,
            ParkedState::Behind | ParkedState::Failed => {
                return Err(invalid("rows are marked to be retried, skipped or dropped"));
            }
        };
        if seqs.len() > READ_MAX {
            return Err(invalid("more rows are marked than may be at once"));
        }
        let (mut inner, now) = self.lock();
        let mark = |seq| inner.parked.mark(&destination, seq, state);
        let marked: Vec<EventId> = seqs.into_iter().filter_map(mark).collect();
        for id in &marked {
            inner.note(&destination, now, kind, (Some(*id), 1), &actor);
        }
        Ok(count(marked.len()))
    }

    async fn replay(
        &self,
        destination: Destination,
        filter: EventFilter,
        left_out: LeftOut,
        actor: Actor,
    ) -> Result<Replayed, StoreError> {
        let (mut inner, now) = self.lock();
        let cursor = inner.cursors.get(&destination);
        let cursor = cursor.ok_or_else(|| invalid("nobody ever led this destination"))?;
        let had = inner.rows.values().filter(|row| cursor.has(row)).map(|row| &row.placed);
        let named = had.filter(|placed| names(&filter, placed));
        let fresh = named.filter(|placed| !inner.parked.holds(&destination, placed.event.id));
        let most = limit(filter.limit);
        let again: Vec<Placed> = fresh.take(most).cloned().collect();
        let full = again.len() >= most;
        let rest = again.last().filter(|_| full).map(|placed| placed.pos);
        let mut replayed = Replayed { rest, ..Replayed::default() };
        for placed in again {
            let stays = (placed.pos, destination.clone());
            if left_out == LeftOut::Stays && inner.left_out.contains(&stays) {
                replayed.left_out += 1;
                continue;
            }
            inner.left_out.remove(&stays);
            replayed.parked += 1;
            let park = Park { placed, state: ParkedState::Behind, attempts: 0, why: "".into() };
            inner.parked.park(&destination, park, now);
        }
        let said = (filter.id, replayed.parked);
        inner.note(&destination, now, OutboxAuditKind::Replay, said, &actor);
        Ok(replayed)
    }

    async fn forget(&self, destination: Destination, actor: Actor) -> Result<bool, StoreError> {
        let (mut inner, now) = self.lock();
        let Some(cursor) = inner.cursors.get(&destination) else {
            return Ok(false);
        };
        if cursor.leader.as_ref().is_some_and(|(_, until)| now < *until) {
            return Err(invalid("the destination is led; stop its relay first"));
        }
        inner.cursors.remove(&destination);
        inner.left_out.retain(|(_, of)| *of != destination);
        let rows = count(inner.parked.forget(&destination));
        inner.note(&destination, now, OutboxAuditKind::Forget, (None, rows), &actor);
        Ok(true)
    }

    async fn outbox_audit(
        &self,
        destination: Option<Destination>,
        limit: u32,
    ) -> Result<Vec<OutboxAudit>, StoreError> {
        let (inner, _) = self.lock();
        let about =
            |row: &&OutboxAudit| destination.as_ref().is_none_or(|of| row.destination == *of);
        let newest = inner.audit.iter().rev().filter(about);
        Ok(newest.take(self::limit(limit)).cloned().collect())
    }
}

impl Inner {
    fn state(&self, of: &Destination, cursor: &Cursor, now: Timestamp) -> DestinationState {
        let waiting = self.rows.values().filter(|row| !cursor.has(row));
        let most = usize::try_from(DestinationState::WAITING_MAX).unwrap_or(usize::MAX);
        let parked = || self.parked.rows().filter(|row| row.destination == *of);
        DestinationState {
            destination: of.clone(),
            leader: cursor.leader.clone().filter(|(_, until)| now < *until),
            epoch: cursor.epoch,
            generation: Cursor::GENERATION,
            oldest: waiting.clone().map(|row| row.placed.at).min(),
            waiting: count(waiting.take(most).count()),
            parked: count(parked().count()),
            parked_lanes: count(self.parked.lane_count(of)),
            oldest_parked: parked().map(|row| row.parked_at).min(),
            oldest_aside: self.parked.aside(of).map(|row| row.placed.at).min(),
            failed_lanes: count(self.parked.failed(of).count()),
            oldest_failed: self.parked.failed(of).map(|row| row.placed.at).min(),
            now,
        }
    }

    /// Names in the audit all that goes with a row that is to be dropped, by the word that was said of
    /// that one.
    pub(super) fn note_behind(&mut self, destination: &Destination, seq: u64, now: Timestamp) {
        let Some((head, behind)) = self.parked.dropped_with(destination, seq) else { return };
        let said = |row: &&OutboxAudit| {
            row.destination == *destination
                && row.event == Some(head)
                && row.kind == OutboxAuditKind::Drop
        };
        let said = self.audit.iter().rev().find(said);
        let (name, note) = match said {
            Some(said) => (said.actor.clone(), format!("behind {head}: {}", said.note)),
            None => ("".into(), format!("behind {head}")),
        };
        let actor = Actor { name, note: note.into() };
        for id in behind {
            self.note(destination, now, OutboxAuditKind::Drop, (Some(id), 1), &actor);
        }
    }

    fn note(
        &mut self,
        destination: &Destination,
        at: Timestamp,
        kind: OutboxAuditKind,
        (event, rows): (Option<EventId>, u64),
        actor: &Actor,
    ) {
        if self.audit.len() >= MemoryOutbox::AUDIT_MAX {
            self.audit.remove(0);
        }
        let (destination, Actor { name, note }) = (destination.clone(), actor.clone());
        self.audit.push(OutboxAudit { destination, at, kind, event, rows, actor: name, note });
    }
}

fn names(filter: &EventFilter, placed: &Placed) -> bool {
    let event = &placed.event;
    let operation = || Some(&event.intent.as_ref()?.scope.operation);
    filter.id.is_none_or(|id| event.id == id)
        && filter.lane.as_ref().is_none_or(|lane| event.lane == *lane)
        && filter.intent.as_ref().is_none_or(|intent| event.intent.as_ref() == Some(intent))
        && filter.operation.as_ref().is_none_or(|of| operation() == Some(of))
        && filter.from.is_none_or(|from| placed.at >= from)
        && filter.until.is_none_or(|until| placed.at < until)
        && filter.after.is_none_or(|after| placed.pos > after)
}

fn names_parked(filter: &ParkedFilter, row: &Parked) -> bool {
    filter.destination.as_ref().is_none_or(|of| row.destination == *of)
        && filter.lane.as_ref().is_none_or(|lane| row.placed.event.lane == *lane)
        && filter.state.is_none_or(|state| row.state == state)
        && filter.id.is_none_or(|id| row.placed.event.id == id)
        && filter.after.is_none_or(|after| row.seq > after)
}

fn limit(asked: u32) -> usize {
    usize::try_from(asked).unwrap_or(READ_MAX).min(READ_MAX)
}

fn count(of: usize) -> u64 {
    u64::try_from(of).unwrap_or(u64::MAX)
}
