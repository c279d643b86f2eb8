//! A replication slot as the source of order: events of a pass leave in the order of their commits.
//!
//! What is in a pass is the table's affair, as without a slot: passes, cursor, leadership and parked
//! lanes are the same rows. The slot tells the order inside a pass, and what it tells is compared with
//! the table: what a slot has lost, such as one that was dropped and made again, is read from the table
//! and told of loudly. Without a slot, or with a backlog of more than [`SlotOutbox::ORDERED_MAX`] events, a pass has
//! the order of positions.

mod order;
pub(crate) mod pgoutput;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use semel::{
    StoreError, Timestamp,
    outbox::{
        Destination, Lane, Lead, Leader, Led, OutboxStore, Parked, Pos, Settle, Settled, Window,
        store::{Pass, READ_MAX},
    },
};

use self::order::{Advance, Chosen, Create, Drop, Find, Found, Idle, Load, Loaded, Names, Order};
use crate::{PostgresStore, error::invalid};

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
    /// Slots that were made since an order was last asked of them.
    made: Mutex<HashSet<Destination>>,
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
            made: Mutex::default(),
        }
    }
}

/// How often a slot is let go on while nothing waits.
const IDLE: Duration = Duration::from_secs(10);

/// How much of a destination's name is shown in that of its slot, which has at most 63 bytes.
const SHOWN_MAX: usize = 40;

impl PostgresStore {
    pub(super) fn slot_name(&self, destination: &Destination) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        let shown: String = destination.as_str().chars().take(SHOWN_MAX).map(plain).collect();
        let number = self.links.secret.tells_apart(destination.as_str());
        format!("semel_{shown}_{number:016x}")
    }

    /// Drops a slot, if it is there and nobody reads it.
    pub(super) async fn drop_slot(&self, slot: String) -> Result<(), StoreError> {
        self.soon(Drop { slot }).await
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
        self.store.drop_slot(self.slot_name(destination)).await
    }

    /// Makes the slot of a destination if it is missing. It is no harm if that fails: a pass then has the
    /// order of positions.
    async fn prepare(&self, destination: &Destination) {
        let names = self.names(destination);
        let made = match self.store.soon(Find { names: names.clone() }).await {
            Ok(Found { slot: Some(true), publication: true, .. }) => return,
            Ok(Found { logical: false, .. }) => Err(invalid(
                "the server's wal_level is not logical; without a slot events leave in the \
                             order of their positions",
            )),
            Ok(found) => self.store.soon(Create { names, found }).await,
            Err(error) => Err(error),
        };
        match made {
            Ok(()) => {
                tracing::info!(%destination, "made a replication slot");
                let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
                made.insert(destination.clone());
            }
            Err(error) => tracing::warn!(%destination, %error, "has no replication slot for now"),
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
    fn tell_missed(&self, destination: &Destination, events: u64) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = made.remove(destination);
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
        let loaded = self.store.soon(load).await?;
        match &loaded {
            Loaded::Nothing(now) => self.idle(&leader.destination, *now),
            Loaded::Ordered { order, .. } => {
                self.tell_missed(&leader.destination, order.missed);
                self.orders().insert(leader.destination.clone(), Arc::clone(order));
            }
            Loaded::Unordered => {}
        }
        Ok(loaded)
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
        let (links, destination) = (Arc::clone(&self.store.links), destination.clone());
        let names = self.names(&destination);
        self.store.tasks.spawn(async move {
            let idle = Idle { destination: destination.clone(), names };
            if let Err(error) = links.run(&idle).await {
                tracing::warn!(%destination, %error, "a replication slot stays behind for now");
            }
        });
    }
}

#[async_trait]
impl OutboxStore for SlotOutbox {
    async fn lead(&self, ask: Lead) -> Result<Led, StoreError> {
        let led = self.store.lead(ask).await?;
        if let Led::Leader(leader) = &led {
            self.prepare(&leader.destination).await;
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
                Loaded::Unordered => {
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

    async fn due(&self, destination: Destination, limit: usize) -> Result<Vec<Parked>, StoreError> {
        self.store.due(destination, limit).await
    }
}
