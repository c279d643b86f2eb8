//! Transactions: events leave if and only if theirs committed, whenever that was.

use std::time::Duration;

use super::{FreshOutbox, verbs::*};

/// M02: nothing of a transaction that was rolled back is ever read, and nothing is held up by it.
pub async fn nothing_rolled_back_is_ever_read(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = events(2);
    for event in &told {
        let mut rolled_back = on.producer.begin().await;
        rolled_back.append(events(3)).await.unwrap();
        rolled_back.roll_back().await;
        on.commit(std::slice::from_ref(event)).await;
    }
    assert_eq!(ids(&on.drain(&leader).await), ids_of(&told));
    assert_eq!(ids(&on.events().await), ids_of(&told));
}

/// A transaction that neither committed nor rolled back when its connection went is rolled back.
pub async fn nothing_of_a_lost_transaction_is_ever_read(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let mut lost = on.producer.begin().await;
    lost.append(events(3)).await.unwrap();
    drop(lost);
    let told = events(1);
    on.commit(&told).await;
    assert_eq!(ids(&on.drain(&leader).await), ids_of(&told));
    assert!(on.rest(&leader).await.is_none());
}

/// Events of an open transaction are not read, and hold nobody else's up.
pub async fn an_open_transaction_holds_nothing_up(on: FreshOutbox) {
    if !on.open_at_once {
        return;
    }
    let leader = on.lead("first").await;
    let late = events(2);
    let mut open = on.producer.begin().await;
    open.append(late.clone()).await.unwrap();
    for _ in 0..3 {
        let told = events(2);
        on.commit(&told).await;
        assert_eq!(ids(&on.drain(&leader).await), ids_of(&told));
    }
    assert_eq!(on.events().await.len(), 6);
    open.commit().await;
    assert_eq!(ids(&on.drain(&leader).await), ids_of(&late));
}

/// M01, M04: what commits late is in a later pass, whether the pass before it was read, half
/// settled or closed by then.
pub async fn what_commits_late_is_in_a_later_pass(on: FreshOutbox) {
    if !on.open_at_once {
        return;
    }
    let leader = on.lead("first").await;
    let late: Vec<_> = (0..3).map(|_| events(2)).collect();
    let mut open = Vec::new();
    for events in &late {
        let mut transaction = on.producer.begin().await;
        transaction.append(events.clone()).await.unwrap();
        open.push(transaction);
    }
    let mut open = open.into_iter();
    let told = events(4);
    on.commit(&told).await;
    let first = on.some(&leader).await;
    open.next().unwrap().commit().await;
    assert_eq!(ids(&on.some(&leader).await.placed), ids_of(&told));
    let upto = Some((first.pass, first.placed[1].pos));
    on.stored(semel::outbox::Settle { upto, ..settlement(&leader) }).await;
    open.next().unwrap().commit().await;
    assert_eq!(ids(&on.some(&leader).await.placed), ids_of(&told[2..]));
    on.end(&leader, &first).await;
    assert_eq!(ids(&on.drain(&leader).await), ids_of(late[..2].iter().flatten()));
    open.next().unwrap().commit().await;
    assert_eq!(ids(&on.drain(&leader).await), ids_of(&late[2]));
    assert!(on.rest(&leader).await.is_none());
}

/// M14: what commits after hours, through take-overs and retention, is read once: nobody looks back by time.
pub async fn what_commits_very_late_is_read_once(on: FreshOutbox) {
    if !on.open_at_once {
        return;
    }
    let mut leader = on.lead("first").await;
    let late = events(2);
    let mut open = on.producer.begin().await;
    open.append(late.clone()).await.unwrap();
    let mut read = Vec::new();
    for _ in 0..4 {
        on.commit(&events(2)).await;
        read.extend(on.drain(&leader).await);
        on.after(KEEP).await;
        if let Some(retain) = &on.retain {
            on.retain(retain).await;
        }
        leader = on.overtaken(&leader).await;
    }
    assert_eq!(read.len(), 8);
    open.commit().await;
    assert_eq!(ids(&on.drain(&leader).await), ids_of(&late));
    for _ in 0..2 {
        on.after(KEEP).await;
        leader = on.overtaken(&leader).await;
        assert!(on.rest(&leader).await.is_none());
    }
}

/// Of a destination that begins now, what was appended before and is committed after is its own.
pub async fn what_commits_after_a_beginning_belongs_to_it(on: FreshOutbox) {
    if !on.open_at_once {
        return;
    }
    let late = events(2);
    let mut open = on.producer.begin().await;
    open.append(late.clone()).await.unwrap();
    on.commit(&events(1)).await;
    let ask = semel::outbox::Lead { start: semel::outbox::Start::Now, ..lead(&kafka(), "first") };
    let leader = led(&*on.store, ask).await;
    open.commit().await;
    assert_eq!(ids(&on.drain(&leader).await), ids_of(&late));
}

/// A store says truly whether two transactions that append can be open at once.
pub async fn transactions_are_open_at_once_as_declared(on: FreshOutbox) {
    let mut first = on.producer.begin().await;
    first.append(events(1)).await.unwrap();
    let second = async {
        let mut second = on.producer.begin().await;
        second.append(events(1)).await.unwrap();
        second
    };
    let patience =
        if on.open_at_once { Duration::from_secs(20) } else { Duration::from_millis(200) };
    let second = tokio::time::timeout(patience, second).await;
    assert_eq!(second.is_ok(), on.open_at_once);
    if let Ok(second) = second {
        second.commit().await;
    }
    first.commit().await;
}
