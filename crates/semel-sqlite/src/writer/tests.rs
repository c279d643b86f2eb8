//! Faults that only the inside of the writer can be given.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use semel::{
    Fingerprint, Key, Operation, Scope, StoreErrorKind, SystemClock, Tenant, Timestamp, Token,
    decide::{Ask, Compare, OnLost},
    store::ClaimAnswer,
};

use super::*;
use crate::{
    open::Setting,
    verb::{self, Claim, Verb},
};

const LIMITS: Limits = Limits { audit_max: 10, page_max: None };

struct Bench {
    _folder: tempfile::TempDir,
    setting: Setting,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("semel.db");
        let setting = Setting::new(&path, Duration::from_millis(50), None).unwrap();
        let mut conn = setting.writer().unwrap();
        crate::migrate::migrate(&mut conn, Timestamp::default()).unwrap();
        Self { _folder: folder, setting }
    }

    fn start(&self, set: impl FnOnce(&mut Connection)) -> Writer {
        let mut conn = self.setting.writer().unwrap();
        set(&mut conn);
        let time = Arc::new(Time::new(Arc::new(SystemClock::new()), Timestamp::default()));
        let identity = Identity::of(&self.setting.path);
        let busy_wait = Duration::from_millis(50);
        let work = Work { conn, identity, time, group_max: 100, limits: LIMITS, busy_wait };
        Writer::start(work, 100).unwrap()
    }

    fn records(&self) -> u32 {
        let conn = self.setting.reader(Duration::ZERO).unwrap();
        conn.query_row("SELECT count(*) FROM semel_record", [], |row| row.get(0)).unwrap()
    }
}

fn ask(key: &str) -> Ask {
    let scope = Scope::new(Tenant::new("acme").unwrap(), Operation::new("pay").unwrap());
    Ask {
        id: scope.intent(Key::new(key).unwrap()),
        token: Token::from_bytes([1; 16]),
        fingerprint: Fingerprint::of_bytes(b""),
        older: vec![],
        not_after: Timestamp::MAX,
        lease: Duration::from_secs(30),
        on_lost: OnLost::Hold,
        compare: Compare::Strict,
        claimed_by: None,
    }
}

/// Panics, or waits in the middle of its group until it is let go.
struct Bad {
    entered: Arc<AtomicBool>,
    panics: bool,
    go: std::sync::mpsc::Receiver<()>,
}

impl Verb for Bad {
    type Answer = ();

    fn run(&self, _: &mut Step<'_>) -> Result<(), Fault> {
        self.entered.store(true, Ordering::SeqCst);
        let _ = self.go.recv();
        assert!(!self.panics, "a bad verb");
        Ok(())
    }
}

// The receiver is used by the writer's thread alone.
impl Bad {
    fn new(panics: bool) -> (Self, std::sync::mpsc::Sender<()>, Arc<AtomicBool>) {
        let (let_go, go) = std::sync::mpsc::channel();
        let entered = Arc::new(AtomicBool::new(false));
        (Self { entered: Arc::clone(&entered), panics, go }, let_go, entered)
    }
}

fn asked(ask: Ask) -> verb::Asked {
    verb::Asked { ask, new: true }
}

async fn claimed(writer: &Writer, key: &str) -> Result<ClaimAnswer, StoreError> {
    writer.ask(Lane::Later, Claim(vec![asked(ask(key))])).await.map(|mut all| all.remove(0).answer)
}

/// Fails the first commit that comes once it is armed.
fn fail_once(conn: &mut Connection, armed: &Arc<AtomicU32>) {
    let armed = Arc::clone(armed);
    let hook = move || {
        armed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
    };
    conn.commit_hook(Some(hook)).unwrap();
}

#[tokio::test]
async fn a_failed_commit_is_answered_to_nobody_as_a_success() {
    let bench = Bench::new();
    let armed = Arc::new(AtomicU32::new(1));
    let writer = bench.start(|conn| fail_once(conn, &armed));
    let error = claimed(&writer, "k").await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(!error.kind().is_definite());
    assert_eq!(bench.records(), 0);
    let answer = claimed(&writer, "k").await.unwrap();
    assert!(matches!(answer, ClaimAnswer::Granted { grant: Some(_), .. }), "{answer:?}");
    assert_eq!(bench.records(), 1);
}

