//! A replication slot as the source of order: events of a pass leave in the order of their commits.
//!
//! What is in a pass is the table's affair, as without a slot: passes, cursor, leadership and parked
//! lanes are the same rows. The slot tells the order inside a pass, and what it tells is compared with
//! the table: what a slot has lost, such as one that was dropped and made again, is read from the table
//! and told of loudly. Without a slot, or with a backlog of more than [`SlotOutbox::ORDERED_MAX`] events, a pass has
//! the order of positions.

mod making;
mod order;
pub(crate) mod pgoutput;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use semel::{
    Clock as _, StoreError, Timestamp,
    outbox::{
        Destination, Lane, Lead, Leader, Led, OutboxStore, Pos, Settle, Settled, Window,
        store::{Due, Pass, READ_MAX},
    },
};
use tokio::task::JoinHandle;

use self::{
    making::{Drop, Slots},
    order::{Advance, Chosen, Idle, Load, Loaded, Names, Order, Standing},
};
use crate::PostgresStore;

/// An outbox in PostgreSQL whose events leave in the order of their commits, by replication slots: one for
/// each destination, named `semel_` and the destination.
///
/// The server needs `wal_level = logical`, and the store's role the right to replicate. A slot keeps the
/// server's log until it is read: [`SlotOutbox::forget_slot`] drops one that is not needed any more.
#[derive(Debug)]
pub struct SlotOutbox {
    store: Arc<PostgresStore>,
    /// The order of the pass that is being read; a destination without one reads by positions. A pass is
    /// read in one way from its first window to its end: a place in the one order is none in the other.
    orders: Mutex<HashMap<Destination, Arc<Order>>>,
    missed: AtomicU64,
    /// When slots were last let go on while nothing waited.
    idled: Mutex<HashMap<Destination, Timestamp>>,
    slots: Arc<Slots>,
}

impl PostgresStore {
    /// Returns this store's outbox with the order of commits, as replication slots tell it.
    #[must_use]
    pub fn outbox_by_slots(self: Arc<Self>) -> SlotOutbox {
        SlotOutbox {
            store: self,
            orders: Mutex::default(),
            missed: AtomicU64::new(0),
            idled: Mutex::default(),
            slots: Arc::default(),
        }
    }
}

/// How often a slot is let go on while nothing waits.
const IDLE: Duration = Duration::from_secs(10);

/// The pause before a slot that another session reads is asked again, doubled up to the largest.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// How much of a destination's name is shown in that of its slot, which has at most 63 bytes.
const SHOWN_MAX: usize = 40;

impl PostgresStore {
    pub(super) fn slot_name(&self, destination: &Destination) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        let shown: String = destination.as_str().chars().take(SHOWN_MAX).map(plain).collect();
        let number = self.links.secret.tells_apart(destination.as_str());
        format!("semel_{shown}_{number:016x}")
    }

    /// Drops a slot, if it is there and nobody reads it, and says whether it was.
    pub(super) async fn drop_slot(&self, slot: String) -> Result<bool, StoreError> {
        self.soon(Drop { slot }).await
    }

    /// Drops the slot of a destination that is led without one, if an earlier leader left it: the server
    /// would keep its log for it until the disk is full.
    pub(super) async fn drop_unread(&self, destination: &Destination) {
        match self.drop_slot(self.slot_name(destination)).await {
            Ok(true) => tracing::info!(
                %destination,
                "dropped the replication slot: the relay reads positions from the table now"
            ),
            Ok(false) => {}
            Err(error) => tracing::warn!(
                %destination, %error,
                "a replication slot that nobody reads any more could not be dropped, and keeps the \
                 server's log"
            ),
        }
    }
}

impl SlotOutbox {
    /// The largest number of events of a pass that are put in the order of their commits.
    pub const ORDERED_MAX: usize = 100_000;

    /// Returns how many events slots did not tell of, which were read from the table: those that were
    /// there before the slot was, and those that were lost with one.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Returns the name of a destination's slot: `semel_`, the destination as far as there is room, and
    /// a number that tells apart schemas and databases of one server.
    #[must_use]
    pub fn slot_name(&self, destination: &Destination) -> String {
        self.store.slot_name(destination)
    }

