//! What the proxy promises, before a server that answers each line with its number and itself.

use std::{sync::Arc, time::Instant};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    sync::Mutex as AsyncMutex,
};

use super::*;

/// A server that keeps what it was told, and answers every line.
struct Echo {
    proxy: TcpProxy,
    heard: Arc<AsyncMutex<Vec<String>>>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = TcpProxy::start(listener.local_addr().unwrap()).await;
        let heard = Arc::new(AsyncMutex::new(Vec::new()));
        let keeps = heard.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, keeps.clone()));
            }
        });
        Self { proxy, heard }
    }

    async fn client(&self) -> BufReader<TcpStream> {
        BufReader::new(TcpStream::connect(self.proxy.address()).await.unwrap())
    }

    async fn heard(&self) -> Vec<String> {
        self.heard.lock().await.clone()
    }
}

async fn answer(stream: TcpStream, heard: Arc<AsyncMutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while let Ok(1..) = stream.read_line(&mut line).await {
        heard.lock().await.push(line.trim_end().to_owned());
        if stream.write_all(line.as_bytes()).await.is_err() {
            return;
        }
        line.clear();
    }
}

/// Sends a text and reads one line; nothing is a connection that was closed or broken.
async fn ask(client: &mut BufReader<TcpStream>, text: &str) -> Option<String> {
    client.write_all(text.as_bytes()).await.ok()?;
    let mut line = String::new();
    let read = client.read_line(&mut line).await.ok()?;
    (read > 0).then(|| line.trim_end().to_owned())
}

#[tokio::test]
async fn what_is_said_arrives_and_an_end_is_passed_on() {
    let echo = Echo::start().await;
    let mut client = echo.client().await;
    assert_eq!(ask(&mut client, "one\n").await.as_deref(), Some("one"));
    let large = "x".repeat(1 << 20);
    assert_eq!(ask(&mut client, &format!("{large}\n")).await, Some(large));
    client.shutdown().await.unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty());
}

#[tokio::test]
async fn a_delay_lengthens_each_way_and_holds_up_nothing_that_follows() {
    const DELAY: Duration = Duration::from_millis(50);
    let echo = Echo::start().await;
    echo.proxy.delay(Towards::Server, DELAY);
    echo.proxy.delay(Towards::Client, DELAY);
    let mut client = echo.client().await;
    let start = Instant::now();
    // Twenty requests, each sent for itself, and none waits for a reply.
    for _ in 0..20 {
        client.write_all(b"a\n").await.unwrap();
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        assert_eq!(ask(&mut client, "").await.as_deref(), Some("a"));
    }
    let took = start.elapsed();
    assert!(took >= 2 * DELAY, "{took:?}");
    assert!(took < 18 * DELAY, "one reply waited for another: {took:?}");
}

#[tokio::test]
async fn a_short_delay_is_not_rounded_up_to_the_runtimes_tick() {
    const DELAY: Duration = Duration::from_micros(200);
    let echo = Echo::start().await;
    echo.proxy.delay(Towards::Server, DELAY);
    let mut client = echo.client().await;
    ask(&mut client, "a\n").await;
    let mut best = Duration::MAX;
    for _ in 0..50 {
        let start = Instant::now();
        ask(&mut client, "a\n").await;
        best = best.min(start.elapsed());
    }
    assert!(best >= DELAY && best < Duration::from_millis(1), "{best:?}");
}

#[tokio::test]
async fn a_cut_ends_all_connections_and_no_later_one() {
    let echo = Echo::start().await;
    let (mut one, mut other) = (echo.client().await, echo.client().await);
    assert!(ask(&mut one, "a\n").await.is_some() && ask(&mut other, "b\n").await.is_some());
    echo.proxy.cut().await;
    assert_eq!(ask(&mut one, "c\n").await, None);
    assert_eq!(ask(&mut other, "d\n").await, None);
    assert_eq!(ask(&mut echo.client().await, "e\n").await.as_deref(), Some("e"));
    assert_eq!(echo.heard().await, ["a", "b", "e"]);
}

