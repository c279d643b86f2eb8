//! The gateway on Redis: what it keeps, what it refuses, an outage.

use std::path::Path;

use semel_gateway::{Gateway, config::StoreUrl, settings::StoreSettings};
use semel_testkit::servers::{Redis, RedisKind};

use crate::{
    child::Process,
    command::run,
    gateway::{Served, protected, settings},
    message::send,
    upstream::Upstream,
};

fn stored(server: &Redis) -> StoreSettings {
    StoreUrl::parse(&server.url(), Path::new("")).unwrap().into()
}

/// C10, C73: two processes on one server run each intent once, and replay what was answered after a kill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_on_one_server_run_each_intent_once_and_replay_it_after_a_kill() {
    const KEYS: usize = 40;
    let (server, upstream) = (Redis::shared(RedisKind::Valkey9).await, Upstream::counting().await);
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "store = \"{}/0\"\nreplay_auth = \"none\"\n[redis]\nprefix = \"gateway\"\n\
         [tenant]\nsource = \"single_tenant\"\n\
         [[upstream]]\nname = \"app\"\nurl = \"{}\"\n[[operation]]\nname = \"pay\"\npath = \"/pay\"\n",
        server.url(),
        upstream.url()
    );
    std::fs::write(folder.path().join("semel.toml"), text).unwrap();
    let mut one = Process::start(folder.path()).await;
    let two = Process::start(folder.path()).await;
    let pay = |address, key: usize| async move {
        let key = format!("pair-{key}");
        send(address, "POST /pay", &[("idempotency-key", &key)], "{\"amount\":5}").await
    };
    let mut bodies = Vec::new();
    for key in 0..KEYS {
        let (first, second) = tokio::join!(pay(one.address, key), pay(two.address, key));
        assert_eq!((first.status(), second.status()), (201, 201), "{first:?} {second:?}");
        assert_eq!(first.body, second.body);
        bodies.push(first.body);
    }
    let effects = upstream.seen.effects();
    assert!(effects.len() == KEYS && effects.values().all(|times| *times == 1), "{effects:?}");
    one.kill().await;
    one.restart().await;
    let again = pay(one.address, 7).await;
    assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &bodies[7]));
    let counts = run(folder.path(), &["records", "--json", "counts"]);
    assert!(counts.code == 0 && counts.out.contains("40"), "{counts:?}");
    let checked = run(folder.path(), &["migrate", "--check"]);
    assert_eq!(checked.code, 0, "{checked:?}");
}

/// C79: while the server is away nothing is sent and the gateway says that it is not ready; afterwards it
/// goes on by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_the_server_refuses_and_heals() {
    let mut server = Redis::builder(RedisKind::Redis7).start().await;
    let upstream = Upstream::counting().await;
    let mut settings = settings(&[("api", &upstream.url())]);
    settings.store = stored(&server);
    settings.operations = vec![protected("pay", "/pay", None)];
    let gateway = Served::of(Gateway::new(&settings).await.unwrap()).await;
    let ready = || async { send(gateway.admin, "GET /readyz", &[], "").await.status() };
    assert_eq!((ready().await, gateway.pay("before").await.status()), (200, 201));
    server.kill();
    assert_eq!(ready().await, 503);
    let refused = gateway.pay("during").await;
    assert_eq!((refused.status(), refused.code().as_str()), (503, "store-away"));
    assert_eq!(upstream.seen.requests().len(), 1, "nothing was sent");
    server.restart().await;
    let deadline = tokio::time::Instant::now() + crate::message::PATIENCE;
    while ready().await != 200 {
        assert!(tokio::time::Instant::now() < deadline, "it is never ready again");
    }
    assert_eq!(gateway.pay("before").await.header("idempotent-replayed"), Some("true"));
    assert_eq!(gateway.pay("during").await.status(), 201);
}

/// A server that may lose what it acknowledges is refused, and accepted by name it serves nothing durable.
#[tokio::test]
async fn a_server_that_loses_serves_only_what_need_not_be_durable() {
    let server = Redis::builder(RedisKind::Redis7).setting("appendonly", "no").start().await;
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::counting().await;
    let configure = |accept: bool, durable: bool| {
        let text = format!(
            "store = \"{}\"\nreplay_auth = \"none\"\nlisten = \"127.0.0.1:0\"\n\
             [redis]\naccept_volatile = {accept}\n[tenant]\nsource = \"single_tenant\"\n\
             [[upstream]]\nname = \"app\"\nurl = \"{}\"\n\
             [[operation]]\nname = \"pay\"\npath = \"/pay\"\ndurable = {durable}\n",
            server.url(),
            upstream.url()
        );
        std::fs::write(folder.path().join("semel.toml"), text).unwrap();
    };
    for (accept, says) in [(false, "set its appendonly to yes"), (true, "durable")] {
        configure(accept, true);
        let served = run(folder.path(), &["serve"]);
        assert!(served.code != 0 && served.err.contains(says), "{served:?}");
    }
    configure(true, false);
    let gateway = Process::start(folder.path()).await;
    let paid = send(gateway.address, "POST /pay", &[("idempotency-key", "k")], "{}").await;
    assert_eq!(paid.status(), 201);
}
