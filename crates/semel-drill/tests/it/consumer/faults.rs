//! Each fault of a consumer breaks its rules.

use std::net::SocketAddr;

use futures_util::future::join_all;
use semel_drill::report::{Ended, Verdict};

use super::{
    billing::{Desk, Fault, router},
    drilled, plan,
};
use crate::{
    api::Api,
    faults::{rules, told},
};

async fn verdicts(fault: Option<Fault>, only: &[&str]) -> Vec<Verdict> {
    let folder = tempfile::tempdir().unwrap();
    let desk = Desk::open(&folder.path().join("billing.db"), fault);
    let api = Api::of(SocketAddr::from(([127, 0, 0, 1], 0)), router(desk)).await;
    drilled(plan(), &api.url(), only).await
}

/// M113: copies at once, and every other repetition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_with_semels_inbox_keeps_every_rule() {
    let verdicts = verdicts(None, &[]).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    let not_tried = rules(&verdicts, |ended| matches!(ended, Ended::NotTried(_)));
    assert_eq!(
        (kept.len(), not_tried),
        (14, vec!["early-ack", "crash", "restart"]),
        "{}",
        told(&verdicts)
    );
    assert!(verdicts.iter().filter(|one| one.ended == Ended::Kept).all(|one| {
        !one.seen.is_empty() && !one.exchanges.is_empty() && !one.effects.is_empty()
    }));
}

/// A naive consumer acts on whatever comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_naive_consumer_breaks_every_rule_of_repetition() {
    let verdicts = verdicts(Some(Fault::Naive), &[]).await;
    let broken = rules(&verdicts, |ended| matches!(ended, Ended::Broken(_)));
    let wanted = [
        "copy",
        "lost-ack",
        "copies-at-once",
        "cut-short",
        "other-content",
        "rewind",
        "batch",
        "out-of-order",
        "fails-first",
        "later",
        "storm",
        "lasting",
    ];
    assert_eq!(broken, wanted, "{}", told(&verdicts));
}

/// Each fault breaks its rules, and no other that was tried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_breaks_its_own_rules() {
    let cases: [(Fault, &[&str], &[&str]); 8] = [
        (Fault::BatchAsWhole, &["batch"], &["copy", "rewind"]),
        (Fault::EffectFirst, &["fails-first"], &["copy", "copies-at-once", "storm"]),
        (Fault::ForgetsSoon, &["later"], &["copy", "rewind", "lost-ack"]),
        (Fault::LooksFirst, &["copies-at-once"], &["copy", "lost-ack", "rewind"]),
        (Fault::NotesFirst, &["fails-first"], &["copy", "copies-at-once", "other-content"]),
        (Fault::OtherContentRuns, &["other-content"], &["copy", "batch", "poison"]),
        (Fault::OverwritesNewer, &["out-of-order"], &["copy", "later"]),
        (Fault::PoisonLoops, &["poison"], &["copy", "out-of-order"]),
    ];
    let all = cases.iter().map(|(fault, red, green)| {
        let only = [*red, *green].concat();
        async move { verdicts(Some(*fault), &only).await }
    });
    for ((fault, red, _), verdicts) in cases.iter().zip(join_all(all).await) {
        let broken = rules(&verdicts, |ended| matches!(ended, Ended::Broken(_)));
        assert_eq!(broken, *red, "{fault:?}\n{}", told(&verdicts));
        let failed = rules(&verdicts, |ended| matches!(ended, Ended::Failed(_)));
        assert!(failed.is_empty(), "{fault:?}\n{}", told(&verdicts));
    }
}

/// What is answered "never again" while another copy works would be lost if that one failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_is_refused_while_another_works_is_found() {
    let verdicts = verdicts(Some(Fault::RefusesWhileBusy), &["copies-at-once"]).await;
    let broken = rules(&verdicts, |ended| matches!(ended, Ended::Broken(_)));
    assert_eq!(broken, ["copies-at-once"], "{}", told(&verdicts));
}
