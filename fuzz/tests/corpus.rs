//! Every input of the corpus, held against the promise of its target by the compiler that builds everything else.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, Once, PoisonError},
    thread::{self, ThreadId},
};

use semel_fuzz::{TARGETS, target};

/// The largest corpus of all targets together, in bytes: it is cloned by everybody.
const BYTES_MAX: u64 = 1 << 20;

/// What panicked so far, and where: a panic that a task swallows is a fault too.
static PANICS: Mutex<Vec<(ThreadId, String)>> = Mutex::new(Vec::new());

/// The threads of tests: what panics on any other belongs to whoever looks first.
static TESTS: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            locked(&PANICS).push((thread::current().id(), panic.to_string()));
            before(panic);
        }));
    });
    locked(&TESTS).push(thread::current().id());
}

fn panics() -> Vec<String> {
    let own = thread::current().id();
    let tests = locked(&TESTS).clone();
    let panics = locked(&PANICS);
    let met = panics.iter().filter(|(at, _)| *at == own || !tests.contains(at));
    met.map(|(_, panic)| panic.clone()).collect()
}

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
}

fn inputs(folder: &Path) -> Vec<PathBuf> {
    let mut inputs: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    inputs
}

/// Replays the corpus of one target.
fn replay(name: &str) {
    watch();
    let target = target(name).unwrap();
    let inputs = inputs(&corpus(name));
    assert!(!inputs.is_empty(), "{name} has no corpus");
    for input in inputs {
        println!("{}", input.display());
        (target.run)(&fs::read(&input).unwrap());
        let panics = panics();
        assert!(panics.is_empty(), "{}: {panics:?}", input.display());
    }
}

macro_rules! replays {
    ($($name:ident),* $(,)?) => {
        const REPLAYED: &[&str] = &[$(stringify!($name)),*];
        $(#[test] fn $name() { replay(stringify!($name)); })*
    };
}

replays! { answers, bodies, canonicaliser, client, codec, command_line, config, drill_plan, events, file, forms, headers, inbox_rows, kafka_records, key, outbox_rows, permit, pointers, routes, rows, secrets, slot, spans, status, stores, upstream }

#[test]
fn every_target_is_replayed_documented_and_has_a_corpus() {
    watch();
    let names: BTreeSet<_> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names, REPLAYED.iter().copied().collect());
    let folders = inputs(&corpus(""));
    let folders: BTreeSet<_> =
        folders.iter().map(|folder| folder.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, folders);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/internals/testing.md");
    let page = fs::read_to_string(page).unwrap();
    for name in names {
        assert!(page.contains(&format!("| `{name}` |")), "{name} has no line in the table");
    }
}

#[test]
fn the_corpus_is_small_enough_to_be_cloned() {
    watch();
    let files = TARGETS.iter().flat_map(|target| inputs(&corpus(target.name)));
    let bytes: u64 = files.map(|file| fs::metadata(file).unwrap().len()).sum();
    assert!(bytes <= BYTES_MAX, "{bytes} bytes");
}
