//! Any text as the gateway's configuration: every problem has a place in the text, a kind and one sentence, the same
//! text has the same problems, and what is not refused can be served.

use std::path::Path;

use semel_gateway::{
    Gateway, ServeError,
    config::{Config, Files, Problems, StoreUrl},
    relay::RelayingError,
    settings::StoreSettings,
    stores::{self, Opened},
};

use crate::runtime;

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match read(text) {
        Ok(config) => serves(&config),
        Err(problems) => {
            placed(text, &problems);
            assert_eq!(read(text).err(), Some(problems), "the same text has the same problems");
        }
    }
}

fn read(text: &str) -> Result<Config, Problems> {
    Config::parse(text, Path::new("semel.toml"), Path::new("/nowhere"), Files::Ignored)
}

/// Every problem lies in the text, and they stand in its order.
fn placed(text: &str, problems: &Problems) {
    assert!(!problems.problems.is_empty(), "a refusal says why");
    let lines: Vec<_> = text.split('\n').collect();
    let mut before = (0, 0);
    for problem in &problems.problems {
        let line = problem.line.checked_sub(1).and_then(|line| lines.get(line));
        let length = line.expect("the line is in the text").chars().count();
        assert!((1..=length + 1).contains(&problem.column), "{problem:?}");
        assert!(!problem.kind.as_str().is_empty() && !problem.message.is_empty(), "{problem:?}");
        assert!(!problem.message.contains('\n'), "one sentence has one line: {problem:?}");
        let place = (problem.line, problem.column);
        assert!(place >= before, "{problem:?} stands before {before:?}");
        before = place;
    }
    let shown = problems.to_string();
    assert_eq!(shown.lines().count(), problems.problems.len(), "{shown}");
}

/// Whatever `semel check` lets pass, `semel serve` takes, but for what lies in files.
fn serves(config: &Config) {
    if config.is_for_a_relay_alone() {
        assert!(config.relaying().is_some());
        return;
    }
    let settings = config.gateway();
    assert_eq!(config.operation.len(), settings.operations.len());
    runtime(async {
        let opened = opened(&config.store).await;
        match Gateway::with_store(&settings, opened).await {
            Ok(_) => {}
            Err(ServeError::Relaying(error)) => {
                assert!(matches!(error, RelayingError::Destination { .. }), "{error:?}");
                assert!(config.destination.iter().any(|one| one.ca.is_some()), "{error:?}");
            }
            Err(ServeError::Tls(_)) => assert!(config.tls.is_some()),
            Err(ServeError::Upstream(error)) => {
                assert!(error.to_string().contains("cannot be read"), "{error:?}");
            }
            Err(error) => panic!("it was not refused, and cannot be served: {error:?}"),
        }
    });
}

/// A store of the kind that the configuration names.
async fn opened(url: &StoreUrl) -> Opened {
    thread_local! {
        static FOLDER: tempfile::TempDir = tempfile::tempdir().expect("a folder");
        static SQLITE: std::cell::RefCell<Option<Opened>> = const { std::cell::RefCell::new(None) };
    }
    if *url == StoreUrl::Memory {
        return stores::open(&StoreSettings::from(StoreUrl::Memory)).await.expect("it is memory");
    }
    if let Some(opened) = SQLITE.with_borrow(Clone::clone) {
        return opened;
    }
    let path = FOLDER.with(|folder| folder.path().join("semel.db"));
    let opened = stores::open(&StoreSettings::from(StoreUrl::Sqlite(path))).await;
    let opened = opened.expect("the folder can be written to");
    SQLITE.set(Some(opened.clone()));
    opened
}
