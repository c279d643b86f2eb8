//! An API that is killed and started again: what it keeps in memory alone, it forgets.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use semel_drill::{
    http::Target,
    plan::{Plan, ProcessSpec},
    report::Ended,
};
use semel_testkit::servers::{Process, free_port};

use crate::{
    api::{Api, Fault, PLAN, plan},
    faults::{drilled, rules, told},
};

/// Says where this binary is to listen as the API, how it is to fail, and where it keeps its state.
const AS_API: &str = "SEMEL_DRILL_TEST_API";

/// The test that serves, where it is told to.
const SERVES: &str = "crash::an_api_in_a_process_of_its_own_serves_until_it_is_killed";

fn address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// The command by which this binary is the API.
fn command(address: SocketAddr, fault: &str, file: &Path) -> Vec<String> {
    let said = format!("{AS_API}={address} {fault} {}", file.display());
    let this = std::env::current_exe().unwrap();
    let command = ["env", &said, this.to_str().unwrap(), SERVES, "--exact", "--nocapture"];
    command.map(str::to_owned).into()
}

#[tokio::test]
async fn an_api_in_a_process_of_its_own_serves_until_it_is_killed() {
    if let Ok(said) = std::env::var(AS_API) {
        let mut said = said.splitn(3, ' ');
        let mut next = || said.next().unwrap();
        let (address, fault, file) = (next().parse().unwrap(), next(), PathBuf::from(next()));
        let fault = match fault {
            "keys-in-memory" => Some(Fault::KeysInMemory),
            "outcome-after-effect" => Some(Fault::OutcomeAfterEffect),
            _ => None,
        };
        return Api::durable(address, fault, file).await.forever().await;
    }
    let (folder, address) = (tempfile::tempdir().unwrap(), address());
    let command = command(address, "none", &folder.path().join("state.json"));
    let mut process = Process::start(&command[0], |process| {
        process.args(&command[1..]);
    });
    process.until_it_listens(address, Duration::from_secs(20)).await.unwrap();
    process.kill();
    let target = Target::parse(&format!("http://{address}"), None).unwrap();
    assert!(target.connect().await.is_err());
}

/// Says which rules an API with a fault breaks when it is killed and started again.
async fn broken(fault: &str) -> Vec<&'static str> {
    let (folder, address) = (tempfile::tempdir().unwrap(), address());
    let start = command(address, fault, &folder.path().join("state.json"));
    let process = ProcessSpec { start, folder: None, ready: "/effects/none".into() };
    let plan = Plan { process: Some(process), ..plan() };
    let verdicts = drilled(plan, &format!("http://{address}"), &["crash", "restart"]).await;
    assert!(
        !verdicts.iter().any(|one| matches!(one.ended, Ended::Failed(_))),
        "{}",
        told(&verdicts)
    );
    assert_eq!(verdicts.len(), 3);
    rules(&verdicts, |ended| matches!(ended, Ended::Broken(_)))
}

#[tokio::test]
async fn an_api_that_keeps_outcome_and_effect_at_once_survives_a_kill() {
    assert!(broken("none").await.is_empty());
}

#[tokio::test]
async fn keys_that_are_kept_in_memory_do_not_survive_a_restart() {
    assert_eq!(broken("keys-in-memory").await, ["crash", "restart"]);
}

#[tokio::test]
async fn an_outcome_that_is_kept_after_its_effect_is_lost_by_a_kill() {
    assert_eq!(broken("outcome-after-effect").await, ["crash"]);
}

#[tokio::test]
async fn an_api_that_cannot_be_started_is_told_once() {
    let process = ProcessSpec { start: vec!["false".into()], folder: None, ready: "/".into() };
    let plan = Plan { process: Some(process), ..plan() };
    let verdicts = drilled(plan, &format!("http://{}", address()), &["race", "replay"]).await;
    assert_eq!(rules(&verdicts, |ended| matches!(ended, Ended::Failed(_))), ["control"]);
    let others = rules(&verdicts, |ended| matches!(ended, Ended::NotTried(_)));
    assert_eq!(others, ["replay", "race"]);
}

/// Starts a drill that goes on until it is ended, and waits until the API that it started listens.
async fn endless(folder: &Path, address: SocketAddr) -> Process {
    let start = command(address, "none", &folder.join("state.json"));
    let file = folder.join("plan.toml");
    let process = format!("[process]\nstart = {start:?}\nready = \"/effects/none\"\n");
    std::fs::write(&file, PLAN.replace("storm = 12", "storm = 5000") + &process).unwrap();
    let (plan, target) = (file.to_str().unwrap(), format!("http://{address}"));
    let arguments = ["http", "--plan", plan, "--target", &target, "--only", "storm"];
    let mut drill = Process::start(env!("CARGO_BIN_EXE_semel-drill"), |process| {
        process.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    });
    drill.until_it_listens(address, Duration::from_secs(20)).await.unwrap();
    drill
}

/// Waits until the API is gone: its port may stay open a moment longer than its drill lives.
async fn until_nobody_listens(address: SocketAddr) {
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        assert!(std::time::Instant::now() < until, "the API outlived its drill");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_drill_that_is_ended_leaves_no_process_of_the_api() {
    for signal in ["TERM", "HUP", "INT"] {
        let (folder, address) = (tempfile::tempdir().unwrap(), address());
        let mut drill = endless(folder.path(), address).await;
        drill.signal(signal);
        let ended = drill.until_ended(Duration::from_secs(20)).await.unwrap();
        assert_eq!(ended.code(), Some(3), "{signal}");
        until_nobody_listens(address).await;
    }
}

#[tokio::test]
async fn a_drill_that_is_killed_leaves_no_process_of_the_api() {
    let (folder, address) = (tempfile::tempdir().unwrap(), address());
    let mut drill = endless(folder.path(), address).await;
    drill.kill();
    until_nobody_listens(address).await;
}
