//! What the file itself keeps beside the transactions of the effects.

use bytes::Bytes;
use semel::{
    StoreErrorKind,
    inbox::{InboxInspect, InboxStore, Mark, Uncount},
    store::Actor,
};

use super::{Desk, consumer, delivery, message, park};

/// No part of a copy stays behind, by whatever word it goes.
#[tokio::test]
async fn headers_go_with_their_copies() {
    let mut desk = Desk::new();
    let mut sent = delivery("a");
    sent.headers = vec![("trace".into(), Bytes::from_static(b"1")); 3];
    let actor = || Actor { name: "ada".into(), note: "the schema is fixed".into() };
    desk.store.park(park(sent.clone())).await.unwrap();
    assert_eq!(desk.number("SELECT count(*) FROM semel_inbox_header"), 3);
    assert!(desk.store.mark(consumer(), message("a"), Mark::Retry, actor()).await.unwrap());
    let again = desk.store.due(consumer(), 10).await.unwrap()[0].delivery();
    desk.handle(&again, None).map(drop).unwrap();
    desk.store.uncount(consumer(), vec![message("a")], Uncount::Ended).await.unwrap();
    assert_eq!(desk.number("SELECT count(*) FROM semel_inbox_header"), 0);
    sent.message = message("b");
    desk.store.park(park(sent)).await.unwrap();
    assert!(desk.store.mark(consumer(), message("b"), Mark::Drop, actor()).await.unwrap());
    assert_eq!(desk.number("SELECT count(*) FROM semel_inbox_header"), 0);
}

/// M76: without its unique key the table would let copies pass that come at one instant.
#[tokio::test]
async fn a_lost_unique_key_is_found_before_anything_is_consumed() {
    for (table, columns) in
        [("semel_inbox", "consumer, source, message_id"), ("semel_inbox_position", "consumer, log")]
    {
        let desk = Desk::new();
        desk.store.check().await.unwrap();
        // A tool moved the rows into a table without its key. A part of the rows, or more than the key,
        // will not do.
        let moved = format!(
            "CREATE TABLE moved AS SELECT *, 1 AS more FROM {table}; DROP TABLE {table}; \
             ALTER TABLE moved RENAME TO {table}; CREATE INDEX plain ON {table} ({columns}); \
             CREATE UNIQUE INDEX part ON {table} ({columns}) WHERE consumer = 'a'; \
             CREATE UNIQUE INDEX longer ON {table} ({columns}, more)"
        );
        desk.conn.execute_batch(&moved).unwrap();
        let error = desk.store.check().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Damaged, "{error}");
    }
}