#[tokio::test]
async fn who_is_refused_may_come_back_later() {
    let echo = Echo::start().await;
    let mut early = echo.client().await;
    echo.proxy.refuse().await;
    let error = TcpStream::connect(echo.proxy.address()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(ask(&mut early, "still here\n").await.is_some());
    echo.proxy.accept().await;
    assert!(ask(&mut echo.client().await, "back\n").await.is_some());
}

#[tokio::test]
async fn new_connections_lead_where_the_address_has_moved() {
    let (old, new) = (Echo::start().await, Echo::start().await);
    let mut early = old.client().await;
    assert!(ask(&mut early, "a\n").await.is_some());
    old.proxy.lead_to(new.proxy.address());
    assert!(ask(&mut early, "b\n").await.is_some());
    assert!(ask(&mut old.client().await, "c\n").await.is_some());
    assert_eq!((old.heard().await.len(), new.heard().await.len()), (2, 1));
}

#[tokio::test]
async fn what_is_held_back_arrives_later_and_whole() {
    let echo = Echo::start().await;
    let mut client = echo.client().await;
    ask(&mut client, "a\n").await;
    echo.proxy.hold(Towards::Client);
    let mut reply = std::pin::pin!(ask(&mut client, "b\n"));
    // Held, it does not come however long one waits: this long is enough for one that is not.
    let early = tokio::time::timeout(Duration::from_millis(50), &mut reply).await;
    assert!(early.is_err(), "a reply came that was held back");
    assert_eq!(echo.heard().await, ["a", "b"]);
    echo.proxy.let_go(Towards::Client);
    assert_eq!(reply.await.as_deref(), Some("b"));
}

#[tokio::test]
async fn a_request_that_is_held_is_on_its_way_until_it_is_let_go() {
    let echo = Echo::start().await;
    let mut client = echo.client().await;
    let mut held = echo.proxy.hold_from("COMMIT");
    assert_eq!(ask(&mut client, "BEGIN\n").await.as_deref(), Some("BEGIN"));
    assert!(!held.has_sprung());
    let mut reply = std::pin::pin!(ask(&mut client, "COMMIT\n"));
    tokio::select! {
        reply = &mut reply => panic!("{reply:?} came of what is held"),
        () = held.sprung() => {}
    }
    assert_eq!(echo.heard().await, ["BEGIN"]);
    echo.proxy.let_go(Towards::Server);
    assert_eq!(reply.await.as_deref(), Some("COMMIT"));
    assert_eq!(echo.heard().await, ["BEGIN", "COMMIT"]);
}

#[tokio::test]
async fn a_lost_request_never_reaches_the_server() {
    let echo = Echo::start().await;
    let mut trap = echo.proxy.cut_before("COMMIT");
    let mut client = echo.client().await;
    assert!(ask(&mut client, "BEGIN\n").await.is_some());
    assert!(!trap.has_sprung());
    assert_eq!(ask(&mut client, "COMMIT\n").await, None);
    trap.sprung().await;
    assert_eq!(echo.heard().await, ["BEGIN"]);
    // It was lost once.
    assert!(ask(&mut echo.client().await, "COMMIT\n").await.is_some());
}

#[tokio::test]
async fn a_request_whose_reply_is_lost_was_carried_out() {
    let echo = Echo::start().await;
    for delay in [0, 20] {
        echo.proxy.delay(Towards::Client, Duration::from_millis(delay));
        let mut trap = echo.proxy.swallow_replies_after("COMMIT");
        let mut client = echo.client().await;
        assert!(ask(&mut client, "BEGIN\n").await.is_some());
        assert_eq!(ask(&mut client, "COMMIT\n").await, None);
        trap.sprung().await;
        assert_eq!(echo.heard.lock().await.split_off(0), ["BEGIN", "COMMIT"]);
    }
}

#[tokio::test]
async fn all_that_was_sent_with_a_request_is_carried_out_though_replies_are_lost() {
    let echo = Echo::start().await;
    let mut trap = echo.proxy.swallow_replies_after("INSERT");
    let mut client = echo.client().await;
    assert_eq!(ask(&mut client, "INSERT\nCOMMIT\n").await, None);
    trap.sprung().await;
    assert_eq!(echo.heard().await, ["INSERT", "COMMIT"]);
}

#[tokio::test]
async fn a_connection_can_be_lost_at_the_nth_thing_that_is_said() {
    let echo = Echo::start().await;
    for nth in 1..=3 {
        let mut trap = echo.proxy.cut_before(Moment::nth("", nth));
        let mut client = echo.client().await;
        let mut answered = 0;
        while ask(&mut client, "a\n").await.is_some() {
            answered += 1;
        }
        trap.sprung().await;
        assert_eq!(answered, nth - 1);
    }
}

#[tokio::test]
async fn a_trap_that_was_taken_away_does_not_spring() {
    let echo = Echo::start().await;
    let trap = echo.proxy.cut_before("a");
    echo.proxy.disarm();
    assert!(ask(&mut echo.client().await, "a\n").await.is_some());
    assert!(!trap.has_sprung());
}

#[tokio::test]
async fn a_url_goes_through_the_proxy() {
    let proxy = TcpProxy::start(([127, 0, 0, 1], 5432).into()).await;
    let url = proxy.through("postgres://postgres@127.0.0.1:5432/a?x=127.0.0.1:5432");
    let own = proxy.address();
    assert_eq!(url, format!("postgres://postgres@{own}/a?x=127.0.0.1:5432"));
}
