//! The whole stack under trouble, and a verdict that can fail.

use std::{
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use semel_drill::{
    report::Ended,
    stack::{OnLost, Progress, RedisSetup, Report, Settings, Store, Trouble, Until, Upstream, run},
};
use semel_testkit::{SeededEntropy, servers::Major};

const PROGRAM: &str = env!("CARGO_BIN_EXE_semel-drill");

fn settings(store: Store, seconds: u64) -> Settings {
    Settings {
        program: PROGRAM.into(),
        store,
        major: Major::V18,
        redis: RedisSetup::default(),
        gateways: 2,
        on_lost: OnLost::Hold,
        upstream: Upstream::Naive,
        calm_upstream: false,
        events: false,
        forgetful_receiver: false,
        until: Until::Time(Duration::from_secs(seconds)),
        clients: 24,
        seed: SeededEntropy::printed().seed(),
        trouble: vec![Trouble::Cut, Trouble::Delay, Trouble::Kill, Trouble::Restart, Trouble::Stop],
        lagging_standby: false,
        every: Duration::from_millis(700),
        lease: Duration::from_secs(2),
        folder: None,
    }
}

async fn drilled(settings: &Settings) -> Report {
    let report = run(settings, &Progress::silent()).await;
    report.unwrap_or_else(|error| panic!("seed {}: {error}", settings.seed))
}

/// Every rule is kept, and there was something to break it.
async fn check(settings: &Settings) {
    let report = drilled(settings).await;
    let table = report.table();
    println!("{table}");
    assert!(report.is_good(), "{table}");
    let figures = &report.figures;
    // The trouble lasts for seconds, and what gets done in them is little on a machine with other work.
    assert!(figures.effects > 20 && figures.replays >= 2 * figures.effects, "{table}");
    let made: usize = figures.trouble.values().sum();
    assert!(made >= 3, "{table}");
}

/// C10, C13, C16: two gateways on one file, killed, frozen, shut down and cut off from their upstream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_on_one_file_keep_every_rule_under_trouble() {
    check(&settings(Store::Sqlite, 11)).await;
}

/// C10, C13, C16: two gateways on one server, which is restarted and killed besides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_on_one_server_keep_every_rule_under_trouble() {
    check(&settings(Store::Postgres, 11)).await;
}

/// C10, C13, C16: two gateways on one Redis, which is killed and frozen besides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_on_one_redis_keep_every_rule_under_trouble() {
    check(&settings(Store::Redis, 6)).await;
}

/// A cluster whose replicas are cut off from a primary that then dies.
async fn cut_off(wait_replicas: u32) -> Report {
    let redis = RedisSetup { wait_replicas: Some(wait_replicas), ..RedisSetup::default() };
    let trouble = vec![Trouble::Failover];
    let settings = Settings { redis, trouble, ..settings(Store::RedisCluster, 3) };
    let report =
        drilled(&Settings { lagging_standby: true, calm_upstream: true, ..settings }).await;
    let table = report.table();
    println!("{table}");
    assert!(report.is_good() && report.figures.trouble[&Trouble::Failover] > 0, "{table}");
    report
}

/// What the killed primary acknowledged alone is counted as lost where nobody waited for a replica, and whoever
/// asks for it again is somebody new.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_cluster_loses_that_is_not_waited_for_is_told() {
    let mut report = cut_off(0).await;
    for _ in 0..4 {
        if report.figures.records_lost > 0 {
            break;
        }
        // On a slow machine nobody may have been told anything meanwhile.
        report = cut_off(0).await;
    }
    let (figures, table) = (&report.figures, report.table());
    let told = report.verdicts.iter().find(|verdict| verdict.rule.name == "no-record-lost");
    assert!(figures.records_lost > 0 && figures.by_loss.unwrap().double > 0, "{table}");
    assert_eq!(told.unwrap().seen, format!("{} acknowledged and lost", figures.records_lost));
}

/// The same, and every answer waited for a replica: nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_waited_for_loses_nothing() {
    let figures = cut_off(1).await.figures;
    assert!(figures.by_loss.is_none() && figures.effects > 20, "{figures:?}");
    assert_eq!((figures.records_lost, figures.double), (0, 0));
}

