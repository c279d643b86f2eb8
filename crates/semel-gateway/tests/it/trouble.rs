//! What is wrong with the store's file: the client is told that nothing ran, nothing runs, the operator
//! is told what to do, and once it is done everything goes on.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use rusqlite::Connection;
use semel::Policy;
use semel_gateway::{Gateway, stores::Opened};
use semel_sqlite::SqliteStore;

use crate::{
    child::Process,
    command::{Ran, semel},
    gateway::{Served, settings},
    message::{Message, send},
    upstream::{Deed, Upstream},
};

/// The file is as large as it may get. What was acknowledged is replayed, what comes is not begun, and
/// what was done and could not be stored is not done again.
#[tokio::test]
async fn a_full_store_begins_nothing_and_goes_on_once_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("semel.db");
    let upstream = large_answers().await;
    let (gateway, ballast) = bounded(&path, &upstream).await;
    let (mut told, mut not_stored) = (Vec::new(), Vec::new());
    let away = loop {
        let (number, ran) = (told.len() + not_stored.len(), upstream.seen.requests().len());
        assert!(number < 200, "the bound is never met");
        let answer = gateway.pay(&key(number)).await;
        let more = upstream.seen.requests().len() - ran;
        match (answer.status(), answer.code().as_str(), more) {
            (201, _, 1) => told.push((number, answer)),
            // A claim is smaller than its outcome.
            (503, "not-stored", 1) => not_stored.push(number),
            (503, "store-away", 0) => break number,
            _ => panic!("{answer:?} and {more} more"),
        }
    };
    let ran = upstream.seen.requests().len();
    // Others serve as well, or nobody does: it is not sent any more requests for now.
    let ready = send(gateway.admin, "GET /readyz", &[], "").await;
    assert_eq!((ready.status(), &ready.text()[..12]), (503, "store-full: "));
    for _ in 0..3 {
        let again = gateway.pay(&key(away)).await;
        assert_eq!((again.status(), again.code().as_str()), (503, "store-away"));
        assert_eq!(again.header("retry-after"), Some("1"));
    }
    assert_eq!(upstream.seen.requests().len(), ran);
    let (number, first) = &told[0];
    replays(&gateway.pay(&key(*number)).await, first);

    // Somebody makes room, and nobody restarts anything.
    ballast.execute("DELETE FROM ballast", ()).unwrap();
    assert_eq!(gateway.pay(&key(away)).await.status(), 201);
    assert_eq!(send(gateway.admin, "GET /readyz", &[], "").await.status(), 200);
    for (number, first) in &told {
        replays(&gateway.pay(&key(*number)).await, first);
    }
    for number in not_stored {
        assert_ne!(gateway.pay(&key(number)).await.status(), 503);
    }
    let effects = upstream.seen.effects();
    assert!(effects.values().all(|times| *times == 1), "{effects:?}");
}

/// A file that can only be read is no store: the gateway does not start, and says what to do.
#[tokio::test]
async fn a_store_that_can_only_be_read_is_refused_until_it_may_be_written() {
    let mut scene = Scene::new().await;
    let first = scene.pay("read-only-1").await;
    scene.gateway.kill().await;
    scene.fold_the_log();
    for (path, mode) in [(scene.store(), 0o444), (scene.folder.path().to_owned(), 0o555)] {
        let before = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let refused = scene.serve_without_powers();
        fs::set_permissions(&path, before).unwrap();
        refused.ends(2, "cannot be written: Permission denied");
    }
    scene.gateway.restart().await;
    replays(&scene.pay("read-only-1").await, &first);
    assert_eq!(scene.pay("read-only-2").await.status(), 201);
    assert_eq!(scene.upstream.seen.requests().len(), 2);
}

/// A damaged file is refused whole before anything is decided by it.
#[tokio::test]
async fn a_damaged_store_is_refused_at_the_start_until_it_is_restored() {
    let mut scene = Scene::new().await;
    let first = scene.pay("damaged-1").await;
    scene.gateway.kill().await;
    scene.fold_the_log();
    let good = fs::read(scene.store()).unwrap();
    let mut torn = good.clone();
    let page = scene.pages_with("damaged-1")[0];
    torn[page..page + 64].fill(0xff);
    for (bytes, words) in [
        (torn, "the file is damaged; stop, keep a copy of it and restore a backup"),
        (b"these are no records".repeat(100), "damaged or no SQLite file"),
    ] {
        fs::write(scene.store(), &bytes).unwrap();
        scene.serve_without_powers().ends(3, words);
        assert!(fs::read(scene.store()).unwrap() == bytes, "what is damaged is left as it is");
    }
    fs::write(scene.store(), good).unwrap();
    scene.gateway.restart().await;
    replays(&scene.pay("damaged-1").await, &first);
    assert_eq!(scene.upstream.seen.requests().len(), 1);
}

/// Pages that are damaged under a running gateway are no proof that nothing is recorded.
#[tokio::test]
async fn damage_under_a_running_gateway_runs_nothing_again() {
    let mut scene = Scene::new().await;
    let first = scene.pay("torn-1").await;
    scene.gateway.kill().await;
    scene.fold_the_log();
    scene.gateway.restart().await;
    let good = fs::read(scene.store()).unwrap();
    let mut torn = good.clone();
    for page in scene.pages_with("torn-1") {
        torn[page..page + 64].fill(0xff);
    }
    fs::write(scene.store(), torn).unwrap();
    let away = scene.pay("torn-1").await;
    assert_eq!((away.status(), away.code().as_str()), (503, "store-away"));
    assert_eq!(scene.upstream.seen.requests().len(), 1);
    let log = scene.gateway.log();
    assert!(log.contains("store-damaged") && log.contains("restore a backup"), "{log}");
    // As the log says: stop, and restore.
    scene.gateway.kill().await;
    fs::write(scene.store(), good).unwrap();
    scene.gateway.restart().await;
    replays(&scene.pay("torn-1").await, &first);
    assert_eq!(scene.upstream.seen.requests().len(), 1);
}

