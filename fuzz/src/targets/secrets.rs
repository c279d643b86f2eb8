//! Any bytes as a file of secrets: the secret is the file without the end of its last line, and nothing that is said of
//! it tells any of it.

use std::{cell::OnceCell, fs, path::Path};

use semel_gateway::config::{Config, Files};

/// A text shorter than that stands in any sentence by chance.
const TELLING: usize = 8;

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    thread_local! {
        static FOLDER: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
    }
    FOLDER.with(|folder| {
        let folder = folder.get_or_init(|| tempfile::tempdir().expect("a folder")).path();
        password(folder, data);
        store(folder, data);
    });
}

fn password(folder: &Path, data: &[u8]) {
    let head = "store = \"postgres://app@db/shop\"\npostgres.password = { file = \"kept\" }";
    let (config, shown) = read(folder, head, data);
    let line = data.strip_suffix(b"\n").unwrap_or(data);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let wanted = (!line.is_empty() && data.len() <= 64 * 1024).then_some(line);
    let found = config.and_then(|config| config.postgres?.password);
    assert_eq!(found.as_ref().map(|secret| secret.expose()), wanted);
    untold(data, &shown, || read(folder, head, b"another").1);
}

/// A whole URL in a file: what is shown of a store stands in another target.
fn store(folder: &Path, data: &[u8]) {
    let head = "store = { file = \"kept\" }";
    let (config, shown) = read(folder, head, data);
    match config {
        Some(config) => assert!(shown.contains(&format!("{:?}", config.store))),
        None => untold(data, &shown, || read(folder, head, b"another").1),
    }
}

/// Reads a configuration beside a file with these bytes.
fn read(folder: &Path, head: &str, kept: &[u8]) -> (Option<Config>, String) {
    fs::write(folder.join("kept"), kept).expect("the folder can be written to");
    let text = format!(
        "{head}\nreplay_auth = \"none\"\ntenant.source = \"single_tenant\"\n\
         [[upstream]]\nname = \"a\"\nurl = \"http://a\"\n"
    );
    match Config::parse(&text, Path::new("semel.toml"), folder, Files::Ignored) {
        Ok(config) => {
            let shown = format!("{config:?}");
            (Some(config), shown)
        }
        Err(problems) => (None, format!("{problems} {problems:?}")),
    }
}

/// Nothing of the secret is told, but what is told of any other.
fn untold(secret: &[u8], shown: &str, of_another: impl FnOnce() -> String) {
    let Ok(secret) = std::str::from_utf8(secret) else { return };
    let secret = secret.trim();
    if secret.len() >= TELLING && shown.contains(secret) {
        assert!(of_another().contains(secret), "{secret} in {shown}");
    }
}
