//! When the oldest event was appended that is parked and waits only to be sent.
//!
//! The store tells it with what is due. What was parked since it was last asked is added here, so that
//! an event never looks as if it had arrived while it goes from the table to its parked row.

use super::super::store::{Park, Parked, ParkedState};
use crate::clock::Timestamp;

/// The oldest event of each kind of what is parked.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// Of a settlement that is not known to be stored.
    settling: Option<Timestamp>,
    /// Parked since it was last asked what is due.
    parked: Option<Timestamp>,
    /// Parked before it was last asked, while that is not answered.
    asked: Option<Timestamp>,
    /// Told to be due.
    told: Option<Timestamp>,
}

impl Aside {
    /// Rows are to be parked by the next settlement.
    pub(super) fn settles(&mut self, rows: &[Park]) {
        let behind = rows.iter().filter(|row| row.state != ParkedState::Failed);
        self.settling = behind.map(|row| row.placed.at).min();
    }

    /// The settlement was stored.
    pub(super) fn stored(&mut self) {
        self.parked = older(self.parked, self.settling.take());
    }

    /// It is asked what is due: what is parked by now will be told.
    pub(super) fn asks(&mut self) {
        self.asked = older(self.asked, self.parked.take());
    }

    /// What is due was told.
    pub(super) fn told<'a>(&mut self, due: impl Iterator<Item = &'a Parked>) {
        let waits = |row: &&Parked| !matches!(row.state, ParkedState::Drop | ParkedState::Skip);
        self.told = due.filter(waits).map(|row| row.placed.at).min();
        self.asked = None;
    }

    /// When the oldest of all was appended.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        [self.settling, self.parked, self.asked, self.told].into_iter().flatten().min()
    }
}

fn older(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::outbox::{Destination, Event, EventId, Lane, Placed, Pos, relay::reading::behind};

    fn placed(at: u64) -> Placed {
        let lane = Lane::new("order", "a").unwrap();
        let event = Event::new(EventId::from_bytes([1; 16]), lane, "Placed", None).unwrap();
        let at = Timestamp::from_micros(at);
        Placed { pos: Pos(1), at, event: Arc::new(event), unreadable: None }
    }

    fn due(at: u64) -> Parked {
        Parked {
            seq: 1,
            destination: Destination::new("bus").unwrap(),
            placed: placed(at),
            state: ParkedState::Behind,
            attempts: 0,
            why: "".into(),
            parked_at: Timestamp::from_micros(at),
        }
    }

    #[test]
    fn an_event_is_known_from_its_settlement_until_it_is_no_longer_due() {
        let mut aside = Aside::default();
        let at = |of: &Aside| of.oldest().map(Timestamp::as_micros);
        aside.settles(&[behind(placed(7))]);
        // What is told to be due meanwhile may not know of it yet.
        aside.asks();
        aside.told([].iter());
        assert_eq!(at(&aside), Some(7));
        aside.asks();
        aside.stored();
        aside.told([due(9)].iter());
        assert_eq!(at(&aside), Some(7));
        aside.asks();
        assert_eq!(at(&aside), Some(7));
        aside.told([due(7), due(9)].iter());
        assert_eq!(at(&aside), Some(7));
        aside.told([].iter());
        assert_eq!(at(&aside), None);
    }
}