/// A file that is moved away takes nothing more, since all of it would be lost.
#[tokio::test]
async fn a_store_that_is_moved_away_begins_nothing_until_it_is_back() {
    let scene = Scene::new().await;
    let first = scene.pay("moved-1").await;
    let aside = scene.folder.path().join("aside.db");
    fs::rename(scene.store(), &aside).unwrap();
    let away = scene.pay("moved-2").await;
    assert_eq!((away.status(), away.code().as_str()), (503, "store-away"));
    assert_eq!(scene.upstream.seen.requests().len(), 1);
    let log = scene.gateway.log();
    assert!(log.contains("was removed or replaced while it was open"), "{log}");
    fs::rename(aside, scene.store()).unwrap();
    replays(&scene.pay("moved-1").await, &first);
    assert_eq!(scene.pay("moved-2").await.status(), 201);
    assert_eq!(scene.upstream.seen.requests().len(), 2);
}

fn key(number: usize) -> String {
    format!("full-{number}")
}

fn replays(again: &Message, first: &Message) {
    assert_eq!(again.header("idempotent-replayed"), Some("true"), "{again:?}");
    assert_eq!((again.status(), &again.body), (first.status(), &first.body));
}

/// An upstream whose answers fill a file soon.
async fn large_answers() -> Upstream {
    let body = "x".repeat(6_000);
    Upstream::new(move |_| {
        let written = crate::message::answer(201, &[], &body);
        async move { Deed::Write(written) }
    })
    .await
}

/// A gateway on a file that has room for some records more, and a table of somebody else in it.
async fn bounded(path: &Path, upstream: &Upstream) -> (Served, Connection) {
    drop(SqliteStore::builder(path).open().unwrap());
    let ballast = Connection::open(path).unwrap();
    ballast.execute("CREATE TABLE ballast (bytes BLOB)", ()).unwrap();
    ballast.execute("INSERT INTO ballast VALUES (zeroblob(400000))", ()).unwrap();
    let pages: u32 = ballast.query_row("PRAGMA page_count", (), |row| row.get(0)).unwrap();
    let store = Arc::new(SqliteStore::builder(path).page_max(pages + 40).open().unwrap());
    let opened = Opened {
        store: Arc::clone(&store) as _,
        sweep: Arc::clone(&store) as _,
        inspect: Arc::clone(&store) as _,
        mover: store,
        bridge: None,
        notify: None,
        outbox: None,
        inbox: None,
    };
    let mut settings = settings(&[("api", &upstream.url())]);
    let store_for = Duration::from_millis(200);
    let policy = Policy { store_for, wait: Duration::ZERO, ..Policy::default() };
    let operation = settings.operations[0].operation.clone().policy(policy);
    settings.operations[0].operation = operation;
    (Served::of(Gateway::with_store(&settings, opened).await.unwrap()).await, ballast)
}

/// A gateway's process on a file, before an upstream that counts.
struct Scene {
    folder: tempfile::TempDir,
    upstream: Upstream,
    gateway: Process,
}

impl Scene {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let upstream = Upstream::counting().await;
        let config = format!(
            "store = \"sqlite:semel.db\"\nreplay_auth = \"none\"\n[tenant]\nsource = \"single_tenant\"\n\
             [[upstream]]\nname = \"api\"\nurl = \"{}\"\n\
             [[operation]]\nname = \"pay\"\nmethod = \"POST\"\npath = \"/pay\"\n",
            upstream.url()
        );
        fs::write(folder.path().join("semel.toml"), config).unwrap();
        let gateway = Process::start(folder.path()).await;
        Self { folder, upstream, gateway }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("semel.db")
    }

    async fn pay(&self, key: &str) -> Message {
        send(self.gateway.address, "POST /pay", &[("idempotency-key", key)], "{}").await
    }

    /// Moves the log of a dead gateway into the file, as the end of a living one does.
    fn fold_the_log(&self) {
        let file = Connection::open(self.store()).unwrap();
        file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).unwrap();
    }

    /// Where the pages begin that hold some bytes, the first page apart.
    fn pages_with(&self, word: &str) -> Vec<usize> {
        let bytes = fs::read(self.store()).unwrap();
        let size = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
        let holds = |page: &&[u8]| page.windows(word.len()).any(|bytes| bytes == word.as_bytes());
        let pages = bytes.chunks(size).enumerate().skip(1).filter(|(_, page)| holds(page));
        pages.map(|(number, _)| number * size).collect()
    }

    /// Tries to serve as somebody for whom permissions hold: for root they do not.
    fn serve_without_powers(&self) -> Ran {
        let serve = semel(self.folder.path(), &["serve", "--listen", "127.0.0.1:0"]);
        let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        let mut command = match is_root {
            false => serve,
            true => {
                let mut bare = Command::new("setpriv");
                bare.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(serve.get_program());
                bare.args(serve.get_args()).current_dir(self.folder.path()).stdin(Stdio::null());
                bare
            }
        };
        command.output().unwrap().into()
    }
}
