//! How many records a second are taken out of a store and brought into one, by `semel records`.

use std::{
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, stream};
use semel::{
    Call, Fingerprint, Key, Operation, Outcome, Scope, Store, Tenant, Token,
    decide::{Ask, Finish, FinishKind},
    store::ClaimAnswer,
};
use semel_sqlite::SqliteStore;
use semel_testkit::servers::{Major, Medium, Postgres, Redis, RedisKind};
use serde_json::json;

use crate::ratio::Report;

/// How many bytes a kept answer has.
const ANSWER: usize = 1_024;
const DAY: Duration = Duration::from_secs(86_400);

/// Moves finished records from SQLite to PostgreSQL, from there to Redis, and back into SQLite: all on a disk.
pub(crate) async fn measure(report: &mut Report, records: u32) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let at = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    fill(&folder.path().join("from.db"), records).await?;
    let postgres = Postgres::builder(Major::V18).fsync(true).setting("shared_buffers", "256MB");
    let postgres = postgres.start().await;
    let redis = Redis::builder(RedisKind::Redis7).medium(Medium::Disk).start().await;
    let stores = [
        ("SQLite", at("from.db")),
        ("PostgreSQL", postgres.url()),
        ("Redis", redis.url()),
        ("SQLite", at("to.db")),
    ];
    let file = folder.path().join("records.jsonl");
    for pair in stores.windows(2) {
        let [(from, old), (to, new)] = pair else { continue };
        let file = file.to_str().context("a folder whose name is text")?;
        let out = timed(&["--store", old, "export", "--close", "--output", file])?;
        tell(report, &format!("out of {from}"), records, out);
        let into = timed(&["--store", new, "import", file])?;
        tell(report, &format!("from {from} into {to}"), records, into);
        let check = timed(&["--store", new, "import", "--check", file])?;
        tell(report, &format!("compared with {to}"), records, check);
        std::fs::remove_file(file)?;
    }
    Ok(())
}

fn tell(report: &mut Report, what: &str, records: u32, took: Duration) {
    let rate = (f64::from(records) / took.as_secs_f64()).round();
    let name = format!("records {what}");
    let seconds = took.as_secs_f64();
    let row = json!({"name": name, "per_s": rate, "seconds": seconds, "records": records});
    report.note(row, &format!("{name:<44} {rate:>9}/s {seconds:>9.1} s"));
}

/// Runs `semel records`, and says how long it took.
fn timed(arguments: &[&str]) -> Result<Duration> {
    let mut command = Command::new(std::env::current_exe()?.with_file_name("semel"));
    command.arg("records").args(arguments);
    let began = Instant::now();
    let ran = command.output()?;
    let took = began.elapsed();
    ensure!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    Ok(took)
}

/// Makes finished records in a new file.
async fn fill(path: &Path, records: u32) -> Result<()> {
    let store = SqliteStore::builder(path).open()?;
    let made = stream::iter(0..records).map(|nr| finished(&store, nr)).buffer_unordered(512);
    made.fold(Ok(()), |all, made| async move { all.and(made) }).await
}

async fn finished(store: &SqliteStore, nr: u32) -> Result<()> {
    let claimed = store.claim(vec![ask(nr)?]).await?.remove(0);
    let ClaimAnswer::Granted { permit, .. } = claimed.answer else {
        anyhow::bail!("a new intent is not granted")
    };
    let outcome = Outcome::new(201, vec![b'x'; ANSWER])
        .header("content-type", "application/json")
        .header("location", format!("/payments/{nr}"))
        .pointer("payment", &nr.to_string());
    let finish = Finish {
        kind: FinishKind::Done,
        outcome: Some(outcome),
        reason: None,
        replay_for: DAY,
        remember_for: 30 * DAY,
    };
    store.complete(permit, finish).await?;
    Ok(())
}

fn ask(nr: u32) -> Result<Ask> {
    // Keys that lie far from each other, as random ones do.
    let token = u128::from(nr).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let scope = Scope::new(Tenant::new("acme")?, Operation::new("payments.create")?);
    let id = scope.intent(Key::new(format!("{token:032x}"))?);
    let mut call = Call::new(id, Fingerprint::of_bytes(b"pay 10"), Arc::default());
    call.claimed_by = Some("request-1".into());
    Ok(call.ask(Token::from_bytes(token.to_be_bytes())))
}
