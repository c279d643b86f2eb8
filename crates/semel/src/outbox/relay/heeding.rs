//! What operators say about rows that are in hand.

use super::{super::store::Due, driver::Driver, lanes::Origin, sending::put_by, term::Term};

impl Driver {
    /// Takes a lane out of hand if an operator has said meanwhile what is to become of its first row, so
    /// that it is taken in hand anew, as they said. While that row is on its way it may still arrive: it
    /// is told again when it is back.
    pub(super) fn heed(&self, term: &mut Term, due: &Due) {
        let Some(row) = due.rows.first() else {
            return;
        };
        let Some(nth) = term.lanes.find(&row.placed.event.lane) else {
            return;
        };
        let head = term.lanes.head(nth).map(|head| head.origin);
        let Some(Origin::Parked { seq, state }) = head else {
            return;
        };
        if seq == row.seq && state != row.state && term.lanes.flying_since(nth).is_none() {
            let items = term.lanes.drain(nth);
            put_by(term, items, None, None);
        }
    }
}
