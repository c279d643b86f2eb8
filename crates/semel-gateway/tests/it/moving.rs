//! The records of one store are moved to another by the commands, and mean the same there.

use std::{
    collections::BTreeMap,
    io::Write,
    path::Path,
    process::Stdio,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use semel::{
    Fence, Fingerprint, IntentId, Outcome, Permit, Record, Refusal, Scope, State, StoreErrorKind,
    Timestamp, Token,
    decide::{Ask, Compare, Finish, FinishKind, OnLost, ReleaseAsk},
    store::{
        BATCH_MAX, ClaimAnswer,
        capability::{AuditKind, AuditRow, Filter},
    },
};
use semel_gateway::{
    config::Config,
    stores::{self, Opened},
};
use semel_testkit::servers::{Major, Postgres, Redis, RedisKind};
use tempfile::TempDir;

use crate::{
    child::Process,
    command::{Ran, run, semel},
    message::{PATIENCE, send},
    upstream::Upstream,
};

const DAY: Duration = Duration::from_secs(86_400);
/// A lease that is over when anybody else comes.
const OVER: Duration = Duration::from_micros(1);
/// How many records are moved beside those that requests made.
const RECORDS: usize = 2_000;
/// The stored states, one record after the other.
const STATES: usize = 6;

/// A folder with the configuration of a store and a gateway on it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new(store: &str, tables: &str, upstream: &Upstream) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "store = \"{store}\"\nreplay_auth = \"none\"\n{tables}\n[tenant]\nsource = \"single_tenant\"\n\
             [[upstream]]\nname = \"app\"\nurl = \"{}\"\n[[operation]]\nname = \"pay\"\npath = \"/pay\"\n",
            upstream.url()
        );
        std::fs::write(folder.path().join("semel.toml"), text).unwrap();
        Self { folder }
    }

    fn sqlite(upstream: &Upstream) -> Self {
        Self::new("sqlite:semel.db", "", upstream)
    }

    async fn postgres(upstream: &Upstream) -> Self {
        let server = Postgres::shared(Major::V18).await;
        Self::new(&server.url(), &format!("[postgres]\nschema = \"moved_{}\"", number()), upstream)
    }

    async fn redis(upstream: &Upstream) -> Self {
        let server = Redis::shared(RedisKind::Valkey9).await;
        Self::new(&server.url(), &format!("[redis]\nprefix = \"moved-{}\"", number()), upstream)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn records(&self, arguments: &[&str]) -> Ran {
        let all: Vec<_> = ["records"].iter().chain(arguments).copied().collect();
        run(self.path(), &all)
    }

    async fn open(&self) -> Opened {
        let config = Config::load(&self.path().join("semel.toml")).unwrap();
        stores::open(&config.stored()).await.unwrap()
    }
}

fn number() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn id(key: &str) -> IntentId {
    Scope::new("single".parse().unwrap(), "pay".parse().unwrap()).intent(key.parse().unwrap())
}

fn ask(key: &str, token: u128, lease: Duration) -> Ask {
    Ask {
        id: id(key),
        token: Token::from_bytes(token.to_be_bytes()),
        fingerprint: Fingerprint::of_bytes(key.as_bytes()),
        older: Vec::new(),
        not_after: Timestamp::MAX,
        lease,
        on_lost: OnLost::Hold,
        compare: Compare::Strict,
        claimed_by: Some("req-7".into()),
    }
}

fn finish(kind: FinishKind, nr: usize) -> Finish {
    let body: Vec<u8> = (0..nr % 300).map(|byte| u8::try_from(byte % 251).unwrap()).collect();
    let outcome = Outcome::new(201, body).header("location", format!("/payments/{nr}"));
    Finish {
        kind,
        outcome: Some(outcome.pointer("payment", &nr.to_string())),
        reason: Some("says so".into()),
        replay_for: DAY,
        remember_for: DAY,
    }
}

