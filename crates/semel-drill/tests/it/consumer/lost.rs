//! What is acknowledged and has no effect is lost, and is found.

use std::{net::SocketAddr, time::Duration};

use semel_drill::report::{Ended, Verdict};

use super::{
    billing::{Desk, Fault, router},
    drilled, plan,
};
use crate::{api::Api, faults::told};

/// Drills with little patience: what is lost never comes, however long it is waited for.
async fn verdicts(fault: Fault, only: &[&str]) -> Vec<Verdict> {
    let folder = tempfile::tempdir().unwrap();
    let desk = Desk::open(&folder.path().join("billing.db"), Some(fault));
    let api = Api::of(SocketAddr::from(([127, 0, 0, 1], 0)), router(desk)).await;
    let mut plan = plan();
    plan.bounds.patience = Duration::from_secs(3);
    drilled(plan, &api.url(), only).await
}

/// Demands that a rule is broken, in these words.
async fn check(fault: Fault, rule: &str, says: &str) {
    let verdicts = verdicts(fault, &[rule]).await;
    let seen = verdicts.iter().find(|one| one.rule.name == rule).unwrap();
    let is_broken = matches!(&seen.ended, Ended::Broken(why) if why.contains(says));
    assert!(is_broken, "{fault:?}\n{}", told(&verdicts));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_message_that_is_taken_for_a_copy_breaks_the_control() {
    check(Fault::KnowsByAggregate, "control", "it was taken for a copy, and is lost").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_are_lost_among_many_others_are_found() {
    check(Fault::LosesSome, "later", "of 40 acknowledged messages in between, 2 have no").await;
}

/// Whoever acknowledges a copy trusts in a run that has not ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_is_acknowledged_before_the_first_run_fails_is_found() {
    check(Fault::AcksWhileBusy, "fails-first", "a copy of a message whose first run fails").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_an_effect_of_what_is_refused_is_found() {
    let says = "was refused for good, and has 1 effect all the same";
    check(Fault::KeepsHalfOfPoison, "poison", says).await;
}
