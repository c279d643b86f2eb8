//! What the store's file tells somebody who reads it.

use std::{collections::HashSet, fs, path::Path};

use semel::fingerprint::{Command, CommandBody, Plan};

use crate::{
    child::Process,
    message::send,
    upstream::{Deed, Upstream},
};

const SECRET: &str = "a secret of the till, not of the file";

/// L15: whoever reads the file can try all PINs there are, and finds the one that was sent only where the
/// fingerprint was made without a secret.
#[tokio::test]
async fn a_pin_cannot_be_guessed_from_a_fingerprint_that_is_keyed() {
    let upstream = Upstream::new(|_| async { Deed::Write(crate::message::answer(204, &[], "")) });
    let upstream = upstream.await;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("till.secret"), SECRET).unwrap();
    configure(folder.path(), &upstream.url());
    let mut gateway = Process::start(folder.path()).await;
    for path in ["/plain", "/keyed"] {
        for _ in 0..2 {
            let headers = [("idempotency-key", "pin-1"), ("content-type", "application/json")];
            let line = format!("POST {path}");
            let got = send(gateway.address, &line, &headers, &body(4711)).await;
            assert_eq!(got.status(), 204);
        }
    }
    assert_eq!(upstream.seen.requests().len(), 2);
    gateway.kill().await;

    let file = Stored::read(folder.path());
    let plain = Plan::new();
    assert_eq!(guesses(&file, &plain, "/plain"), [4711], "a plain digest is found by trying");
    assert!(guesses(&file, &plain, "/keyed").is_empty());
    let wrong = Plan::new().secret("1", b"a secret that somebody made up").unwrap();
    assert!(guesses(&file, &wrong, "/keyed").is_empty());
    let right = Plan::new().secret("1", SECRET.as_bytes()).unwrap();
    assert_eq!(guesses(&file, &right, "/keyed"), [4711], "this is where it would have been found");
    assert!(!file.holds(SECRET) && !file.holds(&body(4711)));
}

/// Returns the PINs whose fingerprint is in the file.
fn guesses(file: &Stored, plan: &Plan, path: &str) -> Vec<u32> {
    let stored = |pin: &u32| {
        let text = body(*pin);
        let mut command = Command::new("POST", path).body(CommandBody::Json(text.as_bytes()));
        command.media_type = "application/json";
        file.digests.contains(plan.digest(&command).unwrap().digest())
    };
    (0..10_000).filter(stored).collect()
}

fn body(pin: u32) -> String {
    format!("{{\"pin\":\"{pin:04}\"}}")
}

/// Everything that lies in the store's folder under its name.
struct Stored {
    bytes: Vec<u8>,
    digests: HashSet<[u8; 32]>,
}

impl Stored {
    fn read(folder: &Path) -> Self {
        let files = ["semel.db", "semel.db-wal"].map(|name| folder.join(name));
        let bytes = files.iter().flat_map(|file| fs::read(file).unwrap_or_default());
        let bytes: Vec<u8> = bytes.collect();
        let digests = bytes.windows(32).map(|piece| piece.try_into().unwrap()).collect();
        Self { bytes, digests }
    }

    fn holds(&self, text: &str) -> bool {
        self.bytes.windows(text.len()).any(|piece| piece == text.as_bytes())
    }
}

fn configure(folder: &Path, upstream: &str) {
    let config = format!(
        r#"
store = "sqlite:semel.db"
replay_auth = "none"

[tenant]
source = "single_tenant"

[[upstream]]
name = "till"
url = "{upstream}"

[[operation]]
name = "plain"
path = "/plain"
upstream = "till"

[[operation]]
name = "keyed"
path = "/keyed"
upstream = "till"
secret = {{ file = "till.secret" }}
"#
    );
    fs::write(folder.join("semel.toml"), config).unwrap();
}
