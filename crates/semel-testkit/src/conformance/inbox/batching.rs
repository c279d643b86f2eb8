//! Several messages in one transaction.

use semel::{
    inbox::{Handled, ParkAnswer, Standing, store::READ_MAX},
    outbox::store::EventFilter,
};

use super::{super::outbox::verbs::event, FreshInbox, Work, verbs::*};

/// M79: of a batch what is new is run, also where one name stands there twice, and of everything else it
/// is told what it is.
pub async fn a_batch_runs_what_is_new_and_tells_of_the_rest(on: FreshInbox) {
    let old = first(on.answer(&delivery("old"), "paid").await);
    let odd = first(on.handle(&telling("odd", "one")).await);
    assert_eq!(on.park(delivery("parked")).await, ParkAnswer::Parked);
    let batch = vec![
        delivery("z"),
        delivery("old"),
        delivery("a"),
        telling("odd", "another"),
        delivery("z"),
        telling("a", "another"),
        telling("odd", "one"),
        delivery("parked"),
    ];
    let work = (0..8).map(|_| answering("sent")).collect();
    let handled = on.worker.batch(policy(), batch.clone(), work).await.unwrap();
    assert_eq!(handled.len(), batch.len());
    assert_eq!(first(handled[0].clone()).answer.as_deref(), Some(&b"sent"[..]));
    assert_eq!(copy(handled[1].clone()), old);
    let fresh = first(handled[2].clone());
    assert_eq!(mismatch(handled[3].clone()), odd);
    assert_eq!(handled[4], Handled::Duplicate(None), "its answer is not there yet");
    assert_eq!(mismatch(handled[5].clone()).fingerprint, fresh.fingerprint);
    assert_eq!(copy(handled[6].clone()), odd);
    assert_eq!(copy(handled[7].clone()).standing, Standing::Parked);
    assert_eq!(on.effects().await, 4, "old, odd, z, a");
    assert_eq!(copy(on.handle(&delivery("a")).await), fresh);
}

/// A batch of copies does nothing, and each is told what was recorded.
pub async fn a_batch_of_copies_does_nothing(on: FreshInbox) {
    let batch = deliveries(["c", "a", "b"]);
    let one = on.batch(policy(), batch.clone()).await.unwrap();
    let two = on.worker.batch(policy(), batch, vec![failing(); 3]).await.unwrap();
    assert_eq!((firsts(&one), on.effects().await), (3, 3));
    for (one, two) in one.into_iter().zip(two) {
        assert_eq!(first(one), copy(two));
    }
}

/// A batch of which one message fails leaves all of it new.
pub async fn a_batch_of_which_one_fails_leaves_nothing(on: FreshInbox) {
    let batch = deliveries(["a", "b", "c"]);
    let work = vec![Work::default(), failing(), Work::default()];
    assert!(on.worker.batch(policy(), batch.clone(), work).await.is_err());
    assert_eq!((on.effects().await, on.remembered().await), (0, 0));
    assert_eq!(firsts(&on.batch(policy(), batch).await.unwrap()), 3);
}

/// What each run published and answered is recorded with its own message.
pub async fn what_runs_recorded_is_kept_by_message(on: FreshInbox) {
    let Some(outbox) = on.outbox.clone() else { return };
    let (one, two) = (event("a", "Billed"), event("a", "Sent"));
    let batch = deliveries(["b", "old", "a"]);
    on.handle(&batch[1]).await;
    let work = vec![
        Work { events: vec![one.clone()], ..answering("b") },
        Work { events: vec![event("a", "Never")], ..answering("old") },
        Work { events: vec![two.clone()], ..answering("a") },
    ];
    on.worker.batch(policy(), batch, work).await.unwrap();
    let kept = copy(on.handle(&delivery("a")).await);
    assert_eq!((kept.answer.as_deref(), kept.events), (Some(&b"a"[..]), vec![two.id]));
    assert_eq!(copy(on.handle(&delivery("b")).await).events, [one.id]);
    let left = outbox.events(EventFilter { limit: 10, ..EventFilter::default() }).await.unwrap();
    let caused = |placed: &semel::outbox::Placed| {
        let cause = placed.event.cause.as_ref().map(|cause| cause.as_str().to_owned());
        (placed.event.id, cause)
    };
    let by = |id| Some(format!("message:queue:orders {id}"));
    assert_eq!(left.iter().map(caused).collect::<Vec<_>>(), [(one.id, by("b")), (two.id, by("a"))]);
}

/// Two consumers have a batch each.
pub async fn consumers_of_one_batch_have_it_each(on: FreshInbox) {
    for _ in 0..2 {
        for name in ["billing", "mailing"] {
            on.batch(of(name), deliveries(["a", "b"])).await.unwrap();
        }
    }
    assert_eq!(on.effects().await, 4);
}

/// A batch has messages, and not more than one call takes; what was parked is run again by itself.
pub async fn a_batch_that_is_none_is_refused(on: FreshInbox) {
    assert!(on.batch(policy(), Vec::new()).await.is_err());
    let many = (0..=READ_MAX).map(|number| delivery(&format!("m{number}"))).collect();
    assert!(on.batch(policy(), many).await.is_err());
    let again = on.again("a").await;
    assert!(on.batch(policy(), vec![again]).await.is_err());
    assert_eq!(on.effects().await, 0);
}

/// A batch of five hundred is handled as one.
pub async fn a_large_batch_is_handled(on: FreshInbox) {
    let batch: Vec<_> = (0..500).map(|number| delivery(&format!("m{number}"))).collect();
    for new in [500, 0] {
        let handled = on.batch(policy(), batch.clone()).await.unwrap();
        assert_eq!(firsts(&handled), new);
    }
    assert_eq!(on.effects().await, 500);
}
