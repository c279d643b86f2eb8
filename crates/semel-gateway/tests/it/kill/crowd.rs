//! The clients: each sends its request again, with the same key, until it knows.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{io::AsyncWriteExt, net::TcpStream, task::JoinSet};

use super::trap::{Phase, Trap};
use crate::message::{Message, PATIENCE, Wire, request};

/// How long after the last start of the gateway a key may stay without a definite answer: the lease,
/// and what a busy machine needs besides.
const DEFINITE_WITHIN: Duration = Duration::from_secs(10);

/// What the clients were told of one intent.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub(super) answers: Vec<Message>,
    pub(super) unknown: usize,
}

/// What all clients share.
#[derive(Debug)]
pub(super) struct Crowd {
    address: SocketAddr,
    trap: Arc<Trap>,
    next: AtomicUsize,
    over: AtomicBool,
    overtaken: AtomicUsize,
    started: Mutex<Instant>,
    told: Mutex<BTreeMap<String, Told>>,
    wrong: Mutex<Vec<String>>,
}

impl Crowd {
    pub(super) fn new(address: SocketAddr, trap: &Arc<Trap>) -> Arc<Self> {
        Arc::new(Self {
            address,
            trap: Arc::clone(trap),
            next: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            overtaken: AtomicUsize::new(0),
            started: Mutex::new(Instant::now()),
            told: Mutex::default(),
            wrong: Mutex::default(),
        })
    }

    /// Sends clients after new intents, two of them after each, until it is over.
    pub(super) fn send(self: &Arc<Self>, clients: usize) -> JoinSet<()> {
        let mut sent = JoinSet::new();
        for _ in 0..clients {
            let crowd = Arc::clone(self);
            sent.spawn(async move {
                let mut client = Client { crowd: Arc::clone(&crowd), wire: None };
                while !crowd.over.load(Ordering::SeqCst) {
                    let number = crowd.next.fetch_add(1, Ordering::SeqCst) / 2;
                    client.settle(&format!("intent-{number:06}")).await;
                }
            });
        }
        sent
    }

    /// Lets the clients finish what they are at.
    pub(super) fn over(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// Notes that the gateway listens again.
    pub(super) fn started(&self) {
        *self.started.lock().unwrap() = Instant::now();
    }

    /// Returns how often a client was told that its run was overtaken.
    pub(super) fn overtaken(&self) -> usize {
        self.overtaken.load(Ordering::SeqCst)
    }

    pub(super) fn told(&self) -> BTreeMap<String, Told> {
        self.told.lock().unwrap().clone()
    }

    /// Notes an answer that came later.
    pub(super) fn learn(&self, key: &str, answer: Message) {
        let mut told = self.told.lock().unwrap();
        told.entry(key.to_owned()).or_default().answers.push(answer);
    }

    /// Takes what went wrong.
    pub(super) fn wrong(&self) -> Vec<String> {
        std::mem::take(&mut self.wrong.lock().unwrap())
    }

    /// Asks for all these keys again, and returns what came.
    pub(super) async fn ask_again(
        self: &Arc<Self>,
        keys: Vec<String>,
    ) -> BTreeMap<String, Message> {
        let keys = Arc::new(Mutex::new(keys));
        let came = Arc::new(Mutex::new(BTreeMap::new()));
        let mut asking = JoinSet::new();
        for _ in 0..16 {
            let (keys, came) = (Arc::clone(&keys), Arc::clone(&came));
            let mut client = Client { crowd: Arc::clone(self), wire: None };
            asking.spawn(async move {
                let next = || keys.lock().unwrap().pop();
                while let Some(key) = next() {
                    if let Some(answer) = client.until_definite(&key).await {
                        came.lock().unwrap().insert(key, answer);
                    }
                }
            });
        }
        while asking.join_next().await.is_some() {}
        std::mem::take(&mut came.lock().unwrap())
    }
}

/// One client, with the connection it keeps.
struct Client {
    crowd: Arc<Crowd>,
    wire: Option<Wire<TcpStream>>,
}

impl Client {
    /// Sends one intent until it is definite, and notes what was told.
    async fn settle(&mut self, key: &str) {
        match self.until_definite(key).await {
            Some(answer) if answer.status() == 201 => self.crowd.learn(key, answer),
            Some(_) => {
                self.crowd.told.lock().unwrap().entry(key.to_owned()).or_default().unknown += 1
            }
            None => {}
        }
    }

    /// Sends the same request until the answer is 201 or the problem `unknown`.
    async fn until_definite(&mut self, key: &str) -> Option<Message> {
        let begun = Instant::now();
        loop {
            let answer = self.attempt(key).await;
            let (status, code) =
                answer.as_ref().map_or((0, String::new()), |a| (a.status(), a.code()));
            match (status, code.as_str()) {
                (201, _) | (409, "unknown") => return answer,
                (0 | 503, _) | (409, "in-progress") => {}
                // On a starved machine a living holder can lose its lease to the other client; it is
                // told so, and asks again with the same key.
                (409, "stale-permit") => drop(self.crowd.overtaken.fetch_add(1, Ordering::SeqCst)),
                other => {
                    self.crowd.wrong.lock().unwrap().push(format!("{key} was told {other:?}"));
                    return None;
                }
            }
            let since = begun.max(*self.crowd.started.lock().unwrap());
            if since.elapsed() > DEFINITE_WITHIN {
                let says = format!("{key} is not definite after its lease: {status} {code}");
                self.crowd.wrong.lock().unwrap().push(says);
                return None;
            }
            // Between two tries, up to the deadline above.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Sends the request once; nothing if the connection broke before the whole answer.
    async fn attempt(&mut self, key: &str) -> Option<Message> {
        let mut wire = match self.wire.take() {
            Some(wire) => wire,
            None => Wire::new(TcpStream::connect(self.crowd.address).await.ok()?),
        };
        let headers = [("idempotency-key", key), ("content-type", "application/json")];
        let bytes = request("POST /pay", &headers, &format!("{{\"intent\":\"{key}\"}}"));
        wire.io.write_all(&bytes).await.ok()?;
        self.crowd.trap.pass(Phase::Sent).await;
        let answer = tokio::time::timeout(PATIENCE, wire.answer("POST")).await.ok()??;
        self.crowd.trap.pass(Phase::Told).await;
        if answer.header("connection") != Some("close") {
            self.wire = Some(wire);
        }
        answer.whole.then_some(answer)
    }
}
