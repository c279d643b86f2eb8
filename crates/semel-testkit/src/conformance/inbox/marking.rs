//! What operators say of parked messages.

use semel::inbox::{
    InboxAuditKind, Mark, Mismatch, ParkAnswer, ParkedFilter, ParkedState, Standing,
};

use super::{FreshInbox, verbs::*};

/// A message that was left out is never run, and can be taken back while its copy is there.
pub async fn what_is_skipped_can_be_taken_back(on: FreshInbox) {
    assert_eq!(on.park(delivery("a")).await, ParkAnswer::Parked);
    assert!(on.mark("a", Mark::Skip).await);
    assert_eq!(copy(on.handle(&delivery("a")).await).standing, Standing::LeftOut);
    assert_eq!(on.state("a").await.parked.unwrap().state, ParkedState::Skipped);
    assert_eq!(on.due().await, []);
    assert!(on.mark("a", Mark::Retry).await);
    let again = on.due().await[0].delivery();
    first(on.handle(&again).await);
    assert_eq!(on.effects().await, 1);
}

/// A message that is dropped has no copy any more, and is known for ever all the same.
pub async fn what_is_dropped_stays_known(on: FreshInbox) {
    assert_eq!(on.park(delivery("a")).await, ParkAnswer::Parked);
    assert!(on.mark("a", Mark::Drop).await);
    assert_eq!(on.parked().await, []);
    for mark in [Mark::Retry, Mark::Skip, Mark::Drop] {
        assert!(!on.mark("a", mark).await, "its copy is gone");
    }
    on.after(50 * 365 * DAY).await;
    on.swept(100).await;
    assert_eq!(copy(on.handle(&delivery("a")).await).standing, Standing::LeftOut);
    assert_eq!(on.effects().await, 0);
}

/// Only what is parked and not done is marked: everything else is answered no and left alone.
pub async fn only_what_is_parked_is_marked(on: FreshInbox) {
    let done = first(on.handle(&delivery("done")).await);
    let again = on.again("again").await;
    first(on.handle(&again).await);
    for id in ["absent", "done", "again"] {
        for mark in [Mark::Retry, Mark::Skip, Mark::Drop] {
            assert!(!on.mark(id, mark).await, "{id}");
        }
    }
    assert_eq!(copy(on.handle(&delivery("done")).await), done);
    assert_eq!(on.audit().await.len(), 1, "of the one word that counted");
}

/// Every word that counts is in the audit, with who said it and why.
pub async fn a_word_is_audited(on: FreshInbox) {
    for id in ["a", "b"] {
        assert_eq!(on.park(delivery(id)).await, ParkAnswer::Parked);
    }
    for (id, mark) in [("a", Mark::Skip), ("b", Mark::Drop), ("a", Mark::Retry)] {
        on.after(INSTANT).await;
        assert!(on.mark(id, mark).await);
    }
    let audit = on.audit().await;
    let said: Vec<_> = audit.iter().map(|row| (row.message.id(), row.kind)).collect();
    let marked = InboxAuditKind::Marked;
    assert_eq!(
        said,
        [("a", marked(Mark::Retry)), ("b", marked(Mark::Drop)), ("a", marked(Mark::Skip))]
    );
    for row in &audit {
        assert_eq!((&*row.actor, &*row.note), ("ada", "the schema was mended"));
        assert_eq!(row.consumer, billing());
    }
    assert!(audit.is_sorted_by(|later, earlier| later.at > earlier.at), "newest first");
}

/// A mismatch that was reported is in the audit, with both digests.
pub async fn a_mismatch_is_audited(on: FreshInbox) {
    let reported = Mismatch {
        consumer: billing(),
        message: message("a"),
        recorded: telling("a", "ten").fingerprint(),
        came: telling("a", "eleven").fingerprint(),
    };
    on.store.report(reported.clone()).await.unwrap();
    let audit = on.audit().await;
    assert_eq!((audit.len(), audit[0].kind), (1, InboxAuditKind::Mismatch));
    assert_eq!((&*audit[0].note, &audit[0].message), (&*reported.note(), &message("a")));
}

/// The audit is read of one consumer or of all, and so many rows at most.
pub async fn the_audit_is_chosen_by_consumer(on: FreshInbox) {
    for (name, id) in [("billing", "a"), ("mailing", "b"), ("billing", "c")] {
        let fingerprint = delivery(id).fingerprint();
        let (consumer, message) = (consumer(name), message(id));
        let (recorded, came) = (fingerprint, fingerprint);
        on.store.report(Mismatch { consumer, message, recorded, came }).await.unwrap();
    }
    let read = async |name: Option<&str>, limit| -> Vec<String> {
        let rows = on.inspect.inbox_audit(name.map(consumer), limit).await.unwrap();
        rows.iter().map(|row| row.message.id().to_owned()).collect()
    };
    assert_eq!(read(None, 10).await, ["c", "b", "a"]);
    assert_eq!(read(Some("billing"), 10).await, ["c", "a"]);
    assert_eq!(read(None, 1).await, ["c"]);
    assert_eq!(read(Some("nobody"), 10).await, [""; 0]);
}

/// What operators said shows in the lists.
pub async fn a_mark_shows_in_the_lists(on: FreshInbox) {
    for id in ["a", "b", "c"] {
        assert_eq!(on.park(delivery(id)).await, ParkAnswer::Parked);
    }
    assert!(on.mark("b", Mark::Retry).await && on.mark("c", Mark::Skip).await);
    for (state, id) in
        [(ParkedState::Failed, "a"), (ParkedState::Retry, "b"), (ParkedState::Skipped, "c")]
    {
        let filter = ParkedFilter { state: Some(state), limit: 10, ..ParkedFilter::default() };
        assert_eq!(parked_ids(&on.inspect.parked(filter).await.unwrap()), [id]);
    }
    let seen = &on.inspect.consumers().await.unwrap()[0];
    assert_eq!((seen.failed, seen.retry, seen.remembered), (1, 1, 3));
}
