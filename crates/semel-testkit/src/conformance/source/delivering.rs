//! Delivering: what was sent comes, whole and under one name in every copy.

use bytes::Bytes;
use semel::inbox::{Delivery, SourceName};
use tokio::time::{Duration, Instant};

use super::{
    super::cancel::{POLLS_MAX, cut},
    FreshSource, PATIENCE, WAIT, ids, sorted,
};

/// A source has a name and bounds, and says the same each time.
pub async fn capabilities_are_stated(on: FreshSource) {
    let member = on.open().await;
    let stated = member.source.capabilities();
    assert!(!stated.name.is_empty() && stated.batch_max > 0);
    assert_eq!(stated, member.source.capabilities());
    member.close().await;
}

/// What was sent is delivered, with every byte and every header.
pub async fn what_was_sent_is_delivered_whole(on: FreshSource) {
    let binary = Bytes::from((0..=255_u8).cycle().take(5_000).collect::<Vec<_>>());
    let headers = vec![("content-type".into(), "text/plain".into()), ("x-shop".into(), "ü".into())];
    let told = [Some("plain".into()), Some(Bytes::new()), None, Some(binary)];
    let mut sent = Vec::new();
    for payload in &told {
        sent.push(on.place.send("key", payload.clone(), headers.clone()).await);
    }
    let mut member = on.open().await;
    let came = member.take(told.len()).await;
    assert_eq!(sorted(&ids(&came)), sorted(&sent));
    for (id, payload) in sent.iter().zip(&told) {
        let is_it = |delivery: &&Delivery| delivery.message.id() == &**id;
        let delivery = came.iter().find(is_it).expect("it came");
        if on.tombstones {
            assert_eq!(delivery.payload, *payload);
        } else {
            assert_eq!(
                delivery.payload.clone().unwrap_or_default(),
                payload.clone().unwrap_or_default()
            );
        }
        assert!(delivery.key.as_deref().is_none_or(|key| key == b"key"), "{:?}", delivery.key);
        for header in &headers {
            assert!(delivery.headers.contains(header), "{:?}", delivery.headers);
        }
    }
    member.close().await;
}

/// While nothing was sent nothing is delivered, and a receive ends about when it was told to.
pub async fn nothing_comes_of_nothing(on: FreshSource) {
    let mut member = on.open().await;
    for _ in 0..3 {
        let began = Instant::now();
        assert_eq!(member.receive(10).await, []);
        assert!(began.elapsed() < WAIT + PATIENCE / 2);
    }
    let received = member.source.receive(10, Duration::ZERO).await;
    assert_eq!(member.received(received).await, []);
    member.close().await;
}

/// A receive returns no more than asked for, and the rest comes with the next.
pub async fn a_receive_is_bounded(on: FreshSource) {
    let sent = on.send(10, 4).await;
    let mut member = on.open().await;
    let mut came = Vec::new();
    let by = Instant::now() + PATIENCE;
    while came.len() < sent.len() {
        assert!(Instant::now() < by, "only {} ever came", came.len());
        came.extend(member.receive(3).await);
    }
    assert_eq!(sorted(&ids(&came)), sorted(&sent));
    member.close().await;
}

/// Copies of a message carry one name and one content, whoever receives them.
pub async fn copies_carry_one_name(on: FreshSource) {
    on.send(8, 4).await;
    let mut names: Option<Vec<_>> = None;
    for _ in 0..2 {
        let mut member = on.open().await;
        let came = member.take(8).await;
        member.close().await;
        let mut copies: Vec<_> = came
            .iter()
            .map(|delivery| (delivery.message.clone(), delivery.fingerprint()))
            .collect();
        copies.sort_by(|one, other| one.0.cmp(&other.0));
        let source: &SourceName = &copies[0].0.source;
        assert!(copies.iter().all(|(message, _)| message.source == *source));
        assert!(copies.windows(2).all(|pair| pair[0].0 != pair[1].0), "two under one name");
        assert_eq!(*names.get_or_insert_with(|| copies.clone()), copies);
    }
}

/// A receive that was cut off anywhere loses nothing: what it had taken comes with the next.
pub async fn a_receive_cut_anywhere_loses_nothing(on: FreshSource) {
    let mut member = on.open().await;
    let mut polls = 0;
    while polls < POLLS_MAX {
        let sent = on.send(4, 4).await;
        let source = std::sync::Arc::clone(&member.source);
        let through = cut(polls, source.receive(2, WAIT)).await;
        let ready = through.is_some();
        let mut came = match through {
            Some(received) => member.received(received).await,
            None => Vec::new(),
        };
        came.extend(member.take(sent.len() - came.len()).await);
        assert_eq!(sorted(&ids(&came)), sorted(&sent), "cut at {polls}");
        member.ack(&came).await;
        if ready {
            member.close().await;
            return;
        }
        polls += 1 + polls / 4;
    }
    panic!("a receive is never ready")
}

/// A connection that breaks fails nobody for good.
pub async fn a_broken_connection_fails_nobody_for_good(on: FreshSource) {
    let mut member = on.open().await;
    let first = on.send(2, 1).await;
    let came = member.take(2).await;
    assert_eq!(ids(&came), first);
    member.ack(&came).await;
    if !on.place.cut().await {
        return;
    }
    let second = on.send(2, 1).await;
    let by = Instant::now() + PATIENCE;
    let mut missing = sorted(&second);
    while !missing.is_empty() {
        assert!(Instant::now() < by, "{missing:?} never came");
        // What was acknowledged just before may come again.
        for id in ids(&member.receive(4).await) {
            missing.retain(|missing| *missing != id);
        }
    }
}
