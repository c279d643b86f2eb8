//! What an operator does with the records of a real SQLite file.

use std::time::Duration;

use semel::{
    Fingerprint, IntentId, Outcome, Permit, Refusal, Scope, State, Store, Token,
    decide::{Ask, Compare, Finish, FinishKind, OnLost},
    outcome::Body,
    store::{ClaimAnswer, Completed},
};
use semel_sqlite::SqliteStore;
use tempfile::TempDir;

use crate::command::{Ran, run};

const STORE: &str = "sqlite:semel.db";
const DAY: Duration = Duration::from_secs(86_400);

/// A lease that is over when anybody else comes.
const OVER: Duration = Duration::from_micros(1);

struct Bench {
    folder: TempDir,
    store: SqliteStore,
    tokens: u8,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::builder(folder.path().join("semel.db")).open().unwrap();
        Self { folder, store, tokens: 0 }
    }

    async fn claim(&mut self, key: &str, content: &[u8], lease: Duration) -> ClaimAnswer {
        self.tokens += 1;
        let now = self.store.read(Vec::new()).await.unwrap().now;
        let ask = Ask {
            id: id(key),
            token: Token::from_bytes([self.tokens; 16]),
            fingerprint: Fingerprint::of_bytes(content),
            older: Vec::new(),
            not_after: now.after(DAY),
            lease,
            on_lost: OnLost::Hold,
            compare: Compare::Strict,
            claimed_by: Some("req-7".into()),
        };
        self.store.claim(vec![ask]).await.unwrap().remove(0).answer
    }

    async fn held(&mut self, key: &str, lease: Duration) -> Permit {
        match self.claim(key, b"pay 10", lease).await {
            ClaimAnswer::Granted { permit, .. } => permit,
            other => panic!("{other:?}"),
        }
    }

    async fn complete(&self, permit: Permit) -> Completed {
        let finish = Finish {
            kind: FinishKind::Done,
            outcome: Some(Outcome::new(201, "{\"id\":1}")),
            reason: None,
            replay_for: DAY,
            remember_for: DAY,
        };
        self.store.complete(permit, finish).await.unwrap()
    }

    async fn state(&self, key: &str) -> State {
        let reading = self.store.read(vec![id(key)]).await.unwrap();
        reading.records[0].as_ref().unwrap().state
    }

    fn records(&self, arguments: &[&str]) -> Ran {
        let all: Vec<_> = ["records", "--store", STORE].iter().chain(arguments).copied().collect();
        run(self.folder.path(), &all)
    }

    /// Resolves an intent of the bench.
    fn resolve(&self, key: &str, verdict: &[&str]) -> Ran {
        let head = ["resolve", "payments.create", key, "--yes", "--note", "looked into the ledger"];
        let all: Vec<_> = head.iter().chain(verdict).copied().collect();
        self.records(&all)
    }
}

fn id(key: &str) -> IntentId {
    Scope::new("single".parse().unwrap(), "payments.create".parse().unwrap())
        .intent(key.parse().unwrap())
}

#[tokio::test]
async fn records_are_listed_by_state_and_in_pages() {
    let mut bench = Bench::new();
    let done = bench.held("a", DAY).await;
    assert_eq!(bench.complete(done).await, Completed::Stored);
    bench.held("b", DAY).await;
    bench.held("c", OVER).await;

    let keys = |arguments: &[&str]| {
        let all: Vec<_> = ["--json", "list"].iter().chain(arguments).copied().collect();
        let json = bench.records(&all).json();
        let records = json["records"].as_array().unwrap().clone();
        let keys: Vec<_> = records.iter().map(|r| r["key"].as_str().unwrap().to_owned()).collect();
        (keys.join(","), json["next"].as_str().map(str::to_owned))
    };
    assert_eq!(keys(&[]), ("a,b,c".into(), None));
    assert_eq!(keys(&["--state", "running"]).0, "b,c");
    assert_eq!(keys(&["--stuck"]).0, "c");
    assert_eq!(keys(&["--operation", "other"]).0, "");
    let (first, next) = keys(&["--limit", "2"]);
    assert_eq!(first, "a,b");
    assert_eq!(keys(&["--limit", "2", "--after", &next.unwrap()]).0, "c");

    let shown = bench.records(&["list"]).out;
    assert!(shown.contains("running, lease over"), "{shown}");
    let counts = bench.records(&["--json", "counts"]).json();
    assert_eq!(
        (&counts["done"], &counts["running"], &counts["stuck"]),
        (&1.into(), &2.into(), &1.into())
    );
}

