//! The gateway on Redis: what it keeps, what it refuses, an outage.

use std::{path::Path, sync::Arc, time::Duration};

use semel::Policy;
use semel_gateway::{Gateway, config::StoreUrl, settings::StoreSettings};
use semel_testkit::{
    Gate,
    servers::{Medium, Redis, RedisKind, RedisTls, Scratch},
};

use crate::{
    child::Process,
    command::{Ran, run, semel},
    gateway::{Served, protected, settings},
    message::{Message, answer, send},
    upstream::{Deed, Upstream},
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
    assert!(checked.out.contains("has no schema, and needs none"), "{checked:?}");
}

/// Whoever waits at another gateway listens for the end of the run, and is answered when it comes.
#[tokio::test]
async fn repeats_that_wait_at_another_gateway_listen_for_the_end_and_are_answered() {
    let server = Redis::builder(RedisKind::Valkey9).start().await;
    let gate = Gate::shut();
    let held = Arc::clone(&gate);
    let upstream = Upstream::new(move |_| {
        let gate = Arc::clone(&held);
        async move { Deed::WriteWhen(gate, answer(201, &[], "paid")) }
    });
    let upstream = upstream.await;
    let mut settings = settings(&[("api", &upstream.url())]);
    settings.store = stored(&server);
    let mut patient = protected("pay", "/pay", None);
    let policy = Policy { wait: Duration::from_secs(200), ..Policy::default() };
    patient.operation = patient.operation.policy(policy);
    settings.operations = vec![patient];
    let (here, there) = (Served::new(&settings).await, Served::new(&settings).await);
    let pay = |address| {
        let headers = [("idempotency-key", "k")];
        tokio::spawn(async move { send(address, "POST /pay", &headers, "{\"amount\":5}").await })
    };
    let first = pay(there.address);
    gate.arrived(1).await;
    let repeats: Vec<_> = (0..20).map(|_| pay(here.address)).collect();
    let deadline = tokio::time::Instant::now() + crate::message::PATIENCE;
    while server.ask(&["PUBSUB", "NUMSUB", "semel:ended"]).await.contains('0') {
        assert!(tokio::time::Instant::now() < deadline, "nobody listens");
    }
    gate.open();
    let first = first.await.unwrap();
    for repeat in repeats {
        let repeat = repeat.await.unwrap();
        assert_eq!((repeat.status(), &repeat.body), (201, &first.body));
    }
    assert_eq!(upstream.seen.requests().len(), 1);
}

/// A gateway on a server, with an operation that gives the store up soon, and one that waits for it.
async fn hasty_and_patient(server: &Redis, upstream: &Upstream) -> Served {
    let mut settings = settings(&[("api", &upstream.url())]);
    settings.store = stored(server);
    let within = |name: &str, path: &str, claim_timeout| {
        let mut made = protected(name, path, None);
        made.operation = made.operation.policy(Policy { claim_timeout, ..Policy::default() });
        made
    };
    let (soon, late) = (Duration::from_millis(200), Duration::from_secs(200));
    settings.operations = vec![within("pay", "/pay", soon), within("order", "/order", late)];
    Served::of(Gateway::new(&settings).await.unwrap()).await
}

async fn readiness(gateway: &Served) -> u16 {
    send(gateway.admin, "GET /readyz", &[], "").await.status()
}

/// While the server is of no use: what is asked of the hasty operation is refused and not sent, what is asked of the
/// patient one is answered once the server is back.
async fn refuses_and_heals(
    gateway: &Served,
    upstream: &Upstream,
    before: &Message,
    back: impl Future<Output = ()>,
) {
    assert_eq!(readiness(gateway).await, 503);
    let address = gateway.address;
    let order = async move {
        send(address, "POST /order", &[("idempotency-key", "order")], "{\"amount\":5}").await
    };
    let order = tokio::spawn(order);
    for key in ["during", "before"] {
        let refused = gateway.pay(key).await;
        assert_eq!((refused.status(), refused.code().as_str()), (503, "store-away"));
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    assert_eq!(upstream.seen.requests().len(), 1, "nothing was sent");
    assert!(!order.is_finished(), "the patient one was given up");
    assert!(gateway.metric("semel_store_errors_total").await > 0);
    back.await;
    assert_eq!(order.await.unwrap().status(), 201);
    let deadline = tokio::time::Instant::now() + crate::message::PATIENCE;
    while readiness(gateway).await != 200 {
        assert!(tokio::time::Instant::now() < deadline, "it is never ready again");
    }
    let replayed = gateway.pay("before").await;
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
    assert_eq!(replayed.body, before.body);
    assert_eq!(gateway.pay("during").await.status(), 201);
    let effects = upstream.seen.effects();
    assert!(effects.len() == 3 && effects.values().all(|times| *times == 1), "{effects:?}");
}

/// C79: while the server is away nothing is sent and the gateway says that it is not ready; afterwards it
/// goes on by itself. A request waits for the server as long as its operation's `claim_timeout` says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_the_server_refuses_and_heals() {
    let mut server = Redis::builder(RedisKind::Redis7).start().await;
    let upstream = Upstream::counting().await;
    let gateway = hasty_and_patient(&server, &upstream).await;
    let before = gateway.pay("before").await;
    assert_eq!((readiness(&gateway).await, before.status()), (200, 201));
    server.kill();
    refuses_and_heals(&gateway, &upstream, &before, server.restart()).await;
}

/// C79: so it is while a server that came back loads its file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_loads_its_file_is_waited_for_or_refused_as_one_that_is_away() {
    let mut server = Redis::builder(RedisKind::Valkey9).start().await;
    let upstream = Upstream::counting().await;
    let gateway = hasty_and_patient(&server, &upstream).await;
    let before = gateway.pay("before").await;
    assert_eq!(before.status(), 201);
    server.restart_loading().await;
    refuses_and_heals(&gateway, &upstream, &before, server.loaded()).await;
}

