//! The HTTP publisher keeps what every publisher promises.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use semel_http::publisher::HttpPublisher;
use semel_testkit::{
    conformance::publisher::{FarEnd, FreshPublisher, PublisherUnderTest, Seen, Trouble},
    http::{Message, Wire, answer},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// An endpoint that notes what it takes.
struct Endpoint {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: Mutex<JoinHandle<()>>,
}

struct Shared {
    arrived: Mutex<Vec<Message>>,
    trouble: watch::Sender<Option<Trouble>>,
}

impl Endpoint {
    async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (trouble, _) = watch::channel(None);
        let shared = Arc::new(Shared { arrived: Mutex::default(), trouble });
        let serving = Mutex::new(tokio::spawn(serve(listener, Arc::clone(&shared))));
        Self { address, shared, serving }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.serving.lock().unwrap().abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    // Connections end with the listener.
    let mut connections = JoinSet::new();
    while let Ok((tcp, _)) = listener.accept().await {
        connections.spawn(connection(tcp, Arc::clone(&shared)));
    }
}

async fn connection(tcp: TcpStream, shared: Arc<Shared>) {
    let mut wire = Wire::new(tcp);
    let mut trouble = shared.trouble.subscribe();
    while let Some(message) = wire.request().await {
        let now = *trouble.borrow_and_update();
        if now == Some(Trouble::Away) {
            // Its end is on its way.
            return;
        }
        if now == Some(Trouble::Overloaded) {
            wire.write(answer(503, &[("retry-after", "1")], "")).await;
            continue;
        }
        shared.arrived.lock().unwrap().push(message);
        match now {
            Some(Trouble::LostAnswers) => return,
            Some(Trouble::Mute) => {
                let _ends = trouble.changed().await;
                return;
            }
            _ => wire.write(answer(200, &[], "")).await,
        }
    }
}

#[async_trait]
impl FarEnd for Endpoint {
    async fn arrived(&self) -> Vec<Seen> {
        let arrived = self.shared.arrived.lock().unwrap();
        arrived.iter().filter(|message| message.whole).map(seen).collect()
    }

    async fn trouble(&self, trouble: Trouble) -> bool {
        self.shared.trouble.send_replace(Some(trouble));
        if trouble == Trouble::Away {
            let serving = self.serving.lock().unwrap();
            serving.abort();
        }
        true
    }

    async fn mend(&self) {
        let before = self.shared.trouble.send_replace(None);
        if before != Some(Trouble::Away) {
            return;
        }
        // The listener is gone when its task is.
        let listener = loop {
            match TcpListener::bind(self.address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        *self.serving.lock().unwrap() = tokio::spawn(serve(listener, Arc::clone(&self.shared)));
    }
}

fn seen(message: &Message) -> Seen {
    let named = |name: &str| message.header(name).unwrap_or_default();
    let bytes = |value: &str| value.as_bytes().to_vec().into();
    let headers = message.headers.iter();
    // A tombstone has no media type.
    let payload = message.header("content-type").map(|_| message.body.clone().into());
    Seen {
        id: named("ce-id").parse().unwrap(),
        lane_id: decoded(named("ce-subject")).into(),
        payload,
        headers: headers.map(|(name, value)| (name.as_str().into(), bytes(value))).collect(),
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next().unwrap(), rest.next().unwrap()];
            let digits = std::str::from_utf8(&digits).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}

struct Http;

#[async_trait]
impl PublisherUnderTest for Http {
    async fn fresh() -> FreshPublisher {
        let endpoint = Endpoint::listen().await;
        let url = format!("http://{}/events", endpoint.address).parse().unwrap();
        let publisher = HttpPublisher::builder(url);
        let publisher = publisher.publish_wait(Duration::from_millis(500)).build().unwrap();
        FreshPublisher::new(Arc::new(publisher), Arc::new(endpoint)).with_tombstones()
    }
}

mod http {
    use super::Http;
    semel_testkit::publisher_conformance!(Http);
}
