//! A process that sells and relays, killed again and again.

use std::{collections::HashMap, path::Path, time::Duration};

use rusqlite::{Connection, TransactionBehavior};
use semel::{
    StoreErrorKind,
    outbox::{OutboxStore, Placed},
};
use semel_sqlite::SqliteStore;

use super::{event, lead, leader, settle};
use crate::{
    bench::Bench,
    process::{child, part, tell, told},
};

/// Sells in one transaction after another, each with its event; every fourth is rolled back.
fn sell(store: &SqliteStore, path: &Path) {
    let transact = store.transact();
    let mut conn = Connection::open(path).unwrap();
    conn.busy_timeout(Duration::from_secs(60)).unwrap();
    conn.execute_batch("CREATE TABLE IF NOT EXISTS sale (number INTEGER PRIMARY KEY, event TEXT)")
        .unwrap();
    for turn in 1_u32.. {
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let next = "SELECT coalesce(max(number), 0) + 1 FROM sale";
        let number: u32 = tx.query_row(next, [], |row| row.get(0)).unwrap();
        let event = event(&format!("a{}", number % 5), number);
        transact.publish(&tx, std::slice::from_ref(&event)).unwrap();
        tx.execute("INSERT INTO sale VALUES (?1, ?2)", (number, event.id.to_string())).unwrap();
        if turn % 4 == 0 {
            tx.rollback().unwrap();
        } else {
            tx.commit().unwrap();
        }
        // Whoever waits for the file's lock gets it only when it is free for a moment.
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

fn sent(placed: &Placed) -> String {
    let number = String::from_utf8(placed.event.payload.clone().unwrap().to_vec()).unwrap();
    format!("{number} {} {}", placed.event.id, placed.event.lane.id())
}

/// Leads, and sends by `send` until nothing waits or for ever.
async fn relay(store: &SqliteStore, for_ever: bool, mut send: impl FnMut(String)) {
    let leader = leader(lead(store, "a").await);
    loop {
        let window = store.read(leader.clone(), None, 7, usize::MAX).await.unwrap();
        let Some(pass) = window.pass else {
            if for_ever {
                tokio::task::yield_now().await;
                continue;
            }
            return;
        };
        for placed in &window.events {
            send(sent(placed));
        }
        let mut all = settle(&leader, Some((pass, window.upto)));
        all.ends = window.ends;
        while let Err(error) = store.settle(all.clone()).await {
            assert_eq!(error.kind(), StoreErrorKind::Busy, "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_sells_and_relays_until_it_is_killed() {
    let Some(path) = part() else { return };
    let store = std::sync::Arc::new(SqliteStore::builder(&path).open().unwrap());
    let seller = std::sync::Arc::clone(&store);
    let selling = tokio::task::spawn_blocking(move || sell(&seller, &path));
    tokio::select! {
        () = relay(&store, true, |line| tell(&line)) => {}
        sold = selling => sold.unwrap(),
    }
}

/// M55: whenever the process was killed, what was committed is sent and nothing else, each aggregate
/// in its order, and a copy has the id of the first.
#[tokio::test]
async fn what_was_committed_before_a_kill_is_sent_and_nothing_else() {
    let bench = Bench::new();
    let mut lines = Vec::new();
    for round in 1..=6 {
        let mut process =
            child("outbox::killed::child_that_sells_and_relays_until_it_is_killed", &bench.path());
        let mut told = told(&mut process);
        lines.extend(told.by_ref().take(40 * round));
        process.kill().unwrap();
        process.wait().unwrap();
        lines.extend(told);
        // The lease of whoever was killed is over by the clock of the file.
        let conn = Connection::open(bench.path()).unwrap();
        conn.execute_batch("UPDATE semel_destination SET lease_us = 0").unwrap();
    }
    relay(&bench.open(), false, |line| lines.push(line)).await;
    let (mut by_number, mut last) = (HashMap::new(), HashMap::new());
    for line in &lines {
        let [number, id, lane] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let number: u32 = number.parse().unwrap();
        let first = !by_number.contains_key(&number);
        assert_eq!(*by_number.entry(number).or_insert(id), id, "two events of one sale");
        if first {
            let before = last.insert(lane, number).unwrap_or_default();
            assert!(before < number, "{lane}: {number} after {before}");
        }
    }
    let conn = Connection::open(bench.path()).unwrap();
    let mut sales = conn.prepare("SELECT number, event FROM sale").unwrap();
    let sold = sales.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let sold: HashMap<u32, String> = sold.map(Result::unwrap).collect();
    assert!(sold.len() > 100, "{}", sold.len());
    let sent = by_number.into_iter().map(|(number, id)| (number, id.to_owned()));
    assert_eq!(sent.collect::<HashMap<_, _>>(), sold);
}
