//! What became of the events: the rules of an outbox, judged by what was committed and what arrived.

use semel_testkit::{Deliveries, deliveries::Flaw};
use serde::Serialize;

use crate::http::scenario::Rule;

pub(super) const ARRIVE: Rule =
    Rule { name: "no-event-lost", says: "Every event whose transaction committed arrives." };
pub(super) const IN_ORDER: Rule = Rule {
    name: "events-in-order",
    says: "The events of an aggregate first arrive in the order in which they were committed.",
};
pub(super) const TRUE: Rule = Rule {
    name: "no-false-event",
    says: "What arrives is an event whose transaction committed, under its one id and as it was written.",
};

/// What became of the events.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Events {
    /// How many were committed.
    pub committed: usize,
    /// How many were appended by transactions that were rolled back.
    pub rolled_back: usize,
    /// How many different ones arrived.
    pub arrived: usize,
    /// How many further copies of them did.
    pub copies: usize,
    /// How many never arrived.
    pub lost: usize,
    /// How many first arrived behind a later one of their aggregate.
    pub out_of_order: usize,
    /// How many copies told of what was not committed, or not so.
    pub untrue: usize,
    /// What is wrong, by its rule.
    #[serde(skip)]
    pub(super) faults: Faults,
}

/// What breaks each rule.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub(super) lost: Vec<String>,
    pub(super) out_of_order: Vec<String>,
    pub(super) untrue: Vec<String>,
}

impl Events {
    /// Judges what was committed and what arrived, all deliveries being made by now.
    pub(super) fn of(deliveries: &Deliveries) -> Self {
        let judged = deliveries.judge();
        let mut faults = Faults::default();
        for flaw in &judged.flaws {
            let of = match flaw {
                Flaw::Inverted { .. } => &mut faults.out_of_order,
                Flaw::Lost { .. } => &mut faults.lost,
                Flaw::Invented(_) | Flaw::OtherContent { .. } | Flaw::RolledBack(_) => {
                    &mut faults.untrue
                }
            };
            of.push(flaw.to_string());
        }
        Self {
            committed: judged.committed,
            rolled_back: deliveries.rolled_back_count(),
            arrived: judged.delivered,
            copies: judged.copies,
            lost: faults.lost.len(),
            out_of_order: faults.out_of_order.len(),
            untrue: faults.untrue.len(),
            faults,
        }
    }
}

#[cfg(test)]
mod tests {
    use semel::{
        SystemClock,
        entropy::SystemEntropy,
        outbox::{EventId, Lane},
    };

    use super::*;

    #[test]
    fn each_flaw_breaks_its_own_rule() {
        let (deliveries, lane) = (Deliveries::default(), Lane::new("drill", "1").unwrap());
        let ids: Vec<_> =
            (0..4).map(|_| EventId::new(&SystemClock::new(), &SystemEntropy)).collect();
        for (number, id) in (1..).zip(&ids) {
            deliveries.appended(*id, &lane, number);
        }
        deliveries.rolled_back_if_appended(ids[3]);
        ids[..3].iter().for_each(|id| deliveries.committed(*id));
        for (at, number) in [(1, 2), (1, 2), (0, 1), (3, 4)] {
            deliveries.delivered(ids[at], &lane, number);
        }
        let events = Events::of(&deliveries);
        assert_eq!((events.committed, events.rolled_back), (3, 1));
        assert_eq!((events.arrived, events.copies), (3, 1));
        assert_eq!((events.lost, events.out_of_order, events.untrue), (1, 1, 1));
    }
}
