//! Consumers that are right in other ways than with ids in the transaction of the effect.

use std::net::SocketAddr;

use semel_drill::{plan::LateMessage, report::Ended};

use super::{
    billing::{Desk, Make, router},
    drilled, one_by_one, plan,
};
use crate::{
    api::Api,
    faults::{rules, told},
};

/// Who skips what is not newer knows each copy by its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_knows_messages_by_their_version_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let desk = Desk::open(&folder.path().join("billing.db"), Make::Versions);
    let api = Api::of(SocketAddr::from(([127, 0, 0, 1], 0)), router(desk)).await;
    let mut plan = plan();
    // A batch of this consumer names no versions.
    plan.batch = None;
    plan.ordered.as_mut().unwrap().late = LateMessage::Skipped;
    let verdicts = drilled(plan, &api.url(), &[]).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    assert_eq!(kept.len(), 13, "{}", told(&verdicts));
}

/// Who serves one after the other lets the others wait, and does not even take their connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_takes_few_connections_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let desk = Desk::open(&folder.path().join("billing.db"), None);
    let (url, _server) = one_by_one::serve(router(desk));
    let mut plan = plan();
    plan.bounds.racers = 10;
    let only = ["copy", "copies-at-once", "fails-first"];
    let verdicts = drilled(plan, &url, &only).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    assert_eq!(kept.len(), 1 + only.len(), "{}", told(&verdicts));
}
