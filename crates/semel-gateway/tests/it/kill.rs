//! `kill -9` of the gateway at random moments, under clients that retry with their key.
//!
//! `SEMEL_KILLS` says how often it dies in each run, `SEMEL_SEED` when.

mod crowd;
mod operator;
mod till;
mod trap;
mod verdict;

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use semel::Policy;
use semel_testkit::SeededEntropy;
use tokio::time::timeout;

use self::{
    crowd::Crowd,
    till::Till,
    trap::{Phase, Plan, Trap},
    verdict::Verdict,
};
use crate::{child::Process, message::PATIENCE};

const CLIENTS: usize = 32;
const KILLS: usize = 12;
const SETTLE_FOR: Duration = Duration::from_secs(3);

/// C13, C16, C26, C79: whatever is killed when, nothing is done twice by guess. At most one row, exactly
/// one if anybody was told so; what nobody can say is listed, and is definite once an operator has
/// looked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_random_moments_hold_never_does_twice_what_may_have_been_done() {
    let mut run = Run::new("hold", false, "wait").await;
    let chance = SeededEntropy::printed();
    run.kill_often((0..kills()).map(|_| Plan::drawn(&chance))).await;
    let told = run.crowd.told();
    let listed = operator::unknown(run.folder.path());
    run.verdict.reported(&told, &listed);

    let policy = Policy { settle_for: SETTLE_FOR, ..Policy::default() };
    let refused = operator::resolve(run.folder.path(), &listed, &run.till.rows, &policy).await;
    run.verdict.wrong.extend(refused);
    run.settle(listed.into_iter().collect()).await;
    run.replay_after_one_more_kill().await;
    run.end("hold");
}

/// C16, C20, C28: where the upstream honours the key, the retry alone settles it: exactly one row, and
/// nobody is needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_random_moments_rerun_does_everything_once_where_the_key_is_honoured() {
    let mut run = Run::new("rerun", true, "conflict").await;
    let chance = SeededEntropy::printed();
    run.kill_often((0..kills()).map(|_| Plan::drawn(&chance))).await;
    if run.verdict.unknown > 0 {
        run.verdict.wrong.push(format!("{} were told unknown", run.verdict.unknown));
    }
    run.replay_after_one_more_kill().await;
    run.end("rerun");
}

/// The count can fail: an upstream that does not honour the key is asked twice by `rerun`, and that is
/// found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_count_finds_a_second_row_where_rerun_is_no_safe_choice() {
    let mut run = Run::new("rerun", false, "wait").await;
    let plan = Plan { phase: Phase::Made, request: 40, held: true, jitter: Duration::ZERO };
    run.kill_often([plan]).await;
    let found = run.verdict.wrong.iter().any(|wrong| wrong.ends_with("has 2 rows"));
    assert!(found, "{}", run.verdict);
}

fn kills() -> usize {
    std::env::var("SEMEL_KILLS").map_or(KILLS, |kills| kills.parse().expect("a number of kills"))
}

/// A gateway on one file, its upstream, and its clients.
struct Run {
    folder: tempfile::TempDir,
    gateway: Process,
    till: Till,
    trap: Arc<Trap>,
    crowd: Arc<Crowd>,
    verdict: Verdict,
}

impl Run {
    async fn new(on_lost: &str, honours: bool, in_progress: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let trap = Arc::new(Trap::default());
        let till = Till::open(honours, &trap).await;
        configure(folder.path(), till.address, on_lost, in_progress);
        let gateway = Process::start(folder.path()).await;
        let crowd = Crowd::new(gateway.address, &trap);
        Self { folder, gateway, till, trap, crowd, verdict: Verdict::default() }
    }

    /// Kills the gateway by each plan while the clients go on, then lets them finish, and judges.
    async fn kill_often(&mut self, plans: impl IntoIterator<Item = Plan>) {
        let mut clients = self.crowd.send(CLIENTS);
        for plan in plans {
            self.trap.set(plan);
            // A trap that nothing springs is a kill by the clock.
            let _by_the_clock = timeout(Duration::from_secs(3), self.trap.sprung(&plan)).await;
            self.restart().await;
            self.verdict.kills += 1;
        }
        self.crowd.over();
        let finish = async {
            while let Some(client) = clients.join_next().await {
                client.unwrap();
            }
        };
        timeout(2 * PATIENCE, finish).await.expect("every intent becomes definite");
        self.verdict.wrong.extend(self.crowd.wrong());
        self.verdict.overtaken = self.crowd.overtaken();
        self.verdict.judge(&self.crowd.told(), &self.till.rows);
    }

    async fn restart(&mut self) {
        self.gateway.kill().await;
        self.trap.dead();
        self.gateway.restart().await;
        self.crowd.started();
    }

    /// Asks for what an operator resolved: each is answered by its one row.
    async fn settle(&mut self, keys: Vec<String>) {
        for (key, answer) in self.crowd.ask_again(keys).await {
            let rows = self.till.rows.of(&key);
            if answer.status() != 201 || rows.len() != 1 || rows[0].as_bytes() != answer.body {
                self.verdict.wrong.push(format!("{key} is not settled: {answer:?} of {rows:?}"));
            }
            self.crowd.learn(&key, answer);
        }
    }

    /// Everything that was acknowledged is replayed byte for byte by a gateway that was killed.
    async fn replay_after_one_more_kill(&mut self) {
        self.restart().await;
        let told = self.crowd.told();
        let again = self.crowd.ask_again(told.keys().cloned().collect()).await;
        self.verdict.replayed(&told, &again);
        self.verdict.exactly_one(&told, &self.till.rows);
        self.verdict.wrong.extend(self.crowd.wrong());
    }

    /// Nothing is left running or unknown, and nothing was wrong.
    fn end(mut self, name: &str) {
        for state in ["running", "unknown"] {
            let left = operator::count(self.folder.path(), state);
            if left != 0 {
                self.verdict.wrong.push(format!("{left} records are {state} at the end"));
            }
        }
        println!("{name}: {}", self.verdict);
        let log = self.gateway.log();
        let usual = [" INFO ", "took over a lost holder", "became unknown"];
        let rest = log.lines().filter(|line| !usual.iter().any(|usual| line.contains(usual)));
        let rest: Vec<_> = rest.take(20).collect();
        assert!(self.verdict.wrong.is_empty(), "{}\nthe gateway said: {rest:#?}", self.verdict);
        assert!(self.verdict.acknowledged > self.verdict.kills, "{}", self.verdict);
    }
}

/// The lease is short, so that a key whose holder was killed is soon decided.
fn configure(folder: &Path, till: SocketAddr, on_lost: &str, in_progress: &str) {
    let config = format!(
        r#"
store = "sqlite:semel.db"
replay_auth = "none"

[tenant]
source = "single_tenant"

[[upstream]]
name = "till"
url = "http://{till}"
answer_wait = "{settle_for}s"

[[operation]]
name = "pay"
method = "POST"
path = "/pay"
lease = "500ms"
wait = "2s"
settle_for = "{settle_for}s"
on_lost = "{on_lost}"
in_progress = "{in_progress}"
"#,
        settle_for = SETTLE_FOR.as_secs()
    );
    std::fs::write(folder.join("semel.toml"), config).unwrap();
}
