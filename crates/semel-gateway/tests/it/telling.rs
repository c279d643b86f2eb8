//! What a client can tell from an answer alone: whether to wait, to send again, to correct, or to stop.
//! Whoever does what the answers say acts once.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Instant,
};

use semel_testkit::Gate;
use tempfile::TempDir;

use crate::{
    child::Process,
    command::run,
    message::{Message, PATIENCE, Wire, answer, request},
    upstream::{Deed, Upstream},
};

/// L12: for each problem, a client that knows nothing but the member `retry` gets to its one effect.
#[tokio::test]
async fn whoever_does_what_each_problem_says_acts_once() {
    let shop = Shop::open().await;
    let (long, note) = ("k".repeat(300), "n".repeat(2000));
    let large = format!("{{\"order\":\"large\",\"note\":\"{note}\"}}");
    for (order, wrong, code) in [
        ("missing", Ask::new("missing"), "key-missing"),
        ("empty", Ask::new("empty").key(""), "key-empty"),
        ("character", Ask::new("character").key("b\u{e9}b\u{e9}"), "key-character"),
        ("long", Ask::new("long").key(&long), "key-too-long"),
        ("several", Ask::new("several").key("one-1").key("right-several"), "key-several"),
        (
            "twice",
            Ask::of("{\"order\":\"twice\",\"order\":\"twice\"}", "right-twice"),
            "duplicate-member",
        ),
        ("half", Ask::of("{\"order\":\"ha", "right-half"), "malformed-json"),
        ("large", Ask::of(&large, "right-large"), "body-too-large"),
    ] {
        // Where the key was not to blame, it is as free as it was.
        let right = Ask::new(order).key(&format!("right-{order}"));
        let told = Told::by(&shop, wrong, &right, |_| {}).await;
        assert_eq!((&*told.codes, told.last.status()), (&[code.to_owned()][..], 201), "{order}");
        assert_eq!(shop.acted(order), 1, "{order}");
    }

    let right = Ask::new("first").key("used-1");
    let first = shop.send(&right).await;
    let told = Told::by(&shop, Ask::new("other").key("used-1"), &right, |_| {}).await;
    assert_eq!((told.codes.join(" "), &told.last.body), ("mismatch".to_owned(), &first.body));
    assert_eq!((shop.acted("first"), shop.acted("other")), (1, 0));
}

/// L12: the same where the answer is that somebody else must act first: the holder, or an operator.
#[tokio::test]
async fn whoever_waits_and_keeps_the_key_gets_the_answer_of_the_one_effect() {
    let shop = Shop::open().await;

    let slow = Ask::new("slow").key("slow-1");
    let mut first = Wire::to(shop.gateway.address).await;
    first.write(slow.bytes()).await;
    shop.gate.arrived(1).await;
    let told = Told::by(&shop, slow.clone(), &slow, |_| shop.gate.open()).await;
    let first = first.answer("POST").await.unwrap();
    assert!(told.codes.iter().all(|code| code == "in-progress"), "{:?}", told.codes);
    assert_eq!((told.last.status(), &told.last.body), (201, &first.body));

    let lost = Ask::new("lost").key("lost-1");
    let told = Told::by(&shop, lost.clone(), &lost, |codes| {
        if codes == ["upstream-unknown", "unknown"] {
            shop.resolve_as_done("lost-1");
        }
    });
    let told = told.await;
    assert_eq!(told.codes, ["upstream-unknown", "unknown"]);
    assert_eq!((told.last.status(), told.last.text()), (201, "found"));

    let huge = Ask::new("huge").key("huge-1");
    assert_eq!(shop.send(&huge).await.status(), 201);
    let told = Told::by(&shop, huge.clone(), &huge, |_| {}).await;
    assert_eq!(told.codes, ["outcome-not-kept"]);

    assert_eq!(["slow", "lost", "huge"].map(|order| shop.acted(order)), [1, 1, 1]);
}

/// L11: a request that runs, one that nobody knows of, other content, and an answer that is kept can all be
/// a 409, and none is taken for another.
#[tokio::test]
async fn what_is_409_says_by_its_code_whether_it_runs_is_unknown_or_was_done() {
    let shop = Shop::open().await;
    let mut first = Wire::to(shop.gateway.address).await;
    first.write(Ask::new("slow").key("slow-1").bytes()).await;
    shop.gate.arrived(1).await;
    assert_eq!(shop.send(&Ask::new("lost").key("lost-1")).await.code(), "upstream-unknown");
    let sold_out = shop.send(&Ask::new("sold-out").key("gone-1")).await;
    assert_eq!((sold_out.status(), sold_out.header("idempotent-replayed")), (409, None));

    let mut said = BTreeSet::new();
    for (order, key, code, retry) in [
        ("slow", "slow-1", "in-progress", "wait"),
        ("lost", "lost-1", "unknown", "same-key"),
        ("other", "gone-1", "mismatch", "correct-request"),
        ("sold-out", "gone-1", "", ""),
    ] {
        let got = shop.send(&Ask::new(order).key(key)).await;
        assert_eq!((got.status(), &*got.code(), &*retry_of(&got)), (409, code, retry), "{order}");
        // Only what has ended is marked as the answer of an earlier request, and only what runs is waited for.
        let replayed = got.header("idempotent-replayed");
        assert_eq!(replayed, (order == "sold-out").then_some("true"), "{order}");
        assert_eq!(got.header("retry-after").is_some(), order == "slow", "{order}");
        said.insert((got.code(), retry_of(&got)));
    }
    assert_eq!(said.len(), 4);
    shop.gate.open();
    assert_eq!(first.answer("POST").await.unwrap().status(), 201);
    assert_eq!(["slow", "lost", "sold-out", "other"].map(|order| shop.acted(order)), [1, 1, 1, 0]);
}

