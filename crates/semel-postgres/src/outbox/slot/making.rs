//! Makes slots, at once and whenever one is gone.

use std::{
    collections::HashMap,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use semel::{
    StoreError, Timestamp,
    outbox::{Destination, store::Pass},
};

use super::{super::no_answer, order::Names};
use crate::{
    error::{Fault, invalid},
    link::{Links, Step, Work},
    value::{Cells, Value},
};

/// How often it is tried to make a slot that is missing.
const AGAIN: Duration = Duration::from_secs(10);

/// What this process knows of the slots of the destinations that it leads.
#[derive(Debug, Default)]
pub(super) struct Slots(Mutex<HashMap<Destination, Slot>>);

#[derive(Debug, Default)]
struct Slot {
    /// It was there.
    had: bool,
    age: Age,
    tried: Option<Timestamp>,
    /// Another session reads it, as far as is known.
    used: bool,
    /// What was last told of why there is none.
    trouble: Option<String>,
}

/// Up to which pass a slot has not told of everything, since it is new.
#[derive(Clone, Copy, Debug, Default)]
enum Age {
    /// No pass was read since it was made.
    New,
    #[default]
    Old,
    Through(Pass),
}

impl Slots {
    fn slots(&self) -> MutexGuard<'_, HashMap<Destination, Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether it is time to make a slot that is gone, and tells of one that was there.
    pub(super) fn miss(&self, destination: &Destination, now: Timestamp) -> bool {
        let mut slots = self.slots();
        let slot = slots.entry(destination.clone()).or_default();
        if mem::take(&mut slot.had) {
            tracing::error!(
                %destination,
                "the replication slot is gone: it is made anew, and until then events leave in the \
                 order of their positions"
            );
        } else if slot.tried.is_some_and(|tried| now.since(tried) < AGAIN) {
            return false;
        }
        slot.tried = Some(now);
        true
    }

    /// Says whether another session reads the slot, as far as is known.
    pub(super) fn is_used(&self, destination: &Destination) -> bool {
        self.slots().get(destination).is_some_and(|slot| slot.used)
    }

    /// Notes that another session reads the slot; says whether that is new.
    pub(super) fn meet_used(&self, destination: &Destination) -> bool {
        let mut slots = self.slots();
        !mem::replace(&mut slots.entry(destination.clone()).or_default().used, true)
    }

    /// Notes that a pass was put in the order of the slot; says whether the slot is so new that it cannot
    /// know all of it. That goes for the first pass, which was perhaps opened before the slot was made, and
    /// for the next, which begins where the first did.
    pub(super) fn read(&self, destination: &Destination, pass: Pass) -> bool {
        let mut slots = self.slots();
        let slot = slots.entry(destination.clone()).or_default();
        slot.had = true;
        slot.used = false;
        if matches!(slot.age, Age::New) {
            slot.age = Age::Through(Pass(pass.0.saturating_add(1)));
        }
        matches!(slot.age, Age::Through(last) if pass <= last)
    }

    /// Makes the slot of a destination if it is missing. It is no harm if that fails: a pass then has the
    /// order of positions.
    pub(super) async fn make(&self, links: &Links, destination: Destination, names: Names) {
        let made = match links.run(&Find { names: names.clone() }).await {
            Ok(Found { slot: Some(true), publication: true, .. }) => Ok(false),
            Ok(Found { logical: false, .. }) => Err(invalid(
                "the server's wal_level is not logical; without a slot events leave in the order of \
                 their positions",
            )),
            Ok(found) => {
                let is_new = found.slot != Some(true);
                let create = Create { destination: destination.clone(), names, found };
                links.run(&create).await.map(|()| is_new)
            }
            Err(error) => Err(error),
        };
        self.have_made(&destination, made);
    }

    fn have_made(&self, destination: &Destination, made: Result<bool, StoreError>) {
        let mut slots = self.slots();
        let slot = slots.entry(destination.clone()).or_default();
        match made {
            Ok(is_new) => {
                slot.had = true;
                slot.trouble = None;
                if is_new {
                    slot.age = Age::New;
                    tracing::info!(%destination, "made a replication slot");
                }
            }
            Err(error) => {
                let told = error.to_string();
                if slot.trouble.as_ref() != Some(&told) {
                    tracing::warn!(%destination, %error, "has no replication slot for now");
                    slot.trouble = Some(told);
                }
            }
        }
    }
}

/// Looks for a slot.
pub(super) struct Find {
    pub(super) names: Names,
}

/// What is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) publication: bool,
    /// Whether it can be read; `None` if there is none.
    pub(super) slot: Option<bool>,
    /// Whether the server writes what a slot needs.
    pub(super) logical: bool,
}

impl Work for Find {
    type Done = Found;

    async fn run(&self, step: Step<'_>) -> Result<Found, Fault> {
        find(step, &self.names).await
    }
}

pub(super) async fn find(step: Step<'_>, names: &Names) -> Result<Found, Fault> {
    let values = names.values();
    let params: Vec<_> = values.iter().map(Value::param).collect();
    let rows = step.rows(&step.statements().slot_find, &params).await?;
    let row = rows.first().ok_or_else(no_answer)?;
    let publication = row.truth(0)? == Some(true);
    Ok(Found { publication, slot: row.truth(1)?, logical: row.truth(2)? == Some(true) })
}

/// Makes what is missing of a slot and its publication; a slot that was lost is made anew.
pub(super) struct Create {
    pub(super) destination: Destination,
    pub(super) names: Names,
    pub(super) found: Found,
}

impl Work for Create {
    type Done = ();

    async fn run(&self, step: Step<'_>) -> Result<(), Fault> {
        let [slot, publication] = self.names.values();
        if !self.found.publication {
            step.rows(&step.statements().slot_publish, &[publication.param()]).await?;
        }
        if self.found.slot == Some(false) {
            step.rows(&step.statements().slot_drop, &[slot.param()]).await?;
        }
        if self.found.slot == Some(true) {
            return Ok(());
        }
        match step.rows(&step.statements().slot_create, &[slot.param()]).await {
            // Another relay was quicker.
            Err(fault) if fault.found_made() => {}
            created => drop(created?),
        }
        // One that was forgotten meanwhile has nobody to drop its slot.
        let destination = Value::Text(Some(self.destination.as_str()));
        let known = step.rows(&step.statements().outbox_settled, &[destination.param()]).await?;
        if known.is_empty() {
            step.rows(&step.statements().slot_drop, &[slot.param()]).await?;
            return Err(invalid("the destination was forgotten").into());
        }
        Ok(())
    }
}

/// Drops a slot.
pub(super) struct Drop {
    pub(super) slot: String,
}

impl Work for Drop {
    type Done = bool;

    async fn run(&self, step: Step<'_>) -> Result<bool, Fault> {
        let slot = Value::Text(Some(&self.slot));
        let dropped = step.rows(&step.statements().slot_drop, &[slot.param()]).await?;
        Ok(!dropped.is_empty())
    }
}
