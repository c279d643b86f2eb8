//! Words of operators on parked rows: marked by them, done by the leader alone.

use semel::{
    StoreErrorKind,
    outbox::{OutboxAuditKind, ParkedState, store::Unpark},
};

use super::{FreshOutbox, verbs::*};

/// Only rows that wait for a word are marked, and a word can be changed until it is done.
pub async fn only_what_waits_for_a_word_is_marked(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let rows = on.park_lane(&leader, "a", 2).await;
    let seqs: Vec<_> = rows.iter().map(|row| row.seq).collect();
    for state in [ParkedState::Retry, ParkedState::Skip, ParkedState::Drop, ParkedState::Retry] {
        assert_eq!(on.mark(&seqs, state).await, 1, "{state:?}");
        let states: Vec<_> = on.parked().await.iter().map(|row| row.state).collect();
        assert_eq!(states, [state, ParkedState::Behind]);
        let due = on.due_rows().await;
        assert_eq!((due[0].seq, due[0].state), (rows[0].seq, state));
        assert_eq!(due.len(), if state == ParkedState::Retry { 2 } else { 1 });
    }
}

/// M41: a head that is sent again and again without an end is marked too, and nothing behind it is.
pub async fn a_head_is_marked_whatever_it_waits_for(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let both = [event("a", "1"), event("a", "2")];
    let rows = on.park(&leader, &both, |_, placed| behind(placed)).await;
    let seqs: Vec<_> = rows.iter().map(|row| row.seq).collect();
    for state in [ParkedState::Retry, ParkedState::Drop, ParkedState::Skip] {
        assert_eq!(on.mark(&seqs, state).await, 1, "{state:?}");
        let states: Vec<_> = on.parked().await.iter().map(|row| row.state).collect();
        assert_eq!(states, [state, ParkedState::Behind]);
    }
    on.unpark(&leader, Unpark::LeftOut { seq: seqs[0] }).await;
    assert_eq!(parked_ids(&on.parked().await), [both[1].id]);
    assert_eq!(on.mark(&seqs, ParkedState::Skip).await, 1);
}

/// A mark sends nothing and takes nothing away: the row is as it was but for its state.
pub async fn a_mark_changes_the_state_alone(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let rows = on.park_lane(&leader, "a", 1).await;
    on.mark(&[rows[0].seq], ParkedState::Drop).await;
    let mut marked = rows[0].clone();
    marked.state = ParkedState::Drop;
    assert_eq!(on.parked().await, [marked]);
}

/// Rows of another destination, and rows that are not there, are not marked.
pub async fn rows_of_others_are_not_marked(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let rows = on.park_lane(&leader, "a", 1).await;
    let seq = rows[0].seq;
    let other = destination("webhooks");
    let marked = on.inspect.mark(other, vec![seq], ParkedState::Skip, actor()).await;
    assert_eq!(marked.unwrap(), 0);
    assert_eq!(on.mark(&[seq + 1_000], ParkedState::Skip).await, 0);
    assert_eq!(on.mark(&[], ParkedState::Skip).await, 0);
    assert_eq!(on.parked().await, rows);
    assert_eq!(on.inspect.outbox_audit(None, 10).await.unwrap(), []);
}

/// Nobody marks a row as failed, or as behind another: those are the leader's.
pub async fn only_words_of_operators_are_marked(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let rows = on.park_lane(&leader, "a", 1).await;
    for state in [ParkedState::Behind, ParkedState::Failed] {
        let marked = on.inspect.mark(kafka(), vec![rows[0].seq], state, actor()).await;
        assert_eq!(marked.unwrap_err().kind(), StoreErrorKind::Invalid);
    }
    assert_eq!(on.parked().await, rows);
}

/// Every row that was marked has a row in the audit.
pub async fn a_mark_is_audited(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let mut rows = on.park_lane(&leader, "a", 2).await;
    rows.extend(on.park_lane(&leader, "b", 1).await);
    let seqs: Vec<_> = rows.iter().map(|row| row.seq).collect();
    assert_eq!(on.mark(&seqs, ParkedState::Skip).await, 2);
    let audit = on.inspect.outbox_audit(Some(kafka()), 10).await.unwrap();
    let mut marked: Vec<_> = audit.iter().map(|row| row.event.unwrap()).collect();
    marked.sort();
    assert_eq!(marked, parked_ids([&rows[0], &rows[2]]));
    for row in audit {
        let said = (row.kind, row.rows, row.destination, &*row.actor, &*row.note);
        let wanted = (OutboxAuditKind::Skip, 1, kafka(), "ada", "the topic was mended");
        assert_eq!(said, wanted);
        assert!(row.at >= rows[2].parked_at);
    }
}

/// A drop names all that went with the first row in the audit, as said by whoever dropped that, and nothing
/// of other lanes.
pub async fn a_drop_names_all_that_it_took(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let rows = on.park_lane(&leader, "a", 3).await;
    let others = on.park_lane(&leader, "b", 2).await;
    assert_eq!(on.mark(&[rows[0].seq], ParkedState::Drop).await, 1);
    on.unpark(&leader, Unpark::LeftOut { seq: rows[0].seq }).await;
    assert_eq!(parked_ids(&on.parked().await), parked_ids(&others));
    let audit = on.inspect.outbox_audit(Some(kafka()), 10).await.unwrap();
    let named: Vec<_> = audit.iter().rev().map(|row| row.event.unwrap()).collect();
    assert_eq!(named, rows.iter().map(|row| row.placed.event.id).collect::<Vec<_>>());
    for row in &audit {
        assert_eq!((row.kind, row.rows, &*row.actor), (OutboxAuditKind::Drop, 1, "ada"));
    }
    let note = format!("behind {}: the topic was mended", rows[0].placed.event.id);
    assert_eq!((&*audit[0].note, &*audit[1].note), (&*note, &*note));
    // The settlement may be repeated after a lost answer.
    on.unpark(&leader, Unpark::LeftOut { seq: rows[0].seq }).await;
    assert_eq!(on.inspect.outbox_audit(Some(kafka()), 10).await.unwrap().len(), 3);
}