/// A gateway that is started meanwhile serves once the server has loaded; its first request waits too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_started_while_the_server_loads_serves_once_it_has() {
    let mut server = Redis::builder(RedisKind::Redis7).start().await;
    let upstream = Upstream::counting().await;
    server.restart_loading().await;
    let gateway = hasty_and_patient(&server, &upstream).await;
    assert_eq!(readiness(&gateway).await, 503);
    let order = send(gateway.address, "POST /order", &[("idempotency-key", "order")], "{}");
    let (order, ()) = tokio::join!(order, server.loaded());
    assert_eq!(order.status(), 201);
    assert_eq!(upstream.seen.requests().len(), 1);
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
    // Looking loses nothing, and such a store is to be left above all.
    let looked = run(folder.path(), &["records", "--store", &server.url(), "counts"]);
    assert_eq!(looked.code, 0, "{looked:?}");
    let left =
        run(folder.path(), &["records", "--store", &server.url(), "export", "-o", "all.jsonl"]);
    assert!(left.code != 0 && left.err.contains("close"), "{left:?}");
    let left = run(
        folder.path(),
        &["records", "--store", &server.url(), "export", "--close", "-o", "all.jsonl"],
    );
    assert_eq!(left.code, 0, "{left:?}");
}

const PASSWORD: &str = "hunter2-of-the-till";

/// A server that speaks TLS and asks for a certificate, with a user of few rights; all of its files lie in a
/// folder beside the gateway's.
async fn guarded(folder: &Path) -> Redis {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = |name: &str, text: String| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name)
    };
    let certificate = file("cert.pem", made.cert.pem());
    let key = file("key.pem", made.signing_key.serialize_pem());
    file("password", PASSWORD.to_owned());
    let tls = RedisTls { authority: certificate.clone(), certificate, key, asks_clients: true };
    let server = Redis::builder(RedisKind::Redis7).tls(tls).start().await;
    let password = format!(">{PASSWORD}");
    let mut rule = vec!["ACL", "SETUSER", "till", "on", &password, "~{semel.*", "resetchannels"];
    rule.extend(["+@connection", "+@read", "+@write", "+eval", "+evalsha", "+time"]);
    rule.extend(["+config|get", "+info"]);
    assert_eq!(server.ask(&rule).await, "OK");
    server
}

fn configure(folder: &Path, store: &str, redis: &str, upstream: &Upstream) {
    let text = format!(
        "store = {store}\nreplay_auth = \"none\"\nlisten = \"127.0.0.1:0\"\n\
         [redis]\nca = \"cert.pem\"\nclient_cert = \"cert.pem\"\nclient_key = \"key.pem\"\n{redis}\n\
         [tenant]\nsource = \"single_tenant\"\n[[upstream]]\nname = \"app\"\nurl = \"{}\"\n\
         [[operation]]\nname = \"pay\"\npath = \"/pay\"\n",
        upstream.url()
    );
    std::fs::write(folder.join("semel.toml"), text).unwrap();
}

/// Runs a command with a password, and a URL that holds it, in the environment; it shows none of it.
fn quietly(folder: &Path, url: &str, arguments: &[&str]) -> Ran {
    let mut command = semel(folder, arguments);
    command.env("TILL_PASSWORD", PASSWORD).env("TILL_URL", url);
    let ran = Ran::from(command.output().unwrap());
    let shown = format!("{}{}", ran.out, ran.err);
    assert!(!shown.contains("hunter2"), "{arguments:?}: {shown}");
    ran
}

/// A user of few rights is reached by TLS with certificates on both sides, by a password from a file, from the
/// environment, or in a URL that stands there; nobody is shown it, whatever goes wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_taken_from_where_it_stands_and_shown_to_nobody() {
    let folder = Scratch::new("guarded", Medium::Memory);
    let (folder, server) = (folder.path(), guarded(folder.path()).await);
    let upstream = Upstream::counting().await;
    let place = format!("localhost:{}/0", server.tls_address().port());
    let plain = format!("\"rediss://till@{place}\"");
    let url = format!("rediss://till:{PASSWORD}@{place}");
    let ways = [
        (plain.as_str(), "password = { file = \"password\" }"),
        (&plain, "password = { env = \"TILL_PASSWORD\" }"),
        ("{ env = \"TILL_URL\" }", ""),
    ];
    for (store, redis) in ways {
        configure(folder, store, redis, &upstream);
        for command in [&["check"][..], &["records", "--json", "counts"], &["migrate", "--check"]] {
            let ran = quietly(folder, &url, command);
            assert_eq!(ran.code, 0, "{redis} {command:?}: {ran:?}");
        }
    }
    configure(folder, ways[0].0, ways[0].1, &upstream);
    let gateway = Process::start_logging(folder, "trace").await;
    let paid = send(gateway.address, "POST /pay", &[("idempotency-key", "k")], "{}").await;
    assert_eq!(paid.status(), 201);
    assert!(!gateway.log().contains("hunter2"), "{}", gateway.log());
    drop(gateway);
    // Not as it stands there, and not as it is wrong.
    for (set, says) in [("off", "user or the password"), ("on", "allow EVAL")] {
        server.ask(&["ACL", "SETUSER", "till", set, "-@all", "+@connection"]).await;
        let refused = quietly(folder, &url, &["serve"]);
        assert!(refused.code != 0, "{refused:?}");
        assert!(set == "on" || refused.err.contains(says), "{refused:?}");
    }
}
