//! Hints that cut polling short.

use std::{sync::Arc, time::Duration};

use semel::outbox::OutboxHints;

use super::{Shop, event};

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_commit_of_this_process_and_of_any_other_is_hinted() {
    let mut shop = Shop::new();
    assert!(!shop.store.hinted(Duration::from_millis(1)).await.unwrap());
    shop.append("7", 0..1);
    assert!(shop.store.hinted(LONG).await.unwrap());
    let sql = "INSERT INTO semel_outbox (aggregatetype, aggregateid, type) VALUES ('a', 'b', 'c')";
    shop.conn.execute(sql, []).unwrap();
    assert!(shop.store.hinted(LONG).await.unwrap());
    assert!(!shop.store.hinted(Duration::from_millis(1)).await.unwrap());
}

#[tokio::test]
async fn all_who_wait_are_hinted_and_nothing_is_hinted_before_the_commit() {
    let shop = Shop::new();
    let Shop { bench: _bench, store, mut conn, .. } = shop;
    let store = Arc::new(store);
    let wait = || {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.hinted(LONG).await.unwrap() })
    };
    let waiting = [wait(), wait(), wait()];
    let tx = conn.transaction().unwrap();
    store.transact().publish(&tx, &[event("7", 1)]).unwrap();
    assert!(!store.hinted(Duration::from_millis(100)).await.unwrap());
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    tx.commit().unwrap();
    for waiting in waiting {
        assert!(waiting.await.unwrap());
    }
}
