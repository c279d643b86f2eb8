//! The examples in other languages, run as a newcomer runs them, and the mistakes that their drivers
//! invite.

use std::{
    fs::File,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use semel_postgres::PostgresStore;
use semel_testkit::{
    http::send,
    servers::{Major, PgBouncer, Postgres, Process, free_port, tools},
};
use tempfile::TempDir;
use tokio::task::JoinSet;

/// A database as the guide sets it up, and an application's own user.
struct Shop {
    server: &'static Postgres,
    database: String,
    user: String,
    folder: TempDir,
}

impl Shop {
    async fn new(major: Major) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let server = Postgres::shared(major).await;
        let database = format!("shop_{number}");
        let builder = PostgresStore::builder(server.database(&database).await);
        PostgresStore::migrate(&builder).await.unwrap();
        PostgresStore::grant_roles(&builder).await.unwrap();
        let user = format!("app_{number}");
        let setup = format!(
            "{}; CREATE ROLE {user} LOGIN IN ROLE semel_app",
            include_str!("../../../../examples/postgres/schema.sql")
        );
        server.try_sql(&database, &setup).await.unwrap();
        Self { server, database, user, folder: tempfile::tempdir().unwrap() }
    }

    fn url(&self) -> String {
        format!("postgresql://{}@{}/{}", self.user, self.server.address(), self.database)
    }

    fn jdbc(&self) -> String {
        format!("jdbc:postgresql://{}/{}?user={}", self.server.address(), self.database, self.user)
    }

    async fn payments(&self) -> String {
        let sql = "SELECT count(*) FROM payment WHERE tenant = 'acme'";
        self.server.try_sql(&self.database, sql).await.unwrap()
    }

    /// Starts an example and waits until it listens.
    async fn start(&self, command: Command) -> (Process, SocketAddr) {
        let port = free_port();
        let log = File::create(self.folder.path().join("log")).unwrap();
        let mut process = Process::start(command.get_program(), |started| {
            started.args(command.get_args()).arg(port.to_string());
            let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
            started.envs(set).current_dir(self.folder.path());
            started.stdout(log.try_clone().unwrap()).stderr(log);
        });
        let address = (Ipv4Addr::LOCALHOST, port).into();
        let listens = process.until_it_listens(address, Duration::from_secs(60)).await;
        listens.unwrap_or_else(|error| panic!("{error}: {}", self.log()));
        (process, address)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Compiles a program of Java, and returns the command that runs it.
    fn java(&self, source: &Path, class: &str) -> Command {
        let (jar, folder) = (tools().jdbc_jar(), self.folder.path());
        let mut javac = Command::new(tools().javac());
        javac.arg("-d").arg(folder).arg("-cp").arg(&jar).arg(source);
        run(&mut javac);
        let mut java = Command::new(tools().java());
        let path = format!("{}:{}", jar.display(), folder.display());
        java.args(["-XX:TieredStopAtLevel=1", "-cp", &path, class]).arg(self.jdbc());
        java
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(path: &str) -> PathBuf {
    repository().join("examples/postgres").join(path)
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/testdata").join(name)
}

fn python(script: PathBuf, url: String) -> Command {
    let mut command = Command::new(tools().python());
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(script).arg(url);
    command
}

fn node(script: PathBuf, url: String) -> Command {
    let mut command = Command::new(tools().node());
    command.env("NODE_PATH", tools().node_modules()).arg(script).arg(url);
    command
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
}

/// Sends one payment until the answer is final; returns status, body, and whether it was replayed.
async fn pay(address: SocketAddr, key: &str, body: &str) -> (u16, String, bool) {
    let key = [("idempotency-key", key), ("connection", "close")];
    for _ in 0..10_000 {
        let answer = send(address, "POST /payments", &key, body).await;
        let waits = answer.header("retry-after").is_some();
        assert_eq!(waits, [409, 503].contains(&answer.status()), "{answer:?}");
        if !waits {
            let replayed = answer.header("idempotent-replayed").is_some();
            return (answer.status(), answer.text().to_owned(), replayed);
        }
    }
    panic!("no answer of {address} is final");
}

/// What every example must do.
async fn keeps_the_promise(shop: &Shop, address: SocketAddr) {
    for key in ["order-7", "order-8"] {
        let mut duplicates = JoinSet::new();
        for _ in 0..32 {
            duplicates.spawn(pay(address, key, r#"{"cents": 1000}"#));
        }
        let answers = duplicates.join_all().await;
        let (_, first, _) = &answers[0];
        assert!(answers.iter().all(|(status, body, _)| (*status, body) == (201, first)));
        assert_eq!(answers.iter().filter(|(.., replayed)| !replayed).count(), 1, "one ran");
    }
    assert_eq!(shop.payments().await, "2");
    assert_eq!(pay(address, "order-7", r#"{"cents": 1001}"#).await.0, 422);
    let bad = pay(address, "order-9", r#"{"cents": 0}"#).await;
    assert_eq!(bad.0, 400, "{bad:?}");
    assert_eq!(pay(address, "order-9", r#"{"cents": 9}"#).await.0, 201, "nothing was kept of it");
    assert_eq!(pay(address, "two words", r#"{"cents": 9}"#).await.0, 400);
    let headers = [("idempotency-key", "order-7"), ("connection", "close")];
    let replay = send(address, "POST /payments", &headers, r#"{"cents": 1000}"#).await;
    assert_eq!(replay.header("content-type"), Some("application/json"));
    let location = replay.header("location").unwrap().to_owned();
    let other = send(address, "POST /payments", &headers, r#"{"cents": 1000}"#).await;
    assert_eq!(other.header("location"), Some(&*location));
    assert_eq!(shop.payments().await, "3");
}

#[tokio::test]
async fn the_example_in_python_keeps_the_promise() {
    let shop = Shop::new(Major::V15).await;
    let (_process, address) = shop.start(python(example("python/payments.py"), shop.url())).await;
    keeps_the_promise(&shop, address).await;
}

#[tokio::test]
async fn the_example_in_node_keeps_the_promise() {
    let shop = Shop::new(Major::V17).await;
    let (_process, address) = shop.start(node(example("node/payments.js"), shop.url())).await;
    keeps_the_promise(&shop, address).await;
}

#[tokio::test]
async fn an_example_keeps_the_promise_behind_a_pooler() {
    let shop = Shop::new(Major::V18).await;
    let pooler = PgBouncer::start(shop.server, 4).await;
    let url = pooler.url_of(&shop.database);
    let (_process, address) = shop.start(node(example("node/payments.js"), url)).await;
    keeps_the_promise(&shop, address).await;
}

#[tokio::test]
async fn the_example_in_java_keeps_the_promise() {
    let shop = Shop::new(Major::V18).await;
    let java = shop.java(&example("java/Payments.java"), "Payments");
    let (_process, address) = shop.start(java).await;
    keeps_the_promise(&shop, address).await;
}

#[tokio::test]
async fn mistakes_through_psycopg_are_loud() {
    let shop = Shop::new(Major::V18).await;
    run(&mut python(data("misuse.py"), shop.url()));
}

#[tokio::test]
async fn mistakes_through_node_postgres_are_loud() {
    let shop = Shop::new(Major::V15).await;
    run(&mut node(data("misuse.js"), shop.url()));
}

#[tokio::test]
async fn mistakes_through_jdbc_are_loud() {
    let shop = Shop::new(Major::V17).await;
    run(&mut shop.java(&data("Misuse.java"), "Misuse"));
}