async fn permit(on: &Opened, key: &str, token: u128, lease: Duration) -> Permit {
    match on.store.claim(vec![ask(key, token, lease)]).await.unwrap().remove(0).answer {
        ClaimAnswer::Granted { permit, .. } => permit,
        other => panic!("{other:?}"),
    }
}

/// Makes a record in the state of its number's turn.
async fn make(on: &Opened, nr: usize) {
    let (key, token) = (format!("k{nr:06}"), nr as u128 + 1);
    let lease = if nr % STATES < 3 { DAY } else { OVER };
    let held = permit(on, &key, token, lease).await;
    match nr % STATES {
        0 | 1 => drop(on.store.complete(held, finish(FinishKind::Done, nr)).await.unwrap()),
        2 => drop(on.store.complete(held, finish(FinishKind::Failed, nr)).await.unwrap()),
        3 => {
            let ask = ReleaseAsk {
                token: held.token,
                fence: Some(held.fence),
                compare: true,
                reason: Some("no-effect".into()),
                remember_for: DAY,
            };
            on.store.release(held.id, ask).await.unwrap();
        }
        // Running, its lease over.
        4 => {}
        _ => drop(on.store.claim(vec![ask(&key, token << 64, DAY)]).await.unwrap()),
    }
}

/// Makes records in every state, and an audit.
async fn fill(on: &Opened, records: usize) {
    stream::iter(0..records).for_each_concurrent(64, |nr| make(on, nr)).await;
    for nr in 0..5 {
        let row = AuditRow {
            id: id(&format!("k{nr:06}")),
            at: on.store.read(Vec::new()).await.unwrap().now,
            kind: AuditKind::Release,
            actor: "ada".into(),
            note: format!("looked {nr}").into(),
        };
        on.inspect.note(row).await.unwrap();
    }
}

async fn listed(on: &Opened) -> Vec<Record> {
    let (mut records, mut after) = (Vec::new(), None);
    let limit = u32::try_from(BATCH_MAX).unwrap();
    loop {
        let page = on.inspect.list(Filter { after, limit, ..Filter::default() }).await.unwrap();
        let Some(last) = page.last() else { return records };
        after = Some(last.id.clone());
        records.extend(page);
    }
}

fn by_state(records: &[Record]) -> BTreeMap<State, usize> {
    let mut counts = BTreeMap::new();
    records.iter().for_each(|record| *counts.entry(record.state).or_default() += 1);
    counts
}

/// Pays through gateways, fills the store, moves all of it, and looks at the other side.
async fn moved(from: Place, to: Place, upstream: Upstream) {
    let mut old = Process::start(from.path()).await;
    let pay = |address, key: String, body: &'static str| async move {
        send(address, "POST /pay", &[("idempotency-key", &key)], body).await
    };
    let mut answers = Vec::new();
    for nr in 0..10 {
        let paid = pay(old.address, format!("paid-{nr}"), "{\"amount\":5}").await;
        assert_eq!(paid.status(), 201);
        answers.push(paid);
    }
    let source = from.open().await;
    fill(&source, RECORDS).await;
    let before = listed(&source).await;
    assert_eq!(before.len(), RECORDS + 10);
    assert_eq!(by_state(&before).len(), 5, "every state is there");

    let file = to.path().join("records.jsonl");
    let file = file.to_str().unwrap();
    let exported = from.records(&["--json", "export", "--close", "--output", file]);
    assert_eq!(exported.code, 0, "{exported:?}");
    // A gateway that nobody stopped still replays, and sends nothing new.
    let sent = upstream.seen.requests().len();
    assert_eq!(pay(old.address, "paid-3".into(), "{\"amount\":5}").await.body, answers[3].body);
    assert_eq!(pay(old.address, "late".into(), "{\"amount\":5}").await.status(), 503);
    assert_eq!(upstream.seen.requests().len(), sent);
    old.kill().await;

    let imported = to.records(&["--json", "import", file]);
    assert_eq!(imported.code, 0, "{imported:?}");
    let (exported, imported) = (exported.json(), imported.json());
    assert_eq!(exported["records"], imported["records"]);
    assert_eq!(imported["stored"], RECORDS + 10);
    assert_eq!((&exported["audit"], &imported["audit_added"]), (&5.into(), &5.into()));

    let target = to.open().await;
    assert_eq!(listed(&target).await, before);
    let counts = target.inspect.counts().await.unwrap();
    assert_eq!(counts, source.inspect.counts().await.unwrap());
    assert_eq!(
        target.inspect.audit(None, 5).await.unwrap(),
        source.inspect.audit(None, 5).await.unwrap()
    );
    replays(&target, &before).await;
    let largest = before.iter().map(|record| record.fence).max().unwrap();
    assert!(target.mover.standing().await.unwrap().floor >= largest);

    let new = Process::start(to.path()).await;
    for (nr, answer) in answers.iter().enumerate() {
        let again = pay(new.address, format!("paid-{nr}"), "{\"amount\":5}").await;
        assert_eq!(again.header("idempotent-replayed"), Some("true"), "{again:?}");
        assert_eq!((again.status(), &again.body), (answer.status(), &answer.body));
        assert_eq!(again.header("content-type"), answer.header("content-type"));
    }
    let other = pay(new.address, "paid-3".into(), "{\"amount\":6}").await;
    assert_eq!((other.status(), other.code().as_str()), (422, "mismatch"));
    assert_eq!(pay(new.address, "new".into(), "{\"amount\":5}").await.status(), 201);
    let effects = upstream.seen.effects();
    assert!(effects.len() == 11 && effects.values().all(|times| *times == 1), "{effects:?}");
}

