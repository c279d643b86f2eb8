//! Bounds: what is too large is refused whole.

use semel::{
    StoreErrorKind,
    outbox::{
        Event, Lead, Settle,
        store::{READ_MAX, Unpark},
    },
};

use super::{FreshOutbox, verbs::*};

/// An event that breaks a bound is not appended, and neither is what was to be appended with it.
pub async fn an_event_over_a_bound_is_not_appended(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let large = |change: fn(&mut Event)| {
        let mut event = event("a", "x");
        change(&mut event);
        event
    };
    let bad = [
        large(|event| event.payload = Some(vec![0; Event::PAYLOAD_MAX + 1].into())),
        large(|event| event.kind = "x".repeat(Event::KIND_MAX + 1).into()),
        large(|event| event.kind = "".into()),
        large(|event| event.headers = vec![("a".into(), "b".into()); Event::HEADERS_MAX + 1]),
        large(|event| event.headers = vec![("a".into(), "b\nc".into())]),
        large(|event| event.trace = Some("x".repeat(Event::TRACE_MAX + 1).into())),
    ];
    for bad in bad {
        let mut transaction = on.producer.begin().await;
        let appended = transaction.append(vec![event("a", "good"), bad]).await;
        assert!(appended.is_err());
        transaction.roll_back().await;
    }
    assert_eq!(on.events().await, []);
    assert!(on.rest(&leader).await.is_none());
}

/// A settlement of more rows than may be settled at once is refused whole.
pub async fn a_settlement_over_the_bound_is_refused(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = events(2);
    on.commit(&told).await;
    let rest = on.some(&leader).await;
    let upto = Some((rest.pass, rest.upto));
    let whole = Settle { upto, ends: true, ..settlement(&leader) };
    let rows = READ_MAX + 1;
    let park = Settle { park: vec![failed(&rest.placed[0]); rows], ..whole.clone() };
    let unpark = Settle { unpark: vec![Unpark::Sent { seq: 1 }; rows], ..whole };
    for settle in [park, unpark] {
        let refused = on.store.settle(settle).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Invalid);
    }
    assert_eq!(on.parked().await, []);
    assert_eq!(ids(&on.some(&leader).await.placed), ids_of(&told));
}

/// A settlement of as many rows as may be settled at once is stored.
pub async fn a_settlement_of_the_largest_size_is_stored(on: FreshOutbox) {
    let leader = on.lead("first").await;
    for events in events(READ_MAX).chunks(1_000) {
        on.commit(events).await;
    }
    let mut seen = 0;
    while let Some(rest) = on.rest(&leader).await {
        let park = rest.placed.iter().map(behind).collect();
        let upto = Some((rest.pass, rest.upto));
        on.stored(Settle { upto, ends: true, park, ..settlement(&leader) }).await;
        seen += rest.placed.len();
    }
    assert_eq!(seen, READ_MAX);
    assert_eq!(on.state().await.parked, READ_MAX as u64);
}

/// Whoever asks to lead under too long a name is refused.
pub async fn a_leader_over_the_bound_is_refused(on: FreshOutbox) {
    let ask = Lead { owner: "x".repeat(Lead::OWNER_MAX + 1).into(), ..lead(&kafka(), "") };
    let refused = on.store.lead(ask).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Invalid);
    let ask = Lead { owner: "x".repeat(Lead::OWNER_MAX).into(), ..lead(&kafka(), "") };
    led(&*on.store, ask).await;
}

/// More marks than may be made at once are refused.
pub async fn too_many_marks_are_refused(on: FreshOutbox) {
    on.lead("first").await;
    let seqs = (0..=READ_MAX as u64).collect();
    let marked = on.inspect.mark(kafka(), seqs, semel::outbox::ParkedState::Skip, actor()).await;
    assert_eq!(marked.unwrap_err().kind(), StoreErrorKind::Invalid);
}