#[tokio::test]
async fn a_refusal_by_what_its_own_group_wrote_falls_with_that_groups_commit() {
    let bench = Bench::new();
    let armed = Arc::new(AtomicU32::new(1));
    let writer = bench.start(|conn| fail_once(conn, &armed));
    let second = Ask { token: Token::from_bytes([2; 16]), ..ask("k") };
    let both = vec![asked(ask("k")), asked(second)];
    assert!(writer.ask(Lane::Later, Claim(both.clone())).await.is_err());
    let answers = writer.ask(Lane::Later, Claim(both)).await.unwrap();
    assert!(matches!(answers[0].answer, ClaimAnswer::Granted { grant: Some(_), .. }));
    assert!(matches!(answers[1].answer, ClaimAnswer::Refused(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_answered_before_the_commit_of_the_group_has_returned() {
    let bench = Bench::new();
    let (enter, entered) = std::sync::mpsc::channel();
    let (let_go, go) = std::sync::mpsc::channel();
    let writer = Arc::new(bench.start(|conn| {
        let hook = move || {
            let _ = enter.send(());
            let _ = go.recv();
            false
        };
        conn.commit_hook(Some(hook)).unwrap();
    }));
    let asking = Arc::clone(&writer);
    let answer = tokio::spawn(async move { claimed(&asking, "k").await });
    // The verb was done and its commit has begun; the answer must wait for the end of it.
    tokio::task::spawn_blocking(move || entered.recv()).await.unwrap().unwrap();
    assert!(!answer.is_finished());
    let_go.send(()).unwrap();
    assert!(matches!(answer.await.unwrap().unwrap(), ClaimAnswer::Granted { .. }));
    drop(let_go);
}

#[tokio::test]
async fn a_verb_that_panics_takes_no_other_down() {
    let bench = Bench::new();
    let writer = bench.start(|_| {});
    // The first verb holds the writer until all others wait, so that they form one group.
    let (first, first_go, _) = Bad::new(false);
    let (second, second_go, _) = Bad::new(true);
    drop(second_go);
    // Dropped when the others wait; a verb that is done again after a rollback waits no more.
    let waiting = async move { drop(first_go) };
    let (held, before, bad, after, ()) = tokio::join!(
        writer.ask(Lane::Later, first),
        claimed(&writer, "a"),
        writer.ask(Lane::Later, second),
        claimed(&writer, "b"),
        waiting,
    );
    held.unwrap();
    assert!(matches!(before.unwrap(), ClaimAnswer::Granted { .. }));
    assert_eq!(bad.unwrap_err().kind(), StoreErrorKind::Unavailable);
    assert!(matches!(after.unwrap(), ClaimAnswer::Granted { .. }));
    assert_eq!(bench.records(), 2);
}

#[tokio::test]
async fn past_the_bound_of_the_queue_callers_are_told_at_once() {
    let bench = Bench::new();
    let conn = bench.setting.writer().unwrap();
    let time = Arc::new(Time::new(Arc::new(SystemClock::new()), Timestamp::default()));
    let identity = Identity::of(&bench.setting.path);
    let busy_wait = Duration::from_millis(50);
    let work = Work { conn, identity, time, group_max: 1, limits: LIMITS, busy_wait };
    let writer = Writer::start(work, 1).unwrap();
    let (held, go, entered) = Bad::new(false);
    let held = writer.ask(Lane::Later, held);
    tokio::pin!(held);
    assert!(futures_poll(held.as_mut()).is_none());
    while !entered.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    let waiting = claimed(&writer, "a");
    tokio::pin!(waiting);
    assert!(futures_poll(waiting.as_mut()).is_none());
    assert_eq!(claimed(&writer, "b").await.unwrap_err().kind(), StoreErrorKind::Busy);
    go.send(()).unwrap();
    held.await.unwrap();
    waiting.await.unwrap();
}

/// Polls once.
fn futures_poll<F: std::future::Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn a_file_replaced_while_it_is_open_takes_nothing_more() {
    let bench = Bench::new();
    let writer = bench.start(|_| {});
    claimed(&writer, "a").await.unwrap();
    let aside = bench.setting.path.with_extension("aside");
    std::fs::rename(&bench.setting.path, &aside).unwrap();
    let error = claimed(&writer, "b").await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Damaged);
    std::fs::rename(&aside, &bench.setting.path).unwrap();
    claimed(&writer, "b").await.unwrap();
}