#[tokio::test]
async fn a_record_is_shown_with_its_outcome() {
    let mut bench = Bench::new();
    let permit = bench.held("a", DAY).await;
    bench.complete(permit).await;
    let json = bench.records(&["--json", "show", "payments.create", "a"]).json();
    assert_eq!(json["record"]["state"], "done");
    assert_eq!(json["record"]["claimed_by"], "req-7");
    assert_eq!(json["record"]["outcome"]["body"], "{\"id\":1}");
    bench.records(&["show", "payments.create", "b"]).ends(1, "there is no record");
    bench
        .records(&["show", "payments.create", "a", "--tenant", "acme"])
        .ends(1, "for the tenant acme");
}

/// C26
#[tokio::test]
async fn a_lost_intent_is_resolved_as_done_and_replays_what_was_said() {
    let mut bench = Bench::new();
    bench.held("a", OVER).await;
    let pay = "{\"id\":\"pay_7\"}";
    let said = ["--done", "--status", "201", "--body", pay, "--pointer", "payment/pay_7"];
    let ran = bench.resolve("a", &said);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("resolved as done"), "{ran:?}");
    assert!(ran.out.contains("req-7"), "it shows what it saw: {ran:?}");

    let ClaimAnswer::Replay(record) = bench.claim("a", b"pay 10", DAY).await else {
        panic!("no replay")
    };
    let outcome = record.outcome.unwrap();
    assert_eq!((outcome.status, &outcome.body), (201, &Body::Kept(pay.into())));
    assert_eq!(outcome.headers[0].value, "application/json");
    let audit = bench.records(&["--json", "audit", "payments.create", "a"]).json();
    assert_eq!(audit["audit"][0]["kind"], "resolve");
    assert_eq!(audit["audit"][0]["actor"], "ada");
    assert_eq!(audit["audit"][0]["note"], "done: looked into the ledger");
}

#[tokio::test]
async fn a_status_that_says_enough_is_replayed_without_a_body() {
    let mut bench = Bench::new();
    for (key, said, status) in [
        ("a", ["--failed", "--status", "402"], 402),
        ("b", ["--done", "--status", "204"], 204),
        ("c", ["--done", "--status", "304"], 304),
    ] {
        bench.held(key, OVER).await;
        assert_eq!(bench.resolve(key, &said).code, 0);
        let ClaimAnswer::Replay(record) = bench.claim(key, b"pay 10", DAY).await else {
            panic!("no replay")
        };
        let outcome = record.outcome.unwrap();
        assert_eq!((outcome.status, outcome.body), (status, Body::Kept(Vec::new().into())));
    }
    bench.held("d", OVER).await;
    assert_eq!(bench.resolve("d", &["--done", "--status", "201"]).code, 0);
    let ClaimAnswer::Replay(record) = bench.claim("d", b"pay 10", DAY).await else {
        panic!("no replay")
    };
    assert_eq!(record.outcome.unwrap().body, Body::NotKept);
}

#[tokio::test]
async fn a_status_that_contradicts_the_verdict_is_refused() {
    let mut bench = Bench::new();
    bench.held("a", OVER).await;
    bench.resolve("a", &["--failed", "--status", "201"]).ends(2, "--failed has 400 to 599");
    bench.resolve("a", &["--done", "--status", "500"]).ends(2, "--done has 200 to 399");
    let body = ["--done", "--status", "204", "--body", "x"];
    bench.resolve("a", &body).ends(2, "an answer of 204 has no body");
    assert_eq!(bench.state("a").await, State::Running);
}

