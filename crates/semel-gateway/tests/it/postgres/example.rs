//! The example of a bridged application in another language does what its page says.

use std::process::Stdio;

use semel_testkit::servers::{Major, Postgres, tools};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::{
    child::Process,
    message::{Message, PATIENCE, send},
};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/postgres/bridged");

/// The example on a database of its own.
struct Example {
    gateway: Process,
    server: &'static Postgres,
    database: String,
    _folder: tempfile::TempDir,
    _application: Child,
}

impl Example {
    async fn start() -> Self {
        let server = Postgres::shared(Major::V18).await;
        let database = format!("bridged_{}", std::process::id());
        let url = server.database(&database).await;
        let schema = std::fs::read_to_string(format!("{EXAMPLE}/schema.sql")).unwrap();
        server.try_sql(&database, &schema).await.unwrap();
        let (application, address) = application(&url).await;
        let folder = tempfile::tempdir().unwrap();
        let config = std::fs::read_to_string(format!("{EXAMPLE}/semel.toml")).unwrap();
        // The page reads its environment and a port that may be taken here.
        let config = config.replace("127.0.0.1:3000", &address).replace("env =", "file =");
        std::fs::write(folder.path().join("semel.toml"), config).unwrap();
        std::fs::write(folder.path().join("DATABASE_URL"), &url).unwrap();
        let gateway = Process::start(folder.path()).await;
        Self { gateway, server, database, _folder: folder, _application: application }
    }

    async fn pay(&self, account: &str, key: &str, amount: u32) -> Message {
        let headers = [("x-account", account), ("idempotency-key", key)];
        let body = format!("{{\"amount\": {amount}}}");
        send(self.gateway.address, "POST /payments", &headers, &body).await
    }

    async fn payments(&self) -> String {
        let count = "SELECT count(*) FROM payment";
        self.server.try_sql(&self.database, count).await.unwrap().trim().to_owned()
    }
}

/// Starts the application on a free port, and reads from it where it listens.
async fn application(url: &str) -> (Child, String) {
    let mut child = Command::new(tools().python())
        .arg(format!("{EXAMPLE}/payments.py"))
        .env("DATABASE_URL", url)
        .env("PORT", "0")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = timeout(PATIENCE, said.next_line()).await.unwrap().unwrap().unwrap();
    let port = line.strip_prefix("payments listen on ").unwrap().to_owned();
    (child, format!("127.0.0.1:{port}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_pays_once_and_replays() {
    let example = Example::start().await;
    let first = example.pay("acme", "order-7", 5).await;
    assert_eq!((first.status(), first.text()), (201, "{\"id\": 1, \"amount\": 5}"), "{first:?}");
    assert_eq!(first.header("content-type"), Some("application/json"));
    let again = example.pay("acme", "order-7", 5).await;
    assert_eq!((&again.body, again.header("idempotent-replayed")), (&first.body, Some("true")));
    assert_eq!(example.pay("acme", "order-7", 6).await.code(), "mismatch");
    assert_eq!(example.pay("other", "order-7", 5).await.status(), 201, "another account's key");
    assert_eq!(example.payments().await, "2");

    // What was declined was rolled back, and the same key may be tried again.
    for _ in 0..2 {
        let declined = example.pay("acme", "order-8", 2_000).await;
        assert_eq!((declined.status(), declined.header("idempotent-replayed")), (422, None));
    }
    assert_eq!(example.payments().await, "2");

    // Duplicates that race make one payment.
    let racing = (0..16).map(|_| example.pay("acme", "order-9", 5));
    let answered = futures_util::future::join_all(racing).await;
    assert!(answered.iter().all(|answer| answer.body == answered[0].body), "{answered:?}");
    let fresh = answered.iter().filter(|a| a.header("idempotent-replayed").is_none()).count();
    assert_eq!((fresh, example.payments().await.as_str()), (1, "3"));

    // Nobody else gets in: without a permit the application does nothing.
    let bare =
        send(example.gateway.address, "POST /elsewhere", &[("x-account", "acme")], "{}").await;
    assert_eq!(bare.status(), 403);
}
