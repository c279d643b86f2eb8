//! A consumer in a process of its own, which is killed and started again.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use semel_drill::{
    plan::ProcessSpec,
    report::{Ended, Verdict},
};
use semel_testkit::servers::free_port;

use super::{
    billing::{Desk, Fault, Make, router},
    drilled, plan,
};
use crate::{
    api::Api,
    faults::{rules, told},
};

/// Says where this binary is to listen as a consumer, how it is to fail, and where its database lies.
const AS_CONSUMER: &str = "SEMEL_DRILL_TEST_CONSUMER";

/// The test that serves, where it is told to.
const SERVES: &str = "consumer::service::a_consumer_of_its_own_serves_until_it_is_killed";

/// How long what is right may take, also where many tests run.
const PATIENCE: Duration = Duration::from_secs(20);

fn command(address: SocketAddr, fault: &str, file: &Path) -> Vec<String> {
    let said = format!("{AS_CONSUMER}={address} {fault} {}", file.display());
    let this = std::env::current_exe().unwrap();
    let command = ["env", &said, this.to_str().unwrap(), SERVES, "--exact", "--nocapture"];
    command.map(str::to_owned).into()
}

async fn verdicts(fault: &str, patience: Duration, only: &[&str]) -> Vec<Verdict> {
    let folder = tempfile::tempdir().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let start = command(address, fault, &folder.path().join("billing.db"));
    let mut plan = plan();
    plan.bounds.patience = patience;
    plan.process = Some(ProcessSpec { start, folder: None, ready: "/effects/none".into() });
    drilled(plan, &format!("http://{address}"), only).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_of_its_own_serves_until_it_is_killed() {
    if let Ok(said) = std::env::var(AS_CONSUMER) {
        let mut said = said.splitn(3, ' ');
        let mut next = || said.next().unwrap();
        let (address, fault, file) = (next().parse().unwrap(), next(), PathBuf::from(next()));
        let make = match fault {
            "acks-first" => Make::Faulty(Fault::AcksFirst),
            "acks-while-busy" => Make::Faulty(Fault::AcksWhileBusy),
            "effect-first" => Make::Faulty(Fault::EffectFirst),
            "memory-only" => Make::Faulty(Fault::MemoryOnly),
            "notes-first" => Make::Faulty(Fault::NotesFirst),
            "queued" => Make::Queued,
            _ => Make::SemelInbox,
        };
        return Api::of(address, router(Desk::open(&file, make))).await.forever().await;
    }
    let verdicts = verdicts("none", PATIENCE, &["copy"]).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    assert_eq!(kept, ["control", "copy"], "{}", told(&verdicts));
}

/// What is acknowledged and kept in a table is worked off after a kill, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_with_a_queue_of_its_own_is_right() {
    let only = ["copy", "poison", "fails-first", "later", "early-ack", "crash", "restart", "storm"];
    let verdicts = verdicts("queued", PATIENCE, &only).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    assert_eq!(kept.len(), 1 + only.len(), "{}", told(&verdicts));
}

/// M98: killed in the middle and started again, Semel's inbox keeps every rule there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_with_semels_inbox_survives_every_kill() {
    let only =
        ["copy", "cut-short", "poison", "fails-first", "early-ack", "crash", "restart", "lasting"];
    let verdicts = verdicts("none", PATIENCE, &only).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    assert_eq!(kept.len(), 1 + only.len(), "{}", told(&verdicts));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_kill_or_a_restart_takes_from_a_consumer_is_found() {
    for (fault, red) in [
        ("acks-first", &["early-ack", "crash"][..]),
        ("acks-while-busy", &["crash"]),
        ("effect-first", &["crash"]),
        ("memory-only", &["crash", "restart"]),
        ("notes-first", &["crash"]),
    ] {
        // What is lost never comes, however long it is waited for.
        let patience = Duration::from_secs(3);
        let verdicts = verdicts(fault, patience, &["early-ack", "crash", "restart"]).await;
        let broken = rules(&verdicts, |ended| matches!(ended, Ended::Broken(_)));
        // A restart may come while something is under way, or not.
        let is_found = red.iter().all(|rule| broken.contains(rule));
        assert!(is_found && !broken.contains(&"control"), "{fault}\n{}", told(&verdicts));
    }
}