#[tokio::test]
async fn nothing_is_changed_unasked_where_nobody_can_be_asked() {
    let mut bench = Bench::new();
    bench.held("a", OVER).await;
    let note = ["payments.create", "a", "--note", "looked"];
    for verb in [&["resolve", "--done"][..], &["release", "--force"]] {
        let all: Vec<_> = verb.iter().chain(&note).copied().collect();
        bench.records(&all).ends(2, "no terminal, so nobody can be asked: say --yes");
        assert_eq!(bench.state("a").await, State::Running);
    }
}

#[tokio::test]
async fn a_resolution_can_be_repeated_by_its_id_and_not_by_another() {
    let mut bench = Bench::new();
    bench.held("a", OVER).await;
    let id = "00112233445566778899aabbccddeeff";
    assert_eq!(bench.resolve("a", &["--done", "--id", id]).code, 0);
    let again = bench.resolve("a", &["--done", "--id", id]);
    assert!(again.code == 0 && again.out.contains("resolved before by the same id"), "{again:?}");
    bench.resolve("a", &["--done"]).ends(1, "the record is done, and only an unknown one");
}

#[tokio::test]
async fn nothing_is_resolved_while_a_holder_may_work() {
    let mut bench = Bench::new();
    bench.held("a", DAY).await;
    bench.resolve("a", &["--done"]).ends(1, "a holder may still be working");
    assert_eq!(bench.state("a").await, State::Running);
}

/// C26, C64
#[tokio::test]
async fn not_done_waits_for_what_may_still_be_sent_unless_forced() {
    let mut bench = Bench::new();
    bench.held("a", OVER).await;
    bench.resolve("a", &["--not-done"]).ends(1, "the lost holder may still be sending until");
    assert_eq!(bench.state("a").await, State::Unknown);
    assert_eq!(bench.resolve("a", &["--not-done", "--force"]).code, 0);
    assert_eq!(bench.state("a").await, State::Open);
    let other = bench.claim("a", b"pay 99", DAY).await;
    assert_eq!(other, ClaimAnswer::Refused(Refusal::Mismatch));
    assert!(matches!(bench.claim("a", b"pay 10", DAY).await, ClaimAnswer::Granted { .. }));
}

#[tokio::test]
async fn a_holder_that_comes_back_after_a_resolution_is_kept_as_a_conflict() {
    let mut bench = Bench::new();
    let permit = bench.held("a", OVER).await;
    assert_eq!(bench.resolve("a", &["--not-done", "--force"]).code, 0);
    assert_eq!(bench.complete(permit).await, Completed::Stale);
    assert_eq!(bench.state("a").await, State::Open);
    let audit = bench.records(&["--json", "audit"]).json();
    let kinds: Vec<_> = audit["audit"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["conflict", "resolve"]);
}

#[tokio::test]
async fn a_holder_that_comes_back_before_a_resolution_is_the_truth() {
    let mut bench = Bench::new();
    let permit = bench.held("a", OVER).await;
    let lapsed = bench.records(&["lapse", "payments.create", "a", "--note", "the pod is gone"]);
    assert!(lapsed.code == 0 && lapsed.out.contains("can be resolved"), "{lapsed:?}");
    let audit = &bench.records(&["--json", "audit", "payments.create", "a"]).json()["audit"][0];
    assert_eq!((&audit["kind"], &audit["actor"]), (&"lapse".into(), &"ada".into()));
    assert_eq!(audit["note"], "the pod is gone");
    assert_eq!(bench.complete(permit).await, Completed::Stored);
    bench.resolve("a", &["--not-done", "--force"]).ends(1, "the record is done");
}