/// Every event of what was committed arrived, and nothing else did, though relays died with their gateways.
async fn check_events(settings: Settings) {
    let settings = Settings { events: true, ..settings };
    let report = drilled(&settings).await;
    let table = report.table();
    println!("{table}");
    assert!(report.is_good(), "{table}");
    let events = report.figures.events.as_ref().unwrap();
    assert!(events.committed > 20 && events.arrived >= events.committed, "{table}");
    // Whether an answer was cut off, so that an event came again, is chance.
    assert!(events.rolled_back > 0, "{table}");
    let rules: Vec<_> = report.verdicts.iter().map(|verdict| verdict.rule.name).collect();
    assert!(rules.ends_with(&["no-event-lost", "events-in-order", "no-false-event"]), "{rules:?}");
}

/// M16: relays on one file, killed, frozen past their lease and cut off from their receiver.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_out_of_one_file_arrive_in_order_under_trouble() {
    check_events(settings(Store::Sqlite, 7)).await;
}

/// M91: relays on one server, which is restarted and killed besides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_out_of_one_server_arrive_in_order_under_trouble() {
    check_events(settings(Store::Postgres, 7)).await;
}

/// The verdict can fail: events that a receiver confirmed and did not take are found to be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_a_receiver_forgets_are_found() {
    let (events, forgetful_receiver) = (true, true);
    let settings = Settings { events, forgetful_receiver, ..settings(Store::Sqlite, 2) };
    let settings = Settings { trouble: Vec::new(), ..settings };
    let report = drilled(&settings).await;
    let broken = report.verdicts.iter().filter(|one| matches!(one.ended, Ended::Broken(_)));
    let broken: Vec<_> = broken.map(|one| one.rule.name).collect();
    assert_eq!(broken, ["no-event-lost"], "{}", report.table());
}

/// Where the upstream honours the key, everything is done exactly once and nobody is needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rerun_over_a_keyed_upstream_does_everything_once() {
    let rerun = OnLost::Rerun;
    let keyed = Upstream::Keyed;
    let settings = Settings { on_lost: rerun, upstream: keyed, ..settings(Store::Sqlite, 6) };
    check(&settings).await;
}

/// The verdict can fail: rerun over an upstream that does not honour the key acts twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rerun_over_a_naive_upstream_is_found_to_act_twice() {
    let settings = Settings { on_lost: OnLost::Rerun, ..settings(Store::Sqlite, 5) };
    let report = drilled(&settings).await;
    let double = report.verdicts.iter().find(|verdict| verdict.rule.name == "no-double").unwrap();
    assert!(matches!(double.ended, Ended::Broken(_)), "{}", report.table());
    assert!(report.figures.double > 0 && !report.is_good());
    assert!(report.junit().contains("<failure"), "{}", report.junit());
}

/// The verdict can fail: what a failover to a standby that lags has lost is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lagging_standby_has_lost_is_found() {
    let trouble = vec![Trouble::Failover];
    let settings = Settings { trouble, lagging_standby: true, ..settings(Store::Postgres, 5) };
    let report = drilled(&settings).await;
    let figures = &report.figures;
    assert!(figures.differs + figures.double > 0 && !report.is_good(), "{}", report.table());
    let lost =
        report.verdicts.iter().find(|verdict| verdict.rule.name == "no-record-lost").unwrap();
    assert!(
        figures.records_lost > 0 && matches!(lost.ended, Ended::Broken(_)),
        "{}",
        report.table()
    );
}

/// A failover to a standby that every commit waited for loses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_loses_nothing_that_was_acknowledged() {
    let trouble = vec![Trouble::Failover, Trouble::Kill];
    check(&Settings { trouble, ..settings(Store::Postgres, 8) }).await;
}

