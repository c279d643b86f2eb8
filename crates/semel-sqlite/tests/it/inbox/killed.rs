//! A consumer that is killed between effect, commit and acknowledgement, again and again.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
    sync::Arc,
};

use rusqlite::{Connection, TransactionBehavior};
use semel::inbox::{By, InboxPolicy};
use semel_sqlite::{SqliteStore, inbox::Receive};

use super::{act, at, policy};
use crate::{
    bench::Bench,
    process::{child, part, tell, told},
};

/// What a consumer comes to with each message, in this order.
const STAGES: [&str; 4] = ["effect", "recorded", "committed", "acknowledged"];
const MESSAGES: u32 = 60;

/// What the broker knows: a line for each message that was acknowledged, beside the file of the store.
fn acknowledged(path: &Path) -> BTreeSet<u32> {
    let lines = fs::read_to_string(path.with_extension("acked")).unwrap_or_default();
    lines.lines().map(|line| line.parse().unwrap()).collect()
}

fn acknowledge(path: &Path, offset: u32) {
    let acked = path.with_extension("acked");
    let mut acked = OpenOptions::new().create(true).append(true).open(acked).unwrap();
    writeln!(acked, "{offset}").unwrap();
}

/// Handles what the broker delivers: all that was not acknowledged, in order. Tells what it comes to.
fn consume(path: &Path, mut comes_to: impl FnMut(&str, u32)) {
    let by = if path.ends_with("positions.db") { By::Positions } else { By::Ids };
    let store = SqliteStore::builder(path).open().unwrap();
    let inbox = store.inbox(Arc::new(InboxPolicy { by, ..policy() })).unwrap();
    let mut conn = Connection::open(path).unwrap();
    conn.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
    conn.execute_batch("CREATE TABLE IF NOT EXISTS effect (message TEXT NOT NULL)").unwrap();
    let answer = || (by == By::Ids).then(|| "paid".into());
    let acked = acknowledged(path);
    for offset in (0..MESSAGES).filter(|offset| !acked.contains(offset)) {
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        match inbox.receive(tx, &at(offset.into())).unwrap() {
            Receive::First(handling) => {
                act(&handling, handling.message().id()).unwrap();
                comes_to("effect", offset);
                let tx = handling.done(answer()).unwrap();
                comes_to("recorded", offset);
                tx.commit().unwrap();
                comes_to("committed", offset);
            }
            Receive::Duplicate(_, recorded) => {
                assert_eq!(recorded.and_then(|recorded| recorded.answer), answer());
                comes_to("copy", offset);
            }
            Receive::Mismatch(..) => panic!("{offset} is what it was"),
        }
        acknowledge(path, offset);
        comes_to("acknowledged", offset);
    }
}

/// Stops where the file `stop` says, the so many-th time, and waits to be killed there.
#[test]
fn child_that_consumes_until_it_is_killed() {
    let Some(path) = part() else { return };
    let stop = fs::read_to_string(path.with_extension("stop")).unwrap();
    let (at_stage, left) = stop.split_once(' ').unwrap();
    let mut left: u32 = left.parse().unwrap();
    consume(&path, |stage, offset| {
        left -= u32::from(stage == at_stage);
        tell(&format!("{stage} {offset}"));
        if left == 0 {
            wait_to_be_killed();
        }
    });
}

fn wait_to_be_killed() -> ! {
    loop {
        std::thread::park();
    }
}

/// Lets a consumer live until it has come to a stage so many times; returns what it came to.
fn one_life(path: &Path, stage: &str, times: u32) -> Vec<String> {
    fs::write(path.with_extension("stop"), format!("{stage} {times}")).unwrap();
    let mut consumer = child("inbox::killed::child_that_consumes_until_it_is_killed", path);
    let (mut lines, mut left) = (Vec::new(), times);
    for line in told(&mut consumer) {
        left -= u32::from(line.split(' ').next() == Some(stage));
        lines.push(line);
        if left == 0 {
            break;
        }
    }
    assert_eq!(left, 0, "it ended by itself: {lines:?}");
    consumer.kill().unwrap();
    consumer.wait().unwrap();
    lines
}

/// M17, M73, M97: wherever a consumer is killed, and by whatever it knows its messages again, each has one
/// effect, and a copy is told what the first run recorded.
#[test]
fn a_consumer_killed_between_any_two_steps_has_one_effect_per_message() {
    for name in ["ids.db", "positions.db"] {
        let bench = Bench::new();
        let path = bench.folder.path().join(name);
        let mut copies = 0;
        for times in 1..=3 {
            for stage in STAGES {
                let lines = one_life(&path, stage, times);
                copies += lines.iter().filter(|line| line.starts_with("copy")).count();
            }
        }
        assert_eq!(copies, 3, "one for each life that ended before the acknowledgement");
        consume(&path, |_, _| {});
        let conn = Connection::open(&path).unwrap();
        let count = "SELECT count(*), count(DISTINCT message) FROM effect";
        let effects: (u32, u32) =
            conn.query_row(count, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(effects, (MESSAGES, MESSAGES), "{name}");
    }
}
