//! Ordered logs: positions, order, starts, and what is taken away. A source that declares none is shown
//! to have none.

use std::{collections::BTreeMap, time::Duration};

use semel::inbox::{Acked, Delivery, LogId, Settlement};
use tokio::time::Instant;

use super::{FreshSource, Member, PATIENCE, WAIT, ids, sorted};

/// Opens a source if it has logs.
async fn power(on: &FreshSource) -> Option<Member> {
    let member = on.open().await;
    if member.source.capabilities().logs {
        return Some(member);
    }
    member.close().await;
    None
}

/// The offsets that came, by log and in order.
fn offsets(came: &[Delivery]) -> BTreeMap<String, Vec<u64>> {
    let mut logs: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for delivery in came {
        let position = delivery.position.as_ref().expect("a message of a log has a position");
        logs.entry(position.log.to_string()).or_default().push(position.offset);
    }
    logs
}

/// A message has a position if its source declares logs, and none if not.
pub async fn positions_are_as_declared(on: FreshSource) {
    let mut member = on.open().await;
    on.send(4, 2).await;
    let logs = member.source.capabilities().logs;
    for delivery in member.take(4).await {
        assert_eq!(delivery.position.is_some(), logs);
    }
    assert_eq!(member.held.is_empty(), !logs);
    member.close().await;
}

/// The messages of each log come in the order of their offsets, and those of a key as they were sent.
pub async fn a_log_comes_in_order(on: FreshSource) {
    let Some(mut member) = power(&on).await else { return };
    let sent = on.send(60, 6).await;
    let came = member.take(60).await;
    for (log, offsets) in offsets(&came) {
        assert!(offsets.is_sorted_by(|one, next| one < next), "{log}: {offsets:?}");
    }
    for key in 0..6 {
        let of_key: Vec<_> = sent.iter().skip(key).step_by(6).cloned().collect();
        let mut came = ids(&came);
        came.retain(|id| of_key.contains(id));
        assert_eq!(came, of_key);
    }
    member.close().await;
}

/// Nothing of a log is delivered before it is begun.
pub async fn nothing_comes_before_a_log_is_begun(on: FreshSource) {
    let Some(member) = power(&on).await else { return };
    on.send(16, 16).await;
    let by = Instant::now() + PATIENCE;
    let mut assigned: Vec<LogId> = Vec::new();
    let mut quiet = 0;
    while assigned.is_empty() || quiet < 3 {
        assert!(Instant::now() < by, "no log is ever assigned");
        let received = member.source.receive(100, WAIT).await.expect("it is received");
        assert_eq!(received.deliveries, [], "before its log was begun");
        quiet = if received.assigned.is_empty() { quiet + 1 } else { 0 };
        assigned.extend(received.assigned);
    }
    let mut member = member;
    let start = assigned.into_iter().map(|log| (log, None)).collect();
    member.source.start(start).await.unwrap();
    assert_eq!(member.take(16).await.len(), 16);
    member.close().await;
}

/// A log begins at the offset that it is told, whatever was acknowledged.
pub async fn a_log_begins_where_it_is_told(on: FreshSource) {
    let Some(mut first) = power(&on).await else { return };
    on.send(8, 1).await;
    let came = first.take(8).await;
    first.ack(&came).await;
    first.close().await;
    let from = came[5].position.clone().expect("a message of a log has a position");
    let second = on.open().await;
    let by = Instant::now() + PATIENCE;
    let mut again = Vec::new();
    while again.len() < 3 {
        assert!(Instant::now() < by, "only {again:?} ever came");
        let received = second.source.receive(10, WAIT).await.expect("it is received");
        let start = |log: LogId| {
            let offset = (log == from.log).then_some(from.offset);
            (log, offset)
        };
        let start: Vec<_> = received.assigned.into_iter().map(start).collect();
        if !start.is_empty() {
            second.source.start(start).await.unwrap();
        }
        again.extend(ids(&received.deliveries));
    }
    assert_eq!(again, ids(&came[5..]));
    second.close().await;
}

/// What is acknowledged behind a gap does not take the gap along.
pub async fn a_gap_is_not_passed(on: FreshSource) {
    let Some(mut first) = power(&on).await else { return };
    let sent = on.send(6, 1).await;
    let came = first.take(6).await;
    first.ack(&came[..1]).await;
    first.ack(&came[3..]).await;
    first.close().await;
    let mut second = on.open().await;
    let again = second.take(5).await;
    assert_eq!(ids(&again), sent[1..]);
    second.ack(&again).await;
    second.close().await;
    on.nothing_is_left().await;
}

/// What is wanted again comes before anything behind it.
pub async fn what_is_wanted_again_comes_first(on: FreshSource) {
    let Some(mut member) = power(&on).await else { return };
    let sent = on.send(4, 1).await;
    let came = member.take(2).await;
    let again = vec![(came[0].receipt, Settlement::Again(Duration::ZERO))];
    member.settle(again).await;
    let rest = ids(&member.take(4).await);
    let first = rest.iter().position(|id| *id == sent[0]).expect("it comes again");
    for later in &sent[1..] {
        let last = rest.iter().rposition(|id| id == later).expect("what is behind it comes too");
        assert!(last > first, "{rest:?}");
    }
    member.close().await;
}

/// What lies in a log that was given to another can no longer be acknowledged: it is the other's.
pub async fn what_was_revoked_cannot_be_acked(on: FreshSource) {
    let Some(mut first) = power(&on).await else { return };
    let sent = on.send(32, 16).await;
    let came = first.take(32).await;
    let mut second = on.open().await;
    let by = Instant::now() + PATIENCE;
    let mut others = Vec::new();
    while second.held.is_empty() || first.revoked.is_empty() {
        assert!(Instant::now() < by, "no log is ever given to the second");
        let (of_first, of_second) = tokio::join!(first.receive(100), second.receive(100));
        others.extend(of_second);
        // What it keeps may come to the first once more.
        drop(of_first);
    }
    let log = |delivery: &Delivery| delivery.position.clone().map(|position| position.log);
    let is_lost = |delivery: &&Delivery| {
        let log = log(delivery).expect("a message of a log has a position");
        second.held.contains(&log) && !first.held.contains(&log)
    };
    let lost: Vec<_> = came.iter().filter(is_lost).cloned().collect();
    assert!(!lost.is_empty(), "a log of the second held nothing");
    let acks = lost.iter().map(|delivery| (delivery.receipt, Settlement::Ack)).collect();
    let acked = first.settle(acks).await;
    assert!(acked.iter().all(|acked| *acked == Acked::Lost), "{acked:?}");
    let wanted = lost.len();
    while others.len() < wanted {
        others.extend(second.take(wanted - others.len()).await);
    }
    assert_eq!(sorted(&ids(&others)), sorted(&ids(&lost)));
    assert!(ids(&others).iter().all(|id| sent.contains(id)));
    first.close().await;
    second.close().await;
}