/// Without trouble nothing is unknown: what is unknown under trouble is the trouble's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_trouble_nothing_is_unknown() {
    let settings =
        Settings { calm_upstream: true, trouble: Vec::new(), ..settings(Store::Sqlite, 2) };
    let report = drilled(&settings).await;
    assert!(report.is_good(), "{}", report.table());
    assert_eq!((report.figures.unknown, report.figures.told_unknown), (0, 0));
    assert_eq!(report.figures.effects, report.figures.intents);
}

fn stack(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).arg("stack").args(arguments).output().unwrap()
}

#[test]
fn the_command_tells_by_its_exit_code_and_as_json_and_junit() {
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("junit.xml");
    let kept = folder.path().join("kept");
    let ran = stack(&[
        "--store=sqlite",
        "--intents=200",
        "--no-trouble",
        "--calm-upstream",
        "--events",
        "--json",
        "--seed=7",
        &format!("--junit={}", junit.display()),
        &format!("--folder={}", kept.display()),
    ]);
    let said: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{said:#}");
    assert_eq!((&said["format"], &said["outcome"]), (&1.into(), &"kept".into()));
    assert_eq!((&said["figures"]["seed"], &said["figures"]["intents"]), (&"7".into(), &200.into()));
    let events = &said["figures"]["events"];
    assert_eq!((&events["committed"], &events["arrived"]), (&200.into(), &200.into()), "{said:#}");
    assert!(std::fs::read_to_string(junit).unwrap().contains("failures=\"0\""));
    assert!(kept.join("data/semel.db").exists(), "the folder is kept");
    assert!(inside(&kept).is_empty(), "nothing runs there any more");
}

#[test]
fn what_cannot_be_had_is_refused_in_one_sentence() {
    for (arguments, says) in [
        (&["--store=sqlite", "--trouble=failover"][..], "nobody to fail over to"),
        (&["--store=postgres", "--trouble=failover,power"], "drill failover and power apart"),
        (&["--store=postgres", "--lagging-standby"], "only with the trouble failover"),
        (&["--store=sqlite", "--gateways=0"], "1 to 16 gateways"),
        (&["--store=sqlite", "--forgetful-receiver"], "only with events"),
        (&["--store=sqlite", "--clients=0"], "without clients"),
        (&["--store=sqlite", "--every=0s"], "write 500ms, 30s or 5m"),
        (&["--store=postgres", "--major=14"], "write 15, 17 or 18"),
        (&["--store=redis", "--trouble=failover"], "nobody to fail over to"),
        (&["--store=sqlite", "--server=redis-7"], "says something of Redis"),
        (&["--store=postgres", "--wait-replicas=1"], "says something of Redis"),
        (&["--store=redis", "--events"], "Redis has none"),
        (&["--store=redis", "--wait-replicas=1"], "no replicas that could be waited for"),
        (&["--store=redis-cluster", "--wait-replicas=2"], "no more than 1 here"),
        (&["--store=redis-cluster", "--trouble=power"], "only a single Redis has a disk"),
        (
            &["--store=redis-sentinel", "--trouble=skew"],
            "only a single Redis has a disk and a clock",
        ),
        (&["--store=redis", "--server=redis-7", "--wait-flushed"], "cannot wait for its disk"),
        (&["--store=redis", "--server=redis-6"], "write redis-7, redis-8 or valkey-9"),
    ] {
        let ran = stack(arguments);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{said}");
    }
}

/// A drill that is killed leaves no process behind.
#[tokio::test]
async fn what_a_killed_drill_started_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().canonicalize().unwrap();
    let mut drill = Command::new(PROGRAM)
        .args(["stack", "--store=sqlite", "--for=60s", "--folder"])
        .arg(&place)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    until(|| inside(&place).len() >= 2).await;
    drill.kill().unwrap();
    drill.wait().unwrap();
    until(|| inside(&place).is_empty()).await;
}

/// The processes that work in a folder.
fn inside(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let works_there = |entry: &std::fs::DirEntry| {
        let at = std::fs::read_link(entry.path().join("cwd"));
        at.is_ok_and(|at| at.starts_with(folder))
    };
    let found = entries.filter(works_there);
    found.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Polls until something is true, with a deadline.
async fn until(is_true: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while !is_true() {
        assert!(std::time::Instant::now() < deadline, "it never came true");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