    fn names(&self, destination: &Destination) -> Names {
        let number = self.store.links.secret.tells_apart("positions");
        let publication = format!("semel_positions_{number:016x}");
        Names { slot: self.slot_name(destination), publication }
    }

    /// Drops the slot of a destination, if it is there and nobody reads it.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be asked, or the role may not replicate.
    pub async fn forget_slot(&self, destination: &Destination) -> Result<(), StoreError> {
        self.store.drop_slot(self.slot_name(destination)).await.map(drop)
    }

    /// Makes the slot of a destination if it is missing, in a task of the store: dropping the future leaves
    /// no connection in the middle of it.
    fn make(&self, destination: &Destination) -> JoinHandle<()> {
        let (links, slots) = (Arc::clone(&self.store.links), Arc::clone(&self.slots));
        let (destination, names) = (destination.clone(), self.names(destination));
        self.store.tasks.spawn(async move { slots.make(&links, destination, names).await })
    }

    /// Makes a slot anew that is gone, without waiting for it: that waits for transactions that are open.
    fn remake(&self, destination: &Destination, now: Timestamp) {
        if self.slots.miss(destination, now) {
            std::mem::drop(self.make(destination));
        }
    }

    fn orders(&self) -> MutexGuard<'_, HashMap<Destination, Arc<Order>>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the order in which a pass is being read, if it has one of its own.
    fn order(&self, leader: &Leader, pass: Pass) -> Option<Arc<Order>> {
        let orders = self.orders();
        let order = orders.get(&leader.destination)?;
        (order.leader == *leader && order.pass == pass).then(|| Arc::clone(order))
    }

    /// Tells of events that a slot did not tell of: from before it was made, or lost with it.
    fn tell_missed(&self, order: &Order) {
        let (destination, events) = (&order.leader.destination, order.missed);
        let is_new = self.slots.read(destination, order.pass);
        if events == 0 {
            return;
        }
        self.missed.fetch_add(events, Ordering::Relaxed);
        if is_new {
            tracing::warn!(
                %destination, events,
                "the replication slot is new: what was appended before it is read from the table"
            );
        } else {
            tracing::error!(
                %destination, events,
                "the replication slot had lost events: they are read from the table"
            );
        }
    }

    /// Asks which pass is open, and puts its events in order.
    async fn load(&self, leader: &Leader) -> Result<Loaded, StoreError> {
        let names = self.names(&leader.destination);
        let flushed = self.store.links.settings.outbox_flushed;
        let load = Load { leader: leader.clone(), names, flushed };
        let loaded = self.unused(load).await?;
        let destination = &leader.destination;
        match &loaded {
            Loaded::Nothing(now) => self.idle(destination, *now),
            Loaded::Ordered { order, .. } => {
                self.tell_missed(order);
                self.orders().insert(destination.clone(), Arc::clone(order));
            }
            Loaded::Unordered { slot: Standing::Gone, now } => self.remake(destination, *now),
            Loaded::Unordered { .. } => {}
        }
        Ok(loaded)
    }

    /// Loads a pass, and waits a moment for another session that reads the slot, such as one of this
    /// process whose connection has just been ended.
    async fn unused(&self, load: Load) -> Result<Loaded, StoreError> {
        let clock = &self.store.links.clock;
        let mut pause = PAUSE;
        loop {
            let loaded = self.store.soon(load.clone()).await?;
            let destination = &load.leader.destination;
            let is_used = matches!(&loaded, Loaded::Unordered { slot: Standing::Used, .. });
            if !is_used {
                return Ok(loaded);
            } else if pause > PAUSE_MAX || self.slots.is_used(destination) {
                if self.slots.meet_used(destination) {
                    tracing::warn!(
                        %destination,
                        "another session reads the replication slot: until it stops, events leave in \
                         the order of their positions"
                    );
                }
                return Ok(loaded);
            }
            clock.sleep_until(clock.monotonic().after(pause)).await;
            pause *= 2;
        }
    }