/// Asks for one intent of each kind: what was kept is replayed, what nobody knew nobody knows.
async fn replays(on: &Opened, before: &[Record]) {
    for nr in 0..STATES {
        let key = format!("k{nr:06}");
        let kept = before.iter().find(|record| record.id == id(&key)).unwrap();
        let claimed = on.store.claim(vec![ask(&key, 1 << 100, DAY)]).await.unwrap();
        match (nr, &claimed[0].answer) {
            (0..=2, ClaimAnswer::Replay(replayed)) => assert_eq!(replayed.outcome, kept.outcome),
            (3, ClaimAnswer::Granted { permit, .. }) => assert!(permit.fence > kept.fence),
            (4 | 5, ClaimAnswer::Refused(Refusal::Unknown { .. })) => {}
            (_, answer) => panic!("{key} got {answer:?}"),
        }
    }
}

/// A move from SQLite to PostgreSQL keeps every record, and every answer to a repeat.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_from_sqlite_to_postgres_keeps_every_record_and_every_answer() {
    let upstream = Upstream::counting().await;
    moved(Place::sqlite(&upstream), Place::postgres(&upstream).await, upstream).await;
}

/// So does one from Redis to PostgreSQL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_from_redis_to_postgres_keeps_every_record_and_every_answer() {
    let upstream = Upstream::counting().await;
    moved(Place::redis(&upstream).await, Place::postgres(&upstream).await, upstream).await;
}

/// So does one from PostgreSQL to Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_from_postgres_to_redis_keeps_every_record_and_every_answer() {
    let upstream = Upstream::counting().await;
    moved(Place::postgres(&upstream).await, Place::redis(&upstream).await, upstream).await;
}

/// A filled SQLite store that is closed and exported, a new place, and what was exported.
async fn exported() -> (Place, Place, String) {
    let upstream = Upstream::counting().await;
    let (from, to) = (Place::sqlite(&upstream), Place::sqlite(&upstream));
    let text = filled_and_exported(&from).await;
    (from, to, text)
}

async fn filled_and_exported(from: &Place) -> String {
    fill(&from.open().await, RECORDS).await;
    let exported = from.records(&["export", "--close"]);
    assert_eq!(exported.code, 0, "{exported:?}");
    assert!(exported.err.contains("2000 records and 5 rows of the audit"), "{}", exported.err);
    exported.out
}

