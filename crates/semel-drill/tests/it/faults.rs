//! Every rule can be broken: each fault of an API turns its own rules red, and no other.

use std::time::Duration;

use futures_util::future::join_all;
use semel_drill::{
    effects::Effects,
    http::{Drill, Target, run},
    plan::{Plan, Secrets},
    report::{Ended, Report, Show, Verdict, WIDTH_MAX},
};

use crate::api::{Api, Fault, plan, short_lived_plan};

/// Drills by a plan, and returns every verdict.
pub(crate) async fn drilled(plan: Plan, url: &str, only: &[&str]) -> Vec<Verdict> {
    let target = Target::parse(url, None).unwrap();
    let effects = Effects::open(&plan.effects, &target, None, plan.bounds.answer_wait).unwrap();
    let only: Vec<_> = only.iter().map(|&rule| rule.to_owned()).collect();
    run(&Drill::new(plan, target, effects, 7), &only, |_| {}).await
}

/// Names the rules that ended as `wanted` says.
pub(crate) fn rules(verdicts: &[Verdict], wanted: fn(&Ended) -> bool) -> Vec<&'static str> {
    verdicts.iter().filter(|one| wanted(&one.ended)).map(|one| one.rule.name).collect()
}

/// Says what every rule that does not hold came to.
pub(crate) fn told(verdicts: &[Verdict]) -> String {
    let told =
        verdicts.iter().map(|one| format!("{}: {:?} {}\n", one.rule.name, one.ended, one.seen));
    told.collect()
}

async fn verdicts(fault: Option<Fault>) -> Vec<Verdict> {
    let api = Api::start(fault).await;
    drilled(plan(), &api.url(), &[]).await
}

/// Each fault breaks its rules, and no other.
async fn break_only(cases: &[(Fault, &[&str])]) {
    let all = join_all(cases.iter().map(|(fault, _)| verdicts(Some(*fault)))).await;
    for ((fault, red), verdicts) in cases.iter().zip(all) {
        let broken = rules(&verdicts, |ended| matches!(ended, Ended::Broken(_)));
        assert_eq!(broken, *red, "{fault:?}\n{}", told(&verdicts));
        let failed = rules(&verdicts, |ended| matches!(ended, Ended::Failed(_)));
        assert!(failed.is_empty(), "{fault:?}\n{}", told(&verdicts));
    }
}

#[tokio::test]
async fn an_api_that_keeps_its_keys_well_keeps_every_rule() {
    let verdicts = verdicts(None).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    let not_tried = rules(&verdicts, |ended| matches!(ended, Ended::NotTried(_)));
    let left_out = vec!["late", "crash", "restart"];
    assert_eq!((kept.len(), not_tried), (18, left_out), "{}", told(&verdicts));
    assert!(verdicts.iter().filter(|one| one.ended == Ended::Kept).all(|one| {
        !one.seen.is_empty() && !one.exchanges.is_empty() && !one.effects.is_empty()
    }));
}

#[tokio::test]
async fn one_status_for_every_refusal_is_no_fault_where_it_is_documented() {
    let api = Api::start(Some(Fault::OneRefusal)).await;
    let mut plan = plan();
    plan.answers.mismatch = Some(vec![409]);
    let verdicts = drilled(plan, &api.url(), &[]).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    assert_eq!(kept.len(), 18, "{}", told(&verdicts));
}

#[tokio::test]
async fn a_count_that_never_moves_lets_nothing_be_believed() {
    let verdicts = verdicts(Some(Fault::CountsNothing)).await;
    assert!(matches!(&verdicts[0].ended, Ended::Failed(_)), "{}", told(&verdicts));
    assert!(verdicts[1..].iter().all(|one| matches!(one.ended, Ended::NotTried(_))));
}

#[tokio::test]
async fn an_api_that_ignores_keys_breaks_all_that_a_key_is_for() {
    let red = [
        "replay",
        "lost-answer",
        "race",
        "changed-after",
        "changed-during",
        "other-operation",
        "other-tenant",
        "reformatted",
        "number-twins",
        "hang-up",
        "storm",
        "after-change",
        "after-delete",
        "odd-keys",
        "missing-key",
        "lasting",
    ];
    break_only(&[(Fault::IgnoresKeys, &red)]).await;
}

