//! The binary as a process: killed at the worst of moments, started again, two on one file.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    sync::Notify,
    time::{Instant, sleep, timeout},
};

use crate::{
    message::{Message, PATIENCE, Wire, answer, request, send},
    upstream::{Deed, Upstream},
};

/// A folder with a configuration and a store.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// Protects `POST /pay` with a short lease.
    fn new(upstream: &Upstream, on_lost: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "listen = \"127.0.0.1:0\"\nreplay_auth = \"none\"\nshutdown_wait = \"10s\"\n\
             [tenant]\nsource = \"single_tenant\"\n\
             [[upstream]]\nname = \"api\"\nurl = \"{}\"\n\
             [[operation]]\nname = \"pay\"\npath = \"/pay\"\nlease = \"1s\"\nwait = \"5s\"\n\
             on_lost = \"{on_lost}\"\n",
            upstream.url()
        );
        std::fs::write(folder.path().join("semel.toml"), text).unwrap();
        Self { folder }
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("semel.toml")
    }

    async fn serve(&self) -> Process {
        Process::start(&self.config()).await
    }
}

/// A gateway in a process of its own, killed when it is dropped.
struct Process {
    child: Child,
    address: SocketAddr,
    /// What else it says; kept, so that it can say it.
    _said: Lines<BufReader<ChildStdout>>,
}

impl Process {
    async fn start(config: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_semel"))
            .args(["serve", "--config"])
            .arg(config)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = timeout(PATIENCE, said.next_line()).await.unwrap().unwrap().unwrap();
        let address = line.strip_prefix("semel listens on ").unwrap().parse().unwrap();
        Self { child, address, _said: said }
    }

    async fn pay(&self, key: &str) -> Message {
        send(self.address, "POST /pay", &[("idempotency-key", key)], "{\"amount\":5}").await
    }

    async fn terminate(&self) {
        let pid = self.child.id().unwrap().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().await.unwrap();
        assert!(sent.success());
    }

    async fn ended(mut self) -> ExitStatus {
        timeout(PATIENCE, self.child.wait()).await.expect("it ended in time").unwrap()
    }
}

/// An upstream that makes a row per key, and hangs at the first request of all.
async fn hanging_at_first() -> Upstream {
    let asked = Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
    let first = Arc::new(std::sync::atomic::AtomicBool::new(true));
    Upstream::new(move |message| {
        let key = message.header("idempotency-key").unwrap_or_default().to_owned();
        let rows = {
            let mut rows = asked.lock().unwrap();
            rows.insert(key);
            rows.len()
        };
        let hang = first.swap(false, std::sync::atomic::Ordering::SeqCst);
        async move {
            if hang {
                return Deed::Hang;
            }
            Deed::Write(answer(201, &[("x-rows", &rows.to_string())], "done"))
        }
    })
    .await
}

/// Starts a request, kills the gateway while the upstream works on it, and starts the gateway anew.
async fn killed_while_running(place: &Place, upstream: &Upstream) -> Process {
    let mut gateway = place.serve().await;
    let mut wire = Wire::to(gateway.address).await;
    wire.write(request("POST /pay", &[("idempotency-key", "killed-1")], "{\"amount\":5}")).await;
    upstream.seen.until(1).await;
    gateway.child.kill().await.unwrap();
    place.serve().await
}

#[tokio::test]
async fn after_a_kill_a_held_operation_is_unknown_once_its_lease_is_over() {
    let upstream = hanging_at_first().await;
    let place = Place::new(&upstream, "hold");
    let gateway = killed_while_running(&place, &upstream).await;
    // The retry waits out the lease of the holder that is gone.
    let retry = gateway.pay("killed-1").await;
    assert_eq!((retry.status(), retry.code().as_str()), (409, "unknown"));
    assert_eq!(upstream.seen.requests().len(), 1);
    assert_eq!(gateway.pay("other-1").await.status(), 201);
}

#[tokio::test]
async fn after_a_kill_a_rerun_with_the_forwarded_key_makes_one_row() {
    let upstream = hanging_at_first().await;
    let place = Place::new(&upstream, "rerun");
    let gateway = killed_while_running(&place, &upstream).await;
    let retry = gateway.pay("killed-1").await;
    assert_eq!((retry.status(), retry.text()), (201, "done"));
    // Asked twice with the same key, the upstream made one row.
    assert_eq!(upstream.seen.effects(), [("killed-1".to_owned(), 2)].into());
    assert_eq!(retry.header("x-rows"), Some("1"));
    let replay = gateway.pay("killed-1").await;
    assert_eq!(replay.header("idempotent-replayed"), Some("true"));
    assert_eq!(replay.body, retry.body);
}