/// Runs a command with something on its standard input.
fn fed(place: &Place, arguments: &[&str], input: &str) -> Ran {
    let mut child = semel(place.path(), arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses what it reads need not read all of it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap().into()
}

/// Imports three quarters of a move, kills the importer when something has arrived, and asks again.
async fn killed_half_way(from: Place, to: Place) {
    let text = filled_and_exported(&from).await;
    let (target, arrived) = kill_an_import(&to, &text).await;
    assert!(arrived > 0 && arrived < RECORDS, "{arrived}");
    // Nobody is granted what has not arrived, and nobody is told what has.
    for key in ["k001999", "new"] {
        let refused = target.store.claim(vec![ask(key, 7, DAY)]).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::ReadOnly);
    }
    to.records(&["export"]).ends(1, "an import into this store has not come to its end");

    let again = fed(&to, &["records", "--json", "import"], &text);
    assert_eq!(again.code, 0, "{again:?}");
    let json = again.json();
    assert_eq!(json["same"], arrived);
    assert_eq!(json["stored"], RECORDS - arrived);
    let source = from.open().await;
    let before = listed(&source).await;
    assert_eq!(listed(&target).await, before);
    let counts = target.inspect.counts().await.unwrap();
    assert_eq!(counts, source.inspect.counts().await.unwrap());
    assert_eq!(target.inspect.audit(None, 100).await.unwrap().len(), 5);
    replays(&target, &before).await;
    permit(&target, "new", 9, DAY).await;
}

/// Returns what the killed importer left, and how many records are in it.
async fn kill_an_import(to: &Place, text: &str) -> (Opened, usize) {
    let half = text.lines().take(1_500).map(|line| format!("{line}\n")).collect::<String>();
    let mut child = semel(to.path(), &["records", "import"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(half.as_bytes()).unwrap();
    input.flush().unwrap();
    let deadline = Instant::now() + PATIENCE;
    let target = loop {
        assert!(Instant::now() < deadline, "nothing arrives");
        // Where the store is not made yet, the command makes none.
        if to.records(&["--json", "counts"]).code == 0 {
            break to.open().await;
        }
        // Another process writes, and tells nobody.
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    while target.inspect.counts().await.unwrap().total() == 0 {
        assert!(Instant::now() < deadline, "nothing arrives");
        // As above, and soon: before all has arrived.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drop(input);
    let arrived = listed(&target).await.len();
    (target, arrived)
}

/// An importer that was killed half-way leaves a store that nobody can use, and is asked again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_killed_half_way_is_refused_to_all_and_goes_on_when_asked_again() {
    let upstream = Upstream::counting().await;
    killed_half_way(Place::sqlite(&upstream), Place::sqlite(&upstream)).await;
}

/// So it is from SQLite to PostgreSQL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_from_sqlite_into_postgres_killed_half_way_goes_on_when_asked_again() {
    let upstream = Upstream::counting().await;
    killed_half_way(Place::sqlite(&upstream), Place::postgres(&upstream).await).await;
}

/// So it is from Redis to PostgreSQL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_from_redis_into_postgres_killed_half_way_goes_on_when_asked_again() {
    let upstream = Upstream::counting().await;
    killed_half_way(Place::redis(&upstream).await, Place::postgres(&upstream).await).await;
}

/// So it is from PostgreSQL to Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_from_postgres_into_redis_killed_half_way_goes_on_when_asked_again() {
    let upstream = Upstream::counting().await;
    killed_half_way(Place::postgres(&upstream).await, Place::redis(&upstream).await).await;
}