#[tokio::test]
async fn a_fault_in_what_a_key_names_is_told_by_its_rule() {
    break_only(&[
        (Fault::ForgetsOperation, &["other-operation"]),
        (Fault::ForgetsTenant, &["other-tenant"]),
        (Fault::ForgetsContent, &["changed-after", "changed-during", "number-twins"]),
        (Fault::ContentIsIdentity, &["changed-after", "changed-during", "number-twins"]),
        (Fault::Doubles, &["number-twins"]),
        (Fault::RawBytes, &["reformatted"]),
    ])
    .await;
}

#[tokio::test]
async fn a_fault_in_what_is_taken_for_a_key_is_told_by_its_rule() {
    break_only(&[
        (Fault::BreaksOnOddKeys, &["odd-keys"]),
        (Fault::FoldsCase, &["odd-keys"]),
        (Fault::RunsOnEmptyKeys, &["odd-keys"]),
        (Fault::TruncatesKeys, &["odd-keys"]),
        (Fault::RunsWithoutKey, &["missing-key"]),
    ])
    .await;
}

#[tokio::test]
async fn the_report_shows_the_pair_of_keys_that_were_taken_for_one() {
    let api = Api::start(Some(Fault::FoldsCase)).await;
    let plan = plan();
    let report = Report {
        name: plan.name.clone(),
        target: api.url(),
        contract: Some(plan.contract),
        program: None,
        seed: 7,
        took: Duration::ZERO,
        interrupted: false,
        not_reached: Vec::new(),
        verdicts: drilled(plan, &api.url(), &["odd-keys"]).await,
        secrets: Secrets::default(),
    };
    let table = report.table(Show::Broken, WIDTH_MAX);
    let shown = |key: &str| table.contains(&format!("idempotency-key: {key}-"));
    assert!(shown("Case") && shown("case"), "{table}");
    assert!(table.lines().all(|line| line.len() < 1_000), "{table}");
    let all = report.table(Show::All, WIDTH_MAX);
    assert!(all.len() < 1_000_000 && !all.contains(&"k".repeat(600)), "{all}");
}

#[tokio::test]
async fn a_fault_of_a_run_is_told_by_its_rules() {
    break_only(&[
        (Fault::LooksThenInserts, &["race", "changed-during", "hang-up", "storm"]),
        (Fault::DiesWithTheClient, &["hang-up", "storm"]),
        (Fault::BreaksWhileItRuns, &["race", "changed-during"]),
        (Fault::ActsOnRefusal, &["failed-first"]),
    ])
    .await;
}

#[tokio::test]
async fn a_fault_of_a_replay_is_told_by_its_rules() {
    let compared = [
        "replay",
        "lost-answer",
        "race",
        "changed-after",
        "changed-during",
        "other-operation",
        "other-tenant",
        "reformatted",
        "number-twins",
        "storm",
        "after-change",
        "after-delete",
        "odd-keys",
        "lasting",
    ];
    break_only(&[
        (Fault::PrettyReplays, &compared),
        (Fault::Unmarked, &["replay"]),
        (Fault::ReplaysCurrent, &["after-change", "after-delete"]),
        (Fault::RecreatesDeleted, &["after-delete"]),
    ])
    .await;
}

#[tokio::test]
async fn a_late_retry_is_refused_as_documented_or_its_rule_is_broken() {
    let cases = [
        (None, vec![]),
        (Some(Fault::RunsLate), vec!["late"]),
        (Some(Fault::ReplaysStale), vec!["late"]),
    ];
    for (fault, red) in cases {
        let api = Api::short_lived(fault).await;
        let verdicts = drilled(short_lived_plan(), &api.url(), &["late"]).await;
        let broken = rules(&verdicts, |ended| matches!(ended, Ended::Broken(_)));
        assert_eq!((verdicts.len(), broken), (2, red), "{}", told(&verdicts));
    }
}