#[tokio::test]
async fn a_resolution_of_another_claim_than_the_one_seen_is_refused() {
    let mut bench = Bench::new();
    bench.held("a", OVER).await;
    bench.resolve("a", &["--done", "--fence", "7"]).ends(1, "the record has the fence");
    assert_eq!(bench.state("a").await, State::Unknown);
}

#[tokio::test]
async fn a_release_gives_the_intent_back_and_ends_the_permit() {
    let mut bench = Bench::new();
    let permit = bench.held("a", DAY).await;
    let release = ["release", "payments.create", "a", "--yes", "--note", "the pod was deleted"];
    bench.records(&release).ends(1, "may still be sending until");
    let forced: Vec<_> = release.iter().chain(&["--force"]).copied().collect();
    assert_eq!(bench.records(&forced).code, 0);
    assert_eq!(bench.state("a").await, State::Open);
    assert_eq!(bench.complete(permit).await, Completed::Stale);
    bench.records(&forced).ends(1, "nobody holds it");
    let audit = bench.records(&["audit"]).out;
    assert!(audit.contains("release") && audit.contains("the pod was deleted"), "{audit}");
}

#[tokio::test]
async fn one_key_on_several_paths_asks_which() {
    let mut bench = Bench::new();
    for facet in [[1; 32], [2; 32]] {
        bench.tokens += 1;
        let ask = Ask {
            id: id("a").narrowed(facet),
            token: Token::from_bytes([bench.tokens; 16]),
            fingerprint: Fingerprint::of_bytes(b"x"),
            older: Vec::new(),
            not_after: semel::Timestamp::MAX,
            lease: DAY,
            on_lost: OnLost::Hold,
            compare: Compare::Strict,
            claimed_by: None,
        };
        bench.store.claim(vec![ask]).await.unwrap();
    }
    bench.records(&["show", "payments.create", "a"]).ends(2, "--facet: 0101");
    let two = "02".repeat(32);
    assert!(bench.records(&["list"]).out.contains(&two));
    let ran = bench.records(&["show", "payments.create", "a", "--facet", &two]);
    assert!(ran.code == 0 && ran.out.contains(&two), "{ran:?}");
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["records", "--store", "sqlite:none.db", "list"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.err.contains("none.db"), "{ran:?}");
    assert!(!folder.path().join("none.db").exists());
    run(folder.path(), &["records", "--store", "none.db", "list"]).ends(2, "write sqlite:PATH");
    run(folder.path(), &["records", "list"]).ends(2, "semel.toml:1:1: the configuration cannot");
}

#[test]
fn a_change_needs_its_reason_and_one_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let check = |arguments: &[&str], words: &str| {
        let head = ["records", "--store", STORE, "resolve", "o", "k"];
        let all: Vec<_> = head.iter().chain(arguments).copied().collect();
        run(folder.path(), &all).ends(2, words);
    };
    check(&["--done"], "--note");
    check(&["--note", "x"], "--done");
    check(&["--note", "x", "--done", "--not-done"], "cannot be used with");
    check(&["--note", "x", "--failed"], "--status");
    check(&["--note", "", "--done"], "1 to 1000 bytes");
    check(&["--note", "x", "--done", "--id", "7"], "32 hexadecimal digits");
}

#[test]
fn a_store_is_migrated_once() {
    let folder = tempfile::tempdir().unwrap();
    let migrate = |more: &[&str]| {
        let all: Vec<_> = ["migrate", "--store", STORE].iter().chain(more).copied().collect();
        run(folder.path(), &all)
    };
    assert_eq!(migrate(&["--check"]).code, 3, "there is none");
    let made = migrate(&[]);
    assert!(made.code == 0 && made.out.contains("is new and has schema"), "{made:?}");
    let checked = migrate(&["--check"]);
    assert!(checked.code == 0 && checked.out.contains("as it must"), "{checked:?}");
    assert_eq!(migrate(&[]).code, 0);
}