/// What came of a client that did as it was told.
struct Told {
    codes: Vec<String>,
    last: Message,
}

impl Told {
    /// Sends a request until it is answered, doing nothing but what each problem's `retry` says. `meanwhile`
    /// is what others do before the same request is sent again.
    async fn by(shop: &Shop, first: Ask, right: &Ask, meanwhile: impl Fn(&[String])) -> Self {
        let (mut ask, mut codes) = (first, Vec::new());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let last = shop.send(&ask).await;
            let retry = retry_of(&last);
            if !retry.is_empty() {
                codes.push(last.code());
            }
            assert!(Instant::now() < deadline, "it leads nowhere: {:?}", codes.last());
            match &*retry {
                "" | "do-not-retry" => return Self { codes, last },
                "wait" | "same-key" => meanwhile(&codes),
                "correct-request" => ask = right.clone(),
                "new-key" => ask.keys = right.keys.clone(),
                other => panic!("{other} says nothing"),
            }
        }
    }
}

/// Returns what a problem says to do; nothing for an answer of the upstream.
fn retry_of(message: &Message) -> String {
    if message.header("content-type") != Some("application/problem+json") {
        return String::new();
    }
    let document: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
    document["retry"].as_str().expect("every problem says what to do").to_owned()
}

/// One request of a client.
#[derive(Clone)]
struct Ask {
    keys: Vec<String>,
    body: String,
}

impl Ask {
    fn new(order: &str) -> Self {
        Self { keys: Vec::new(), body: format!("{{\"order\":\"{order}\"}}") }
    }

    fn of(body: &str, key: &str) -> Self {
        Self { keys: vec![key.to_owned()], body: body.to_owned() }
    }

    fn key(mut self, key: &str) -> Self {
        self.keys.push(key.to_owned());
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(self.keys.iter().map(|key| ("idempotency-key", &**key)));
        request("POST /pay", &headers, &self.body)
    }
}

/// A gateway as a process of its own on a SQLite file, before an upstream that does what an order is called.
struct Shop {
    folder: TempDir,
    gateway: Process,
    gate: Arc<Gate>,
    acted: Arc<Mutex<BTreeMap<String, u32>>>,
    _upstream: Upstream,
}

impl Shop {
    async fn open() -> Self {
        let (gate, acted) = (Gate::shut(), Arc::<Mutex<BTreeMap<String, u32>>>::default());
        let (held, books) = (Arc::clone(&gate), Arc::clone(&acted));
        let upstream = Upstream::new(move |message| {
            let asked: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
            let order = asked["order"].as_str().unwrap().to_owned();
            *books.lock().unwrap().entry(order.clone()).or_default() += 1;
            let deed = deed(&order, &held);
            async move { deed }
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        configure(&folder, upstream.address);
        let gateway = Process::start(folder.path()).await;
        Self { folder, gateway, gate, acted, _upstream: upstream }
    }

    async fn send(&self, ask: &Ask) -> Message {
        let mut wire = Wire::to(self.gateway.address).await;
        wire.write(ask.bytes()).await;
        wire.answer("POST").await.unwrap()
    }

    /// Returns how often an order had an effect.
    fn acted(&self, order: &str) -> u32 {
        self.acted.lock().unwrap().get(order).copied().unwrap_or(0)
    }

    fn resolve_as_done(&self, key: &str) {
        let intent = ["records", "resolve", "pay", key, "--yes", "--note", "in the books"];
        let verdict = ["--done", "--status", "201", "--body", "found"];
        run(self.folder.path(), &[&intent[..], &verdict].concat()).ends(0, "");
    }
}

fn deed(order: &str, gate: &Arc<Gate>) -> Deed {
    match order {
        "slow" => Deed::WriteWhen(Arc::clone(gate), answer(201, &[], "slow")),
        "lost" => Deed::Reset,
        "huge" => Deed::Write(answer(201, &[], &"h".repeat(2000))),
        "sold-out" => Deed::Write(answer(409, &[("content-type", "text/plain")], "sold out")),
        _ => Deed::Write(answer(201, &[], order)),
    }
}

fn configure(folder: &TempDir, upstream: SocketAddr) {
    let config = format!(
        r#"
store = "sqlite:semel.db"
replay_auth = "none"

[tenant]
source = "single_tenant"

[[upstream]]
name = "shop"
url = "http://{upstream}"

[[operation]]
name = "pay"
path = "/pay"
in_progress = "conflict"
mismatch = 409
body_max = "1 KiB"
outcome_max = "1 KiB"
"#
    );
    std::fs::write(folder.path().join("semel.toml"), config).unwrap();
}
