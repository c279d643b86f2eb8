//! What operators see and say.

use semel::inbox::{
    InboxAuditKind, InboxInspect, InboxStore, Mark, Mismatch, ParkedFilter, ParkedState, Standing,
};
use semel_postgres::inbox::Ran;
use semel_testkit::servers::Major;

use super::{
    desk::{Desk, at, consumer, delivery, message},
    parking::{actor, park},
};

#[tokio::test]
async fn what_is_left_out_is_never_run_and_can_be_taken_back_while_its_copy_is_there() {
    let desk = Desk::new(Major::V18).await;
    let mut client = desk.connect().await;
    for id in ["a", "b"] {
        desk.store.park(park(delivery(id))).await.unwrap();
    }
    let say =
        async |id, mark| desk.store.mark(consumer(), message(id), mark, actor()).await.unwrap();
    assert!(say("a", Mark::Skip).await && say("b", Mark::Drop).await);
    for id in ["a", "b"] {
        let ran = desk.handle(&mut client, &delivery(id), None).await.unwrap();
        let Ran::Duplicate(Some(recorded)) = ran else { panic!("{ran:?}") };
        assert_eq!(recorded.standing, Standing::LeftOut);
    }
    assert!(!say("b", Mark::Retry).await, "its copy is gone");
    assert!(!say("c", Mark::Retry).await, "it never was there");
    assert!(say("a", Mark::Retry).await);
    let again = desk.store.due(consumer(), 10).await.unwrap()[0].delivery();
    desk.handle(&mut client, &again, None).await.map(drop).unwrap();
    assert!(!say("a", Mark::Skip).await, "it is done");
    assert_eq!((desk.effects(Some("a")).await, desk.effects(None).await), (1, 1));
    let audit = desk.store.inbox_audit(Some(consumer()), 10).await.unwrap();
    let said: Vec<_> = audit.iter().map(|row| (row.message.id(), row.kind)).collect();
    let marked = InboxAuditKind::Marked;
    assert_eq!(
        said,
        [("a", marked(Mark::Retry)), ("b", marked(Mark::Drop)), ("a", marked(Mark::Skip))]
    );
    assert_eq!((&*audit[0].actor, &*audit[0].note), ("ada", "the schema is fixed"));
}

#[tokio::test]
async fn a_mismatch_is_in_the_audit_and_the_audit_within_its_bound() {
    let fixture = crate::fixture::Fixture::new(Major::V18).await;
    let store = fixture.builder().audit_max(3).open().await.unwrap();
    for number in 0..8 {
        let mismatch = Mismatch {
            consumer: consumer(),
            message: message(&format!("m{number}")),
            recorded: delivery("a").fingerprint(),
            came: delivery("b").fingerprint(),
        };
        store.report(mismatch).await.unwrap();
    }
    let audit = store.inbox_audit(None, 100).await.unwrap();
    let ids: Vec<_> = audit.iter().map(|row| row.message.id()).collect();
    assert_eq!(ids, ["m7", "m6", "m5"]);
    assert!(audit.iter().all(|row| row.kind == InboxAuditKind::Mismatch));
}

#[tokio::test]
async fn operators_see_consumers_messages_and_who_had_one() {
    for major in Major::ALL {
        let desk = Desk::new(major).await;
        let mut client = desk.connect().await;
        for id in ["a", "b", "c"] {
            desk.handle(&mut client, &delivery(id), Some("paid")).await.map(drop).unwrap();
        }
        desk.store.park(park(at(4))).await.unwrap();
        desk.store.count(consumer(), vec![message("d")]).await.unwrap();
        let consumers = desk.store.consumers().await.unwrap();
        let seen = &consumers[0];
        assert_eq!(consumers.len(), 1);
        assert_eq!((&seen.consumer, seen.remembered, seen.failed), (&consumer(), 4, 1), "{major}");
        assert_eq!((seen.retry, seen.attempted), (0, 1));
        assert!(seen.oldest_failed.is_some_and(|at| at <= seen.now));
        let page = desk.store.had(consumer(), Some(message("a")), 2).await.unwrap();
        let ids: Vec<_> = page.iter().map(|had| had.message.id()).collect();
        assert_eq!(ids, ["b", "c"]);
        let chain = desk.store.chain("b".into()).await.unwrap();
        assert_eq!((chain.len(), &chain[0].consumer), (1, &consumer()));
        assert_eq!(desk.store.chain("x".into()).await.unwrap(), []);
        let filter = |state| ParkedFilter { state: Some(state), limit: 10, ..Default::default() };
        let failed = desk.store.parked(filter(ParkedState::Failed)).await.unwrap();
        assert_eq!(failed.len(), 1);
        let after = ParkedFilter {
            after: Some((consumer(), failed[0].message.clone())),
            ..filter(ParkedState::Failed)
        };
        assert_eq!(desk.store.parked(after).await.unwrap(), []);
        assert_eq!(desk.store.parked(filter(ParkedState::Retry)).await.unwrap(), []);
    }
}
