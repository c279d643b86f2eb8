//! Sending to a far end that works: everything arrives, whole, in order, under its name.

use std::sync::Arc;

use semel::outbox::{Event, Fault, Message, Sent};

use super::{
    super::cancel::{POLLS_MAX, cut},
    FreshPublisher, Seen, message, messages, with,
};

fn all_confirmed(sent: &[Sent]) {
    for (at, sent) in sent.iter().enumerate() {
        assert_eq!(*sent, Sent::Confirmed, "message {at}");
    }
}

async fn seen(on: &FreshPublisher, message: &Message) -> Seen {
    let arrived = on.far.arrived().await;
    let copy = arrived.into_iter().find(|seen| seen.id == message.event.id);
    copy.expect("what was confirmed is there")
}

/// A publisher has a name and bounds, and says the same each time.
pub async fn capabilities_are_stated(on: FreshPublisher) {
    let stated = on.publisher.capabilities();
    assert!(!stated.name.is_empty() && !stated.publish_wait.is_zero());
    assert!(stated.batch_max > 0 && stated.batches_max > 0);
    assert!((1..=Event::PAYLOAD_MAX).contains(&stated.payload_max));
    assert_eq!(stated, on.publisher.capabilities());
}

/// A batch of nothing has no outcome, and sends nothing.
pub async fn a_batch_of_nothing_is_answered(on: FreshPublisher) {
    assert_eq!(on.publisher.publish(Vec::new()).await, []);
    assert_eq!(on.far.arrived().await, []);
}

/// What is confirmed is there, with every byte and every header.
pub async fn what_is_confirmed_is_there_whole(on: FreshPublisher) {
    let binary = with(message("b", ""), |event| {
        event.payload = Some((0..=255_u8).cycle().take(5_000).collect::<Vec<_>>().into());
    });
    let full = with(message("f", "{\"total\": 10}"), |event| {
        event.headers = vec![
            ("content-type".into(), "application/json".into()),
            ("x-shop".into(), "a; b=\"c\", d".into()),
        ];
        event.trace = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into());
    });
    let messages = [message("order-7", "plain"), message("empty", ""), binary, full];
    all_confirmed(&on.send(&messages).await);
    for message in &messages {
        let seen = seen(&on, message).await;
        assert_eq!(&*seen.lane_id, message.event.lane.id());
        assert_eq!(
            seen.payload.clone().unwrap_or_default(),
            message.event.payload.clone().unwrap()
        );
        for (name, value) in &message.event.headers {
            let same = |header: &&(Box<str>, _)| header.0.eq_ignore_ascii_case(name);
            let header = seen.headers.iter().find(same);
            let header = header.unwrap_or_else(|| panic!("{name} is not there: {seen:?}"));
            assert_eq!(&header.1[..], value.as_bytes());
        }
    }
}

/// A tombstone arrives, and is told apart from an empty payload as declared.
pub async fn a_tombstone_arrives(on: FreshPublisher) {
    let tombstone = with(message("t", ""), |event| event.payload = None);
    let empty = message("e", "");
    all_confirmed(&on.send(&[tombstone.clone(), empty.clone()]).await);
    let (tombstone, empty) = (seen(&on, &tombstone).await, seen(&on, &empty).await);
    assert!(tombstone.payload.clone().unwrap_or_default().is_empty());
    assert_eq!(tombstone.payload != empty.payload, on.tombstones);
}

/// Every message has its outcome, and each lane arrives in its order.
pub async fn lanes_keep_their_order(on: FreshPublisher) {
    let messages = messages(120, 7);
    all_confirmed(&on.send(&messages).await);
    let arrived = on.far.arrived().await;
    assert_eq!(arrived.len(), messages.len());
    for lane in 0..7 {
        let sent = messages.iter().skip(lane).step_by(7).map(|message| message.event.id);
        let of_lane = arrived.iter().filter(|seen| *seen.lane_id == format!("lane {lane}"));
        assert!(of_lane.map(|seen| seen.id).eq(sent), "lane {lane}");
    }
}

/// As many batches as may be at once are sent at once, and each is confirmed.
pub async fn batches_at_once_are_confirmed(on: FreshPublisher) {
    let stated = on.publisher.capabilities();
    let on = Arc::new(on);
    let batches: Vec<_> = (0..stated.batches_max.min(64))
        .map(|n| {
            let on = Arc::clone(&on);
            // No lane is in two batches at once: a relay sees to that.
            let batch: Vec<_> = (0..stated.batch_max.min(10))
                .map(|at| message(&format!("batch {n}, lane {at}"), "x"))
                .collect();
            tokio::spawn(async move {
                all_confirmed(&on.publisher.publish(batch.clone()).await);
                batch
            })
        })
        .collect();
    for batch in batches {
        for message in batch.await.unwrap() {
            assert_eq!(on.copies(&message).await, 1);
        }
    }
}

/// A copy that is sent again carries the name of the first.
pub async fn a_copy_carries_the_same_name(on: FreshPublisher) {
    let first = message("a", "x");
    let again = Message { copies: 1, ..first.clone() };
    all_confirmed(&on.send(std::slice::from_ref(&first)).await);
    all_confirmed(&on.send(&[again]).await);
    let arrived = on.far.arrived().await;
    // A destination that knows copies keeps one.
    assert!((1..=2).contains(&arrived.len()), "{arrived:?}");
    for seen in arrived {
        assert_eq!((seen.id, seen.payload), (first.event.id, first.event.payload.clone()));
    }
}

/// The largest payload arrives; one above it is refused as the message's own fault, and arrives nowhere.
pub async fn payloads_are_bounded_as_stated(on: FreshPublisher) {
    let max = on.publisher.capabilities().payload_max;
    let large = with(message("a", ""), |event| event.payload = Some(vec![b'x'; max].into()));
    all_confirmed(&on.send(std::slice::from_ref(&large)).await);
    assert_eq!(seen(&on, &large).await.payload.map(|payload| payload.len()), Some(max));
    if max == Event::PAYLOAD_MAX {
        return;
    }
    let larger = with(message("b", ""), |event| event.payload = Some(vec![b'x'; max + 1].into()));
    let sent = on.send(std::slice::from_ref(&larger)).await;
    assert!(matches!(sent[..], [Sent::Refused { fault: Fault::Message, .. }]), "{sent:?}");
    on.goes_on().await;
    assert_eq!(on.copies(&larger).await, 0);
}

/// A publish that was cut off anywhere leaves a publisher that goes on, and at most one copy.
pub async fn a_publish_cut_anywhere_leaves_a_publisher_that_goes_on(on: FreshPublisher) {
    // Some take long to be ready and are polled often: steps grow.
    let mut polls = 0;
    while polls < POLLS_MAX {
        let batch = vec![message("cut", "x")];
        let through = cut(polls, on.publisher.publish(batch.clone())).await;
        on.goes_on().await;
        let copies = on.copies(&batch[0]).await;
        assert!(copies <= 1, "{copies} copies, cut at {polls}");
        if let Some(sent) = through {
            assert_eq!((sent, copies), (vec![Sent::Confirmed], 1));
            return;
        }
        polls += 1 + polls / 4;
    }
    panic!("a publish is never ready")
}
