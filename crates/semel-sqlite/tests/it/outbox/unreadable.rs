//! Rows that are no events, though every check stands: a file may be damaged, and checks can be off.

use std::collections::HashSet;

use semel::outbox::{
    OutboxInspect, OutboxStore, ParkedState, Placed, Settled,
    store::{ParkedFilter, Unpark},
};
use semel::store::Actor;

use super::{Shop, destination, lead, leader, park, settle};

/// Damages one of a hundred rows, and checks that it alone is told of by these words.
async fn check(damage: &str, words: &str) {
    let mut shop = Shop::new();
    let first = shop.leader().await;
    let appended = shop.append("7", 0..100);
    shop.conn.pragma_update(None, "ignore_check_constraints", true).unwrap();
    shop.conn.execute_batch(&format!("UPDATE semel_outbox SET {damage} WHERE pos = 50")).unwrap();
    let window = shop.window(&first).await;
    let (bad, good): (Vec<_>, Vec<_>) =
        window.events.iter().cloned().partition(|placed| placed.unreadable.is_some());
    assert_eq!((bad.len(), bad[0].pos.0), (1, 50), "{damage}");
    let why = bad[0].unreadable.clone().unwrap();
    assert!(why.contains(words), "{damage}: {why}");
    // By the type of its aggregate a destination is chosen: it is kept where it can be told.
    let kind = if damage.starts_with("aggregatetype") { Placed::UNREADABLE } else { "order" };
    assert_eq!(bad[0].event.lane.kind(), kind, "{damage}");
    let good: HashSet<_> = good.iter().map(|placed| placed.event.id).collect();
    assert_eq!(good.len(), 99);
    assert!(good.iter().all(|id| appended.contains(id)));
    // It is parked as it is, told of in the same way, and due again only by an operator's word.
    let mut all = settle(&first, window.pass.zip(Some(window.upto)));
    all.park = vec![park(bad[0].clone(), true)];
    assert_eq!(shop.store.settle(all).await.unwrap(), Settled::Stored);
    let filter = ParkedFilter { limit: 9, ..ParkedFilter::default() };
    let parked = shop.store.parked(filter).await.unwrap();
    assert_eq!(parked.len(), 1);
    assert_eq!(parked[0].placed.unreadable.as_ref(), Some(&why));
    assert_eq!(parked[0].placed.event.id, bad[0].event.id);
    assert_eq!(shop.waiting(&first).await, []);
    assert_eq!(shop.store.due(destination("a"), 9, usize::MAX).await.unwrap(), []);
    // The file opens as before, with every other check in force.
    let again = shop.bench.builder().clock(shop.clock.clone()).open().unwrap();
    assert_eq!(again.destinations().await.unwrap()[0].parked, 1);
    // Another destination meets it too, and nothing else is in its way.
    let second = leader(lead(&shop.store, "b").await);
    assert_eq!(shop.waiting(&second).await.len(), 100);
}

/// M47
#[tokio::test]
async fn one_row_that_cannot_be_read_leaves_the_others_alone() {
    for (damage, words) in [
        ("id = 'x'", "UUID"),
        ("aggregatetype = ''", "aggregatetype of an event is empty"),
        ("aggregatetype = char(10) || 'order'", "control character"),
        ("aggregateid = ''", "aggregateid of an event is empty"),
        ("aggregateid = CAST(x'61ff' AS TEXT)", "UTF-8"),
        ("type = char(7)", "control character"),
        ("headers = '{'", "headers"),
        ("headers = '[1]'", "headers"),
        ("headers = '{\"a\":1}'", "headers"),
        ("headers = '{\"a\":{\"b\":\"c\"}}'", "headers"),
        ("payload = 7", "payload"),
        ("payload = zeroblob(1048577)", "payload"),
        ("trace = ''", "trace"),
        ("tenant = 'a', operation = 'b', key = 'spaced key', facet = x''", "intent"),
        ("tenant = 'a', operation = 'b', key = 'k', facet = x'00'", "intent"),
        ("cause = char(10)", "cause"),
    ] {
        check(damage, words).await;
    }
}

#[tokio::test]
async fn a_parked_row_that_was_repaired_is_sent() {
    let mut shop = Shop::new();
    let leader = shop.leader().await;
    let appended = shop.append("7", 0..1);
    shop.conn.pragma_update(None, "ignore_check_constraints", true).unwrap();
    shop.conn.execute_batch("UPDATE semel_outbox SET headers = '{'").unwrap();
    shop.park(&leader, 1).await;
    let retry = || async {
        let actor = Actor { name: "ada".into(), note: "".into() };
        shop.store.mark(destination("a"), vec![1], ParkedState::Retry, actor).await.unwrap();
        shop.store
            .due(destination("a"), 9, usize::MAX)
            .await
            .unwrap()
            .remove(0)
            .rows
            .remove(0)
            .placed
    };
    assert!(retry().await.unreadable.is_some());
    shop.unpark(&leader, Unpark::Failed { seq: 1, attempts: 1, why: "unreadable".into() }).await;
    let repair = "UPDATE semel_parked SET headers = '{}', unreadable = NULL WHERE seq = 1";
    shop.conn.execute_batch(repair).unwrap();
    let repaired = retry().await;
    assert_eq!((repaired.unreadable, repaired.event.id), (None, appended[0]));
}
