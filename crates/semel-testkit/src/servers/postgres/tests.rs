//! What a private server promises, seen through psql.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::Stdio,
};

use super::*;
use crate::servers::{TcpProxy, patience::until, scratch};

#[tokio::test]
async fn every_major_answers_as_itself() {
    for major in Major::ALL {
        let server = Postgres::shared(major).await;
        let number =
            server.run_sql("SELECT current_setting('server_version_num')::int / 10000").await;
        assert_eq!(number, major.number().to_string());
    }
}

#[tokio::test]
async fn tests_of_a_process_share_one_server_and_not_their_data() {
    let (one, other) = tokio::join!(Postgres::shared(Major::V17), Postgres::shared(Major::V17));
    assert_eq!(one.url(), other.url());
    let url = one.database("shared_a").await;
    assert_eq!(url, one.url_of("shared_a"));
    one.try_sql("shared_a", "CREATE TABLE t ()").await.unwrap();
    one.database("shared_b").await;
    let error = one.try_sql("shared_b", "TABLE t").await.unwrap_err();
    assert!(error.contains("does not exist"), "{error}");
}

#[tokio::test]
async fn a_killed_server_comes_back_with_what_was_committed() {
    let mut server = Postgres::builder(Major::V15).fsync(true).start().await;
    server.run_sql("CREATE TABLE t (n int); INSERT INTO t SELECT generate_series(1, 1000)").await;
    let address = server.address();
    server.kill();
    assert!(server.try_sql("postgres", "SELECT 1").await.is_err());
    server.restart().await;
    assert_eq!(server.address(), address);
    assert_eq!(server.run_sql("SELECT count(*) FROM t").await, "1000");
}

#[tokio::test]
async fn what_a_test_sets_outranks_the_defaults() {
    let server = Postgres::builder(Major::V18);
    let server =
        server.setting("max_connections", "17").setting("application_name", "it's").start();
    let settings = "SELECT current_setting('max_connections'), current_setting('fsync')";
    assert_eq!(server.await.run_sql(settings).await, "17|off");
}

#[tokio::test]
async fn a_paused_server_answers_after_it_resumes() {
    let server = Postgres::start(Major::V17).await;
    server.pause();
    let mut asked = std::pin::pin!(server.run_sql("SELECT 1"));
    // Frozen, it cannot answer however long one waits: this long is enough for one that is not.
    let early = tokio::time::timeout(std::time::Duration::from_millis(200), &mut asked).await;
    assert!(early.is_err(), "a frozen server answered");
    server.resume();
    assert_eq!(asked.await, "1");
}

#[tokio::test]
async fn a_commit_whose_reply_is_lost_has_happened_and_a_lost_commit_has_not() {
    let server = Postgres::shared(Major::V18).await;
    let url = server.database("lost_commit").await;
    let proxy = TcpProxy::start(server.address()).await;
    let through = proxy.through(&url);
    server.try_sql("lost_commit", "CREATE TABLE t (n int)").await.unwrap();
    let committing = |n: u32| {
        let (major, url) = (server.major(), through.clone());
        let statements = format!("BEGIN;\nINSERT INTO t VALUES ({n});\nCOMMIT;\n");
        blocking(move || sql::run(major, &url, &statements))
    };
    let mut reply = proxy.swallow_replies_after("COMMIT");
    assert!(committing(1).await.is_err());
    reply.sprung().await;
    let mut request = proxy.cut_before("COMMIT");
    assert!(committing(2).await.is_err());
    request.sprung().await;
    assert_eq!(server.try_sql("lost_commit", "TABLE t").await.unwrap(), "1");
}

#[tokio::test]
async fn a_dropped_server_leaves_neither_processes_nor_data() {
    let server = Postgres::start(Major::V18).await;
    let folder = server.scratch.path().to_owned();
    let mut session = server.session(&server.url());
    session.ask("BEGIN; SELECT pg_backend_pid();").await;
    assert!(scratch::inside(&folder).len() > 2);
    drop(server);
    assert_eq!((scratch::inside(&folder), folder.exists()), (Vec::new(), false));
    session.say("SELECT 1;");
    let error = session.try_hear().await.unwrap_err();
    assert!(error.contains("server closed the connection"), "{error}");
}

/// The test starts itself in a process of its own, which it kills while the server is frozen: nobody
/// is left then to tell the backends.
#[tokio::test]
async fn a_server_ends_with_a_test_that_is_killed() {
    const ROLE: &str = "SEMEL_TEST_THAT_IS_KILLED";
    const NAME: &str = "servers::postgres::tests::a_server_ends_with_a_test_that_is_killed";
    if std::env::var_os(ROLE).is_some() {
        let server = Postgres::start(Major::V17).await;
        let _session = server.session(&server.url()).ask("SELECT 1;").await;
        server.pause();
        println!("\nfolder {}", server.scratch.path().display());
        return std::future::pending().await;
    }
    let mut killed = Process::start(std::env::current_exe().unwrap(), |command| {
        command.args(["--exact", NAME, "--nocapture"]).env(ROLE, "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
    });
    let (_input, output) = killed.pipes();
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let folder = lines.find_map(|line| line.strip_prefix("folder ").map(PathBuf::from)).unwrap();
    assert!(!scratch::inside(&folder).is_empty());
    killed.kill();
    let all_gone = move || !folder.exists() && scratch::inside(&folder).is_empty();
    assert!(blocking(|| until(all_gone)).await, "the server outlives its test");
}