#[tokio::test]
async fn after_a_kill_a_reconciled_operation_is_sent_again_as_a_question() {
    let upstream = hanging_at_first().await;
    let place = Place::new(&upstream, "reconcile");
    let gateway = killed_while_running(&place, &upstream).await;
    assert_eq!(gateway.pay("killed-1").await.status(), 201);
    let seen = upstream.seen.requests();
    let asked: Vec<_> = seen.iter().map(|request| request.header("semel-ask-first")).collect();
    assert_eq!(asked, [None, Some("true")]);
    let fence = |at: usize| seen[at].header("semel-fence").unwrap().parse::<u64>().unwrap();
    assert!(fence(0) < fence(1));
}

#[tokio::test]
async fn what_was_answered_before_a_kill_is_replayed_byte_for_byte_after_it() {
    let upstream = Upstream::counting().await;
    let place = Place::new(&upstream, "hold");
    let mut gateway = place.serve().await;
    let mut answered = Vec::new();
    for number in 0..20 {
        answered.push(gateway.pay(&format!("kept-{number}")).await);
    }
    gateway.child.kill().await.unwrap();
    let gateway = place.serve().await;
    for (number, first) in answered.into_iter().enumerate() {
        let replay = gateway.pay(&format!("kept-{number}")).await;
        assert_eq!((replay.status(), &replay.body), (201, &first.body));
        assert_eq!(replay.header("location"), first.header("location"));
    }
    assert_eq!(upstream.seen.requests().len(), 20);
}

/// C10: two processes on one file, every key sent to both at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_on_one_file_run_each_intent_once() {
    const KEYS: usize = 200;
    let upstream = Upstream::counting().await;
    let place = Place::new(&upstream, "hold");
    let (one, two) = (Arc::new(place.serve().await), Arc::new(place.serve().await));
    // A few keys at a time: the promise is about pairs, not about load.
    for first in (0..KEYS).step_by(20) {
        let mut asked = tokio::task::JoinSet::new();
        for number in first..first + 20 {
            for gateway in [Arc::clone(&one), Arc::clone(&two)] {
                asked.spawn(async move {
                    let key = format!("pair-{number}");
                    (number, gateway.pay(&key).await)
                });
            }
        }
        let mut bodies = std::collections::BTreeMap::<usize, Vec<Vec<u8>>>::new();
        while let Some(got) = asked.join_next().await {
            let (number, got) = got.unwrap();
            assert_eq!(got.status(), 201, "{got:?}");
            bodies.entry(number).or_default().push(got.body);
        }
        assert!(bodies.values().all(|pair| pair.len() == 2 && pair[0] == pair[1]));
    }
    let effects = upstream.seen.effects();
    assert_eq!(effects.len(), KEYS);
    assert!(effects.values().all(|times| *times == 1), "{effects:?}");
}

#[tokio::test]
async fn a_signal_lets_the_holder_finish_and_the_exit_code_says_so() {
    let go = Arc::new(Notify::new());
    let waiting = Arc::clone(&go);
    let upstream = Upstream::new(move |_| {
        let go = Arc::clone(&waiting);
        async move {
            go.notified().await;
            Deed::Write(answer(201, &[], "done"))
        }
    })
    .await;
    let place = Place::new(&upstream, "hold");
    let gateway = place.serve().await;
    let mut wire = Wire::to(gateway.address).await;
    wire.write(request("POST /pay", &[("idempotency-key", "signal-1")], "{\"amount\":5}")).await;
    upstream.seen.until(1).await;
    gateway.terminate().await;
    until_refused(gateway.address).await;
    go.notify_one();
    assert_eq!(wire.answer("POST").await.unwrap().text(), "done");
    assert_eq!(gateway.ended().await.code(), Some(0));
    assert_eq!(place.serve().await.pay("signal-1").await.text(), "done");
}

#[tokio::test]
async fn a_second_signal_ends_at_once_and_the_exit_code_says_so() {
    let upstream = hanging_at_first().await;
    let place = Place::new(&upstream, "hold");
    let gateway = place.serve().await;
    let mut wire = Wire::to(gateway.address).await;
    wire.write(request("POST /pay", &[("idempotency-key", "twice-1")], "{\"amount\":5}")).await;
    upstream.seen.until(1).await;
    gateway.terminate().await;
    until_refused(gateway.address).await;
    gateway.terminate().await;
    assert_eq!(gateway.ended().await.code(), Some(1));
    let retry = place.serve().await.pay("twice-1").await;
    assert_eq!((retry.status(), retry.code().as_str()), (409, "unknown"));
}

/// Waits until nothing listens any more.
async fn until_refused(address: SocketAddr) {
    let deadline = Instant::now() + PATIENCE;
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        assert!(Instant::now() < deadline, "it still listens");
        sleep(std::time::Duration::from_millis(5)).await;
    }
}
