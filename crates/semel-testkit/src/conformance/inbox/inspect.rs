//! What operators see of consumers and their messages.

use semel::inbox::{MessageState, Park, ParkAnswer, ParkedFilter};

use super::{FreshInbox, verbs::*};

/// Consumers are listed by name, with what each remembers, waits for and has not come to an end with.
pub async fn consumers_are_listed_with_counts(on: FreshInbox) {
    assert_eq!(on.inspect.consumers().await.unwrap(), []);
    for id in ["a", "b", "c"] {
        on.handle(&delivery(id)).await;
    }
    on.run_by(of("Mailing"), &delivery("b")).await;
    on.run_by(by_positions(), &within("z", 4)).await;
    on.run_by(by_positions(), &within("a", 2)).await;
    assert_eq!(on.park(delivery("d")).await, ParkAnswer::Parked);
    let oldest = on.state("d").await.parked.unwrap().parked_at;
    on.after(DAY).await;
    assert_eq!(on.park(delivery("e")).await, ParkAnswer::Parked);
    on.again("f").await;
    on.count(&["g", "h"]).await;
    on.store.count(consumer("counting"), vec![message("a")]).await.unwrap();
    let seen = on.inspect.consumers().await.unwrap();
    let names: Vec<_> = seen.iter().map(|state| state.consumer.as_str()).collect();
    assert_eq!(names, ["Mailing", "billing", "counting"]);
    let state = &seen[1];
    assert_eq!((state.remembered, state.failed, state.retry, state.attempted), (6, 2, 1, 2));
    assert_eq!(state.positions, [(log("a"), 3), (log("z"), 5)]);
    assert_eq!(state.oldest_failed, Some(oldest));
    assert_eq!(state.now.since(oldest), DAY);
    assert_eq!((seen[0].remembered, seen[0].oldest_failed), (1, None));
    assert_eq!((seen[2].remembered, seen[2].attempted), (0, 1));
}

/// What a consumer had is listed in the order of names, page by page.
pub async fn pages_of_what_was_had_follow_each_other(on: FreshInbox) {
    let mut names = vec![
        message("b"),
        message("B"),
        message("\u{e4}"),
        message("Z"),
        message("a"),
        message_of("Queue", "x"),
        message_of("queue:orderz", "0"),
    ];
    for name in &names {
        on.handle(&delivered(name.clone(), "x")).await;
    }
    on.run_by(of("mailing"), &delivery("other")).await;
    names.sort();
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = on.inspect.had(billing(), after, 2).await.unwrap();
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        after = Some(last.message.clone());
        assert!(page.iter().all(|had| had.consumer == billing()));
        listed.extend(page.into_iter().map(|had| had.message));
    }
    assert_eq!(listed, names);
}

/// What is listed of a message is what a copy is told.
pub async fn a_listed_message_is_whole(on: FreshInbox) {
    let recorded = first(on.answer(&delivery("a"), "paid").await);
    let had = on.inspect.had(billing(), None, 10).await.unwrap();
    assert_eq!((had.len(), &had[0].recorded), (1, &recorded));
    let state = on.state("a").await;
    assert_eq!(state, MessageState { recorded: Some(recorded), ..MessageState::default() });
    assert_eq!(on.state("absent").await, MessageState::default());
    on.count(&["b"]).await;
    let state = on.state("b").await;
    assert_eq!((state.recorded, state.parked), (None, None));
    assert_eq!(state.attempts.map(|attempts| attempts.count), Some(1));
}

/// Whoever had a message of an id is found, of whatever consumer and source.
pub async fn whoever_had_an_id_is_found(on: FreshInbox) {
    for name in ["mailing", "billing"] {
        on.run_by(of(name), &delivery("b")).await;
    }
    on.handle(&delivered(message_of("queue:refunds", "b"), "x")).await;
    on.handle(&delivery("bb")).await;
    on.run_by(of("shipping"), &delivery("c")).await;
    let chain = on.inspect.chain("b".into()).await.unwrap();
    let had: Vec<_> = chain
        .iter()
        .map(|had| (had.consumer.as_str(), had.message.source.as_str(), had.message.id()))
        .collect();
    assert_eq!(
        had,
        [
            ("billing", "queue:orders", "b"),
            ("billing", "queue:refunds", "b"),
            ("mailing", "queue:orders", "b"),
        ]
    );
    assert_eq!(on.inspect.chain("none".into()).await.unwrap(), []);
}

/// Parked messages are listed in the order of consumers and names, as a filter says, page by page.
pub async fn pages_of_parked_messages_follow_each_other(on: FreshInbox) {
    for (name, id) in [("mailing", "a"), ("billing", "b"), ("billing", "B"), ("Mailing", "c")] {
        let park = Park { consumer: consumer(name), ..parking(delivery(id)) };
        assert_eq!(on.park_as(park).await, ParkAnswer::Parked);
    }
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let filter = ParkedFilter { after, limit: 1, ..ParkedFilter::default() };
        let page = on.inspect.parked(filter).await.unwrap();
        let Some(last) = page.last() else { break };
        assert_eq!(page.len(), 1);
        after = Some((last.consumer.clone(), last.message.clone()));
        listed.push(format!("{} {}", last.consumer, last.message.id()));
    }
    assert_eq!(listed, ["Mailing c", "billing B", "billing b", "mailing a"]);
    let of = ParkedFilter { consumer: Some(billing()), limit: 10, ..ParkedFilter::default() };
    assert_eq!(parked_ids(&on.inspect.parked(of).await.unwrap()), ["B", "b"]);
}
