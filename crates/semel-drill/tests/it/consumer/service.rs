//! A consumer in a process of its own, which is killed and started again.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use semel_drill::{
    plan::ProcessSpec,
    report::{Ended, Verdict},
};
use semel_testkit::servers::free_port;

use super::{
    billing::{Desk, Fault, router},
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

fn command(address: SocketAddr, fault: &str, file: &Path) -> Vec<String> {
    let said = format!("{AS_CONSUMER}={address} {fault} {}", file.display());
    let this = std::env::current_exe().unwrap();
    let command = ["env", &said, this.to_str().unwrap(), SERVES, "--exact", "--nocapture"];
    command.map(str::to_owned).into()
}

async fn verdicts(fault: &str, only: &[&str]) -> Vec<Verdict> {
    let folder = tempfile::tempdir().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let start = command(address, fault, &folder.path().join("billing.db"));
    let mut plan = plan();
    plan.process = Some(ProcessSpec { start, folder: None, ready: "/effects/none".into() });
    drilled(plan, &format!("http://{address}"), only).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_of_its_own_serves_until_it_is_killed() {
    if let Ok(said) = std::env::var(AS_CONSUMER) {
        let mut said = said.splitn(3, ' ');
        let mut next = || said.next().unwrap();
        let (address, fault, file) = (next().parse().unwrap(), next(), PathBuf::from(next()));
        let fault = match fault {
            "effect-first" => Some(Fault::EffectFirst),
            "memory-only" => Some(Fault::MemoryOnly),
            "notes-first" => Some(Fault::NotesFirst),
            _ => None,
        };
        return Api::of(address, router(Desk::open(&file, fault))).await.forever().await;
    }
    let verdicts = verdicts("none", &["copy"]).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    assert_eq!(kept, ["control", "copy"], "{}", told(&verdicts));
}

/// M98: killed in the middle and started again, Semel's inbox keeps every rule there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_with_semels_inbox_survives_every_kill() {
    let only = ["copy", "cut-short", "poison", "fails-first", "crash", "restart", "lasting"];
    let verdicts = verdicts("none", &only).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    assert_eq!(kept.len(), 1 + only.len(), "{}", told(&verdicts));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_kill_or_a_restart_takes_from_a_consumer_is_found() {
    for (fault, red) in [
        ("effect-first", &["crash"][..]),
        ("memory-only", &["crash", "restart"]),
        ("notes-first", &["crash"]),
    ] {
        let verdicts = verdicts(fault, &["crash", "restart"]).await;
        let broken = rules(&verdicts, |ended| matches!(ended, Ended::Broken(_)));
        assert_eq!(broken, red, "{fault}\n{}", told(&verdicts));
    }
}
