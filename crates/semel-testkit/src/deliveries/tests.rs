//! Every promise can be seen broken.

use super::*;

fn id(number: u8) -> EventId {
    EventId::from_bytes([number; 16])
}

fn lane(id: &str) -> Lane {
    Lane::new("order", id).unwrap()
}

/// Two events of `a`, one of `b`, one rolled back and one of which nobody knows the end.
fn appended() -> Deliveries {
    let deliveries = Deliveries::default();
    for (number, name) in [(1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "b")] {
        deliveries.appended(id(number), &lane(name), u64::from(number));
    }
    for number in 1..=3 {
        deliveries.committed(id(number));
    }
    deliveries.rolled_back(id(4));
    deliveries
}

fn delivered(copies: &[(u8, &str)]) -> Judgement {
    let deliveries = appended();
    for (number, name) in copies {
        deliveries.delivered(id(*number), &lane(name), u64::from(*number));
    }
    deliveries.judge()
}

#[test]
fn copies_of_what_was_committed_break_nothing() {
    let sound = delivered(&[(3, "b"), (1, "a"), (2, "a"), (1, "a"), (2, "a"), (5, "b")]);
    let wanted = Judgement { committed: 3, delivered: 4, copies: 2, flaws: vec![] };
    assert_eq!(sound, wanted);
    assert_eq!(delivered(&[(1, "a"), (2, "a"), (3, "b")]).flaws, []);
}

#[test]
fn a_lost_event_is_found() {
    let judgement = delivered(&[(1, "a"), (3, "b")]);
    assert_eq!(judgement.flaws, [Flaw::Lost { lane: lane("a"), number: 2 }]);
    assert_eq!((judgement.lost(), judgement.inverted()), (1, 0));
}

#[test]
fn a_first_delivery_out_of_order_is_found() {
    let judgement = delivered(&[(2, "a"), (1, "a"), (3, "b")]);
    assert_eq!(judgement.flaws, [Flaw::Inverted { lane: lane("a"), number: 1, after: 2 }]);
    assert_eq!((judgement.lost(), judgement.inverted()), (0, 1));
}

#[test]
fn an_event_of_a_rolled_back_transaction_is_found() {
    let judgement = delivered(&[(1, "a"), (2, "a"), (3, "b"), (4, "a")]);
    assert_eq!(judgement.flaws, [Flaw::RolledBack(id(4))]);
}

#[test]
fn an_event_that_nobody_appended_is_found() {
    let judgement = delivered(&[(1, "a"), (2, "a"), (3, "b"), (9, "c")]);
    assert_eq!(judgement.flaws, [Flaw::Invented(id(9))]);
}

#[test]
fn a_copy_that_tells_something_else_is_found() {
    let judgement = delivered(&[(1, "a"), (2, "a"), (3, "b"), (1, "b")]);
    assert_eq!(judgement.flaws, [Flaw::OtherContent { id: id(1), told: (lane("b"), 1) }]);
}