/// A file that was cut, changed, or made by a newer version is refused, and nothing is made of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_not_whole_is_refused_before_anything_is_written() {
    let (_, to, text) = exported().await;
    let lines: Vec<_> = text.lines().collect();
    let without = |nr: usize| {
        let kept = lines.iter().enumerate().filter(|(at, _)| *at != nr);
        kept.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    let last = lines.len() - 1;
    let newer = text.replacen("\"semel_records\":1", "\"semel_records\":2", 1);
    for (bad, says) in [
        (without(last), "is cut: it ends in line 2007"),
        (text[..text.len() / 2].to_owned(), "is cut"),
        (without(500), "what came before is not what was written"),
        (text.replacen("req-7", "req-8", 1), "what came before is not what was written"),
        (format!("{text}{}\n", lines[1]), "something stands behind the end"),
        (newer, "this semel 0.1.0 reads up to version 1: import it with that one"),
        ("{}\n".to_owned(), "this is no export of semel's records"),
    ] {
        let file = to.path().join("records.jsonl");
        std::fs::write(&file, bad).unwrap();
        to.records(&["import", "records.jsonl"]).ends(1, says);
        assert!(!to.path().join("semel.db").exists(), "{says}");
    }
    std::fs::create_dir(to.path().join("folder")).unwrap();
    for (name, code) in [("nowhere.jsonl", 2), ("folder", 1)] {
        to.records(&["import", name]).ends(code, name);
        assert!(!to.path().join("semel.db").exists(), "{name}");
    }
    // What comes by a pipe is known to be cut when it ends: the store stays closed, and what is whole mends it.
    fed(&to, &["records", "import"], &without(last)).ends(1, "is cut");
    let target = to.open().await;
    let refused = target.store.claim(vec![ask("new", 7, DAY)]).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::ReadOnly);
    assert_eq!(fed(&to, &["records", "import"], &text).code, 0);
    permit(&target, "new", 9, DAY).await;
}

/// A store is exported when nobody writes, and whoever is at work keeps it open.
#[tokio::test]
async fn an_export_is_refused_while_somebody_writes() {
    let upstream = Upstream::counting().await;
    let place = Place::sqlite(&upstream);
    let store = place.open().await;
    let held = permit(&store, "held", 1, DAY).await;
    place.records(&["export"]).ends(1, "the store takes writes");
    for arguments in [&["export", "--close"][..], &["close"]] {
        place.records(arguments).ends(1, "1 run is under way");
    }
    permit(&store, "still-open", 2, OVER).await;
    let file = place.path().join("records.jsonl");
    let ran = place.records(&["export", "--close", "--allow-running", "-o", "records.jsonl"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    place.records(&["export", "-o", "records.jsonl"]).ends(2, "is there already");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    let refused =
        store.store.complete(held.clone(), finish(FinishKind::Done, 1)).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::ReadOnly);
    place.records(&["import", "records.jsonl"]).ends(1, "were taken away");
    // A move that is given up.
    assert!(place.records(&["open"]).out.contains("is open"));
    store.store.complete(held, finish(FinishKind::Done, 1)).await.unwrap();
}

/// What is imported goes into an empty store alone, and what is there is compared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_not_empty_is_compared_and_never_written_into() {
    let (_, to, text) = exported().await;
    let target = to.open().await;
    permit(&target, "k000003", 1, DAY).await;
    fed(&to, &["records", "import"], &text).ends(1, "the store is not empty, it has 1 of its own");
    permit(&target, "still-open", 2, DAY).await;
    let compared = fed(&to, &["records", "--json", "import", "--check"], &text);
    assert_eq!(compared.code, 1, "{compared:?}");
    let json = compared.json();
    assert_eq!((&json["missing"], &json["different"]), (&1_999.into(), &1.into()));
    assert_eq!((&json["same"], &json["audit_missing"]), (&0.into(), &5.into()));
    assert_eq!(listed(&target).await.len(), 2);
}

/// Later fences lie above those of the store that was left, though its clock was ahead and all was swept.
#[tokio::test]
async fn fences_grow_over_a_move() {
    let upstream = Upstream::counting().await;
    let (from, to) = (Place::sqlite(&upstream), Place::sqlite(&upstream));
    let source = from.open().await;
    let ahead = Fence::new(source.store.read(Vec::new()).await.unwrap().now.as_micros() * 2);
    source.mover.raise(ahead).await.unwrap();
    let text = from.records(&["export", "--close"]).out;
    let imported = fed(&to, &["records", "import"], &text);
    assert_eq!(imported.code, 0, "{imported:?}");
    assert!(permit(&to.open().await, "k", 1, DAY).await.fence > ahead);
}
