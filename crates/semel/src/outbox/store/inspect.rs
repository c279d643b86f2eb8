//! What operators see of an outbox, and the words they have for it.

use async_trait::async_trait;

use super::{
    super::{
        audit::OutboxAudit,
        event::{EventId, Lane},
    },
    Destination, DestinationState, Parked, ParkedState, Placed, Pos,
};
use crate::{
    clock::Timestamp,
    error::StoreError,
    key::{IntentId, Operation},
    store::Actor,
};

/// Which events to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventFilter {
    /// Only this one.
    pub id: Option<EventId>,
    /// Only of this aggregate.
    pub lane: Option<Lane>,
    /// Only effects of this intent.
    pub intent: Option<IntentId>,
    /// Only effects of this operation.
    pub operation: Option<Operation>,
    /// Only appended at or after.
    pub from: Option<Timestamp>,
    /// Only appended before.
    pub until: Option<Timestamp>,
    /// Only behind this position: for the next page.
    pub after: Option<Pos>,
    /// How many at most; bounded by [`READ_MAX`](super::READ_MAX).
    pub limit: u32,
}

/// What a replay does with events that were left out, as an operator said.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LeftOut {
    /// They go too, and are left out no more.
    Goes,
    /// They stay left out.
    #[default]
    Stays,
}

/// What a replay did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Replayed {
    /// How many events it parked, to be sent again.
    pub parked: u64,
    /// How many events stay left out.
    pub left_out: u64,
    /// Behind which position to go on, if more may be named than one call takes.
    pub rest: Option<Pos>,
}

/// Which parked rows to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParkedFilter {
    /// Only of this destination.
    pub destination: Option<Destination>,
    /// Only of this lane.
    pub lane: Option<Lane>,
    /// Only in this state.
    pub state: Option<ParkedState>,
    /// Only this event.
    pub id: Option<EventId>,
    /// Only behind this place: for the next page.
    pub after: Option<u64>,
    /// How many at most; bounded by [`READ_MAX`](super::READ_MAX).
    pub limit: u32,
}

/// Reads and words for operators. Whatever is changed is written to the audit in the same transaction.
#[async_trait]
pub trait OutboxInspect: Send + Sync + 'static {
    /// Lists every destination that was ever led.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn destinations(&self) -> Result<Vec<DestinationState>, StoreError>;

    /// Lists events that are still kept, in the order of their positions.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn events(&self, filter: EventFilter) -> Result<Vec<Placed>, StoreError>;

    /// Lists parked rows in their order.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn parked(&self, filter: ParkedFilter) -> Result<Vec<Parked>, StoreError>;

    /// Says what is to become of parked rows that are the first of their lane, or whose state is `Failed`
    /// (or already a word of an operator): `Retry`, `Skip` or `Drop`. Returns how many rows it marked; the
    /// leader does the rest. At most [`READ_MAX`](super::READ_MAX) at once.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn mark(
        &self,
        destination: Destination,
        seqs: Vec<u64>,
        state: ParkedState,
        actor: Actor,
    ) -> Result<u64, StoreError>;

    /// Has events sent again that the destination had: those that `filter` names, at most
    /// [`READ_MAX`](super::READ_MAX) and only what is still kept, as parked rows in state `Behind`, so that each lane
    /// keeps its order. What was left out is sent only if `left_out` says so. The store does not know
    /// what is routed where: the leader lets go of what the destination does not get.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn replay(
        &self,
        destination: Destination,
        filter: EventFilter,
        left_out: LeftOut,
        actor: Actor,
    ) -> Result<Replayed, StoreError>;

    /// Forgets a destination that is no longer led, with its cursor, its parked rows and what was left
    /// out, so that it holds nothing up. Says whether there was one. If it is ever led again it begins anew, under an
    /// epoch that nobody had before.
    ///
    /// # Errors
    ///
    /// Fails with kind `Invalid` while it is led.
    async fn forget(&self, destination: Destination, actor: Actor) -> Result<bool, StoreError>;

    /// Lists what operators said, the newest first: about one destination, or about all; at most
    /// `limit`, bounded by [`READ_MAX`](super::READ_MAX). It outlives the destination.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn outbox_audit(
        &self,
        destination: Option<Destination>,
        limit: u32,
    ) -> Result<Vec<OutboxAudit>, StoreError>;
}