    /// Reads a window as without a slot, and so to the end of the pass.
    async fn by_positions(
        &self,
        leader: Leader,
        after: Option<(Pass, Pos)>,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Window, StoreError> {
        self.orders().remove(&leader.destination);
        self.store.read(leader, after, limit, bytes_max).await
    }

    /// Lets a slot go on now and then while nothing waits: others write to the log too, and the server
    /// would keep it all.
    fn idle(&self, destination: &Destination, now: Timestamp) {
        let mut idled = self.idled.lock().unwrap_or_else(PoisonError::into_inner);
        let last = idled.entry(destination.clone()).or_insert(now);
        if now.since(*last) < IDLE {
            return;
        }
        *last = now;
        let (links, slots) = (Arc::clone(&self.store.links), Arc::clone(&self.slots));
        let (destination, names) = (destination.clone(), self.names(destination));
        self.store.tasks.spawn(async move {
            let idle = Idle { destination: destination.clone(), names: names.clone() };
            match links.run(&idle).await {
                Ok(Standing::Gone) if slots.miss(&destination, now) => {
                    slots.make(&links, destination, names).await;
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%destination, %error, "a replication slot stays behind for now");
                }
            }
        });
    }
}

#[async_trait]
impl OutboxStore for SlotOutbox {
    async fn lead(&self, ask: Lead) -> Result<Led, StoreError> {
        let led = self.store.take_lead(ask).await?;
        if let Led::Leader(leader) = &led {
            // It tells itself what goes wrong.
            let _ = self.make(&leader.destination).await;
        }
        Ok(led)
    }

    async fn renew(&self, leader: Leader, lease: Duration) -> Result<Settled, StoreError> {
        self.store.renew(leader, lease).await
    }

    async fn resign(&self, leader: Leader) -> Result<Settled, StoreError> {
        self.store.resign(leader).await
    }

    async fn read(
        &self,
        leader: Leader,
        after: Option<(Pass, Pos)>,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Window, StoreError> {
        let going_on = after.map(|(pass, _)| self.order(&leader, pass));
        let (order, now) = match going_on {
            Some(Some(order)) => (order, None),
            Some(None) => return self.by_positions(leader, after, limit, bytes_max).await,
            None => match self.load(&leader).await? {
                Loaded::Nothing(now) => {
                    let (events, upto) = (Vec::new(), Pos(0));
                    return Ok(Window { pass: None, events, upto, ends: true, now });
                }
                Loaded::Ordered { order, now } => (order, Some(now)),
                Loaded::Unordered { .. } => {
                    return self.by_positions(leader, after, limit, bytes_max).await;
                }
            },
        };
        let behind = after.filter(|(pass, _)| *pass == order.pass).map_or(Pos(0), |(_, pos)| pos);
        let limit = limit.clamp(1, READ_MAX);
        let bytes_max = bytes_max.max(1);
        self.store.soon(Chosen { order, behind, limit, bytes_max, now }).await
    }

    async fn settle(&self, mut settle: Settle) -> Result<Settled, StoreError> {
        let order = self.orders().get(&settle.destination).cloned();
        let order = order.filter(|order| order.is_of(&settle));
        let Some(order) = order else {
            return self.store.settle(settle).await;
        };
        order.place(&mut settle)?;
        let ends = settle.ends;
        let settled = self.store.settle(settle).await?;
        if ends && settled == Settled::Stored {
            // Killed before this, the slot tells again what is settled, which the table knows.
            self.orders().remove(&order.leader.destination);
            if let Some(upto) = order.confirm {
                let slot = self.slot_name(&order.leader.destination);
                if let Err(error) = self.store.soon(Advance { slot, upto }).await {
                    let destination = &order.leader.destination;
                    tracing::warn!(%destination, %error, "a replication slot stays behind for now");
                }
            }
        }
        Ok(settled)
    }

    async fn parked_lanes(
        &self,
        destination: Destination,
        after: Option<Lane>,
    ) -> Result<Vec<Lane>, StoreError> {
        self.store.parked_lanes(destination, after).await
    }

    async fn due(
        &self,
        destination: Destination,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Vec<Due>, StoreError> {
        self.store.due(destination, limit, bytes_max).await
    }
}
