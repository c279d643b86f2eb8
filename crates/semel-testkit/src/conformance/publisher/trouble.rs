//! Trouble at the far end: each message has a true outcome in time, and the next call works again.

use semel::outbox::{Fault, Message, Sent};
use tokio::time::{Duration, Instant, timeout};

use super::{FreshPublisher, Trouble, message, messages};

/// How much later than stated an outcome may come on a machine that is busy.
const GRACE: Duration = Duration::from_secs(20);

/// Publishes one batch while there is trouble, and expects its outcomes in time.
async fn in_trouble(on: &FreshPublisher, batch: &[Message]) -> Vec<Sent> {
    let wait = on.publisher.capabilities().publish_wait + GRACE;
    let sent = timeout(wait, on.publisher.publish(batch.to_vec())).await;
    let sent = sent.expect("every message has its outcome in time");
    assert_eq!(sent.len(), batch.len());
    for sent in &sent {
        if let Sent::Refused { why, .. } | Sent::Unknown { why } = sent {
            assert!(!why.is_empty() && !why.contains('\n'), "{why:?}");
        }
    }
    sent
}

fn confirmed(sent: &Sent) -> bool {
    *sent == Sent::Confirmed
}

/// The first batch that the publisher may be given of `n` messages.
fn batch(on: &FreshPublisher, n: usize) -> Vec<Message> {
    on.batches(&messages(n, 3)).remove(0)
}

/// M43: a far end that is away confirms nothing; what was refused for it is the destination's fault
/// and never arrives; and the publisher works again when the far end does.
pub async fn a_far_end_that_is_away_confirms_nothing(on: FreshPublisher) {
    on.goes_on().await;
    if !on.far.trouble(Trouble::Away).await {
        return;
    }
    let batch = batch(&on, 3);
    let sent = in_trouble(&on, &batch).await;
    on.far.mend().await;
    on.goes_on().await;
    for (sent, message) in sent.iter().zip(&batch) {
        match sent {
            Sent::Confirmed => panic!("nobody can have confirmed it"),
            Sent::Refused { fault: Fault::Message, why } => {
                panic!("it is not the fault of the message: {why}")
            }
            Sent::Refused { .. } => assert_eq!(on.copies(message).await, 0),
            Sent::Unknown { .. } => {}
        }
    }
    let again = on.send(&batch).await;
    assert!(again.iter().all(confirmed), "{again:?}");
}

/// A far end that stays away refuses call after call, each in time.
pub async fn a_far_end_that_stays_away_is_told_each_time(on: FreshPublisher) {
    if !on.far.trouble(Trouble::Away).await {
        return;
    }
    for _ in 0..3 {
        let sent = in_trouble(&on, &batch(&on, 3)).await;
        assert!(!sent.iter().any(confirmed), "{sent:?}");
    }
    on.far.mend().await;
    on.goes_on().await;
}

/// A message that was taken and whose answer was lost is not said to be refused.
pub async fn a_lost_answer_is_no_refusal(on: FreshPublisher) {
    on.goes_on().await;
    if !on.far.trouble(Trouble::LostAnswers).await {
        return;
    }
    let batch = batch(&on, 1);
    let sent = in_trouble(&on, &batch).await;
    let copies = on.copies(&batch[0]).await;
    on.far.mend().await;
    match &sent[0] {
        // A destination that knows copies of one send answers the second.
        Sent::Confirmed => assert_eq!(copies, 1),
        Sent::Unknown { .. } => assert!(copies <= 1, "{copies} copies of one send"),
        Sent::Refused { why, .. } => panic!("it is there, and said to be refused: {why}"),
    }
    on.goes_on().await;
    let again = Message { copies: 1, ..batch[0].clone() };
    assert_eq!(on.send(&[again]).await, [Sent::Confirmed]);
}

/// Of a batch that was cut off in the middle, no message is confirmed behind one of its lane that is not,
/// and what is confirmed is there.
pub async fn nothing_is_confirmed_behind_what_is_not(on: FreshPublisher) {
    if !on.far.trouble(Trouble::LostAnswers).await {
        return;
    }
    let batch = batch(&on, 30);
    let sent = in_trouble(&on, &batch).await;
    let mut shut = std::collections::BTreeSet::new();
    for (sent, message) in sent.iter().zip(&batch) {
        let lane = &message.event.lane;
        if confirmed(sent) {
            assert!(!shut.contains(lane), "{sent:?}");
            assert_eq!(on.copies(message).await, 1);
        } else {
            shut.insert(lane.clone());
        }
    }
    on.far.mend().await;
    on.goes_on().await;
}

/// M55: a far end that takes what comes and never answers: nobody can say, and that in time.
pub async fn a_mute_far_end_is_unknown_in_time(on: FreshPublisher) {
    on.goes_on().await;
    if !on.far.trouble(Trouble::Mute).await {
        return;
    }
    let sent = in_trouble(&on, &batch(&on, 3)).await;
    for sent in &sent {
        assert!(matches!(sent, Sent::Unknown { .. }), "{sent:?}");
    }
    on.far.mend().await;
    on.goes_on().await;
}

/// M56: a far end that says it takes nothing for now is the destination's fault, never the
/// message's.
pub async fn an_overloaded_far_end_is_the_destinations_fault(on: FreshPublisher) {
    if !on.far.trouble(Trouble::Overloaded).await {
        return;
    }
    let batch = batch(&on, 3);
    let sent = in_trouble(&on, &batch).await;
    for (sent, message) in sent.iter().zip(&batch) {
        let is_destination = matches!(sent, Sent::Refused { fault: Fault::Destination { .. }, .. });
        assert!(is_destination || matches!(sent, Sent::Unknown { .. }), "{sent:?}");
        assert_eq!(on.copies(message).await, 0);
    }
    on.far.mend().await;
    on.goes_on().await;
}

/// What is not confirmed does not come later than stated.
pub async fn nothing_comes_later_than_stated(on: FreshPublisher) {
    let stated = on.publisher.capabilities().publish_wait;
    if !on.far.trouble(Trouble::Mute).await {
        return;
    }
    let message = message("late", "x");
    let asked = Instant::now();
    in_trouble(&on, std::slice::from_ref(&message)).await;
    on.far.mend().await;
    tokio::time::sleep_until(asked + stated).await;
    let copies = on.copies(&message).await;
    for _ in 0..3 {
        on.goes_on().await;
    }
    assert_eq!(on.copies(&message).await, copies, "a copy came after its time");
}
