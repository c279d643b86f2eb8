//! What operators see, and what they say.

use semel::inbox::{
    Consumer, InboxAuditKind, InboxInspect, InboxPolicy, InboxStore, Mark, Mismatch, ParkedFilter,
    Standing,
};

use super::{Desk, consumer, delivery, handle, message, park, parking::actor, telling};

#[tokio::test]
async fn consumers_and_what_they_had_are_listed() {
    let mut desk = Desk::new();
    let other = InboxPolicy::new(Consumer::new("mailing").unwrap());
    let other = desk.store.inbox(std::sync::Arc::new(other)).unwrap();
    for id in ["a", "b", "c"] {
        desk.handle(&delivery(id), None).map(drop).unwrap();
    }
    handle(&other, &mut desk.conn, &delivery("b"), Some("sent")).map(drop).unwrap();
    desk.store.park(park(delivery("d"))).await.unwrap();
    desk.store.count(consumer(), vec![message("e")]).await.unwrap();
    let consumers = desk.store.consumers().await.unwrap();
    let seen: Vec<_> = consumers
        .iter()
        .map(|state| (state.consumer.as_str(), state.remembered, state.failed, state.attempted))
        .collect();
    assert_eq!(seen, [("billing", 4, 1, 1), ("mailing", 1, 0, 0)]);
    let page = desk.store.had(consumer(), Some(message("a")), 2).await.unwrap();
    let ids: Vec<_> = page.iter().map(|had| had.message.id()).collect();
    assert_eq!(ids, ["b", "c"]);
    let chain = desk.store.chain("b".into()).await.unwrap();
    let had: Vec<_> = chain.iter().map(|had| had.consumer.as_str()).collect();
    assert_eq!(had, ["billing", "mailing"]);
    assert_eq!(chain[1].recorded.answer.as_deref(), Some(&b"sent"[..]));
    assert_eq!(desk.store.chain("x".into()).await.unwrap(), []);
}

#[tokio::test]
async fn what_operators_say_of_a_parked_message_is_done_and_kept() {
    let mut desk = Desk::new();
    for id in ["a", "b"] {
        desk.store.park(park(delivery(id))).await.unwrap();
    }
    let mark = async |id, mark| desk.store.mark(consumer(), message(id), mark, actor()).await;
    assert!(!mark("x", Mark::Skip).await.unwrap());
    assert!(mark("a", Mark::Skip).await.unwrap());
    assert!(mark("b", Mark::Drop).await.unwrap());
    assert!(!mark("b", Mark::Retry).await.unwrap(), "its copy is gone");
    let standing = async |id| {
        let state = desk.store.message(consumer(), message(id)).await.unwrap();
        (state.recorded.unwrap().standing, state.parked.is_some())
    };
    assert_eq!(standing("a").await, (Standing::LeftOut, true));
    assert_eq!(standing("b").await, (Standing::LeftOut, false));
    assert!(mark("a", Mark::Retry).await.unwrap());
    assert_eq!(standing("a").await, (Standing::Parked, true));
    let filter = ParkedFilter { limit: 9, ..ParkedFilter::default() };
    assert_eq!(desk.store.parked(filter).await.unwrap().len(), 1);
    let mismatch = Mismatch {
        consumer: consumer(),
        message: message("c"),
        recorded: telling("c", "ten").fingerprint(),
        came: telling("c", "eleven").fingerprint(),
    };
    desk.store.report(mismatch).await.unwrap();
    let audit = desk.store.inbox_audit(Some(consumer()), 9).await.unwrap();
    let kinds: Vec<_> = audit.iter().map(|row| (row.message.id(), row.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("c", InboxAuditKind::Mismatch),
            ("a", InboxAuditKind::Marked(Mark::Retry)),
            ("b", InboxAuditKind::Marked(Mark::Drop)),
            ("a", InboxAuditKind::Marked(Mark::Skip)),
        ]
    );
    assert_eq!((&*audit[1].actor, &*audit[1].note), ("ada", "the schema is fixed"));
    desk.handle(&delivery("b"), None).map(drop).unwrap();
    assert_eq!(desk.effects(), 0, "what was left out is not run");
}
