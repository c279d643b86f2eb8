//! A gateway in this process, on ports of its own.

use std::{net::SocketAddr, sync::Arc};

use semel::store::capability::{Filter, Inspect};
use semel_gateway::{
    Ended, Gateway, Settings, Shutdown,
    config::StoreUrl,
    settings::{AdminSettings, Protected, UpstreamSettings},
    stores,
};
use semel_http::{Operation, tenant::single_tenant};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::message::{Message, send};

/// A gateway that serves until it is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) shutdown: Shutdown,
    pub(crate) task: Option<JoinHandle<Ended>>,
    /// The store, if it was opened here.
    inspect: Option<Arc<dyn Inspect>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.shutdown.end_now();
    }
}

impl Served {
    pub(crate) async fn new(settings: &Settings) -> Self {
        let opened = stores::open(&settings.store).await.unwrap();
        let inspect = Arc::clone(&opened.inspect);
        let gateway = Self::of(Gateway::with_store(settings, opened).await.unwrap()).await;
        gateway.inspecting(inspect)
    }

    fn inspecting(mut self, inspect: Arc<dyn Inspect>) -> Self {
        self.inspect = Some(inspect);
        self
    }

    /// Returns the reason that is kept with the first record.
    pub(crate) async fn reason(&self) -> String {
        let filter = Filter { limit: 1, ..Filter::default() };
        let records = self.inspect.as_ref().unwrap().list(filter).await.unwrap();
        records[0].reason.as_deref().unwrap_or_default().to_owned()
    }

    pub(crate) async fn of(gateway: Gateway) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let admin = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, admin_address) =
            (listener.local_addr().unwrap(), admin.local_addr().unwrap());
        let shutdown = Shutdown::new();
        let task = tokio::spawn(gateway.serve(listener, Some(admin), shutdown.clone()));
        Self { address, admin: admin_address, shutdown, task: Some(task), inspect: None }
    }

    /// Serves everything from one upstream.
    pub(crate) async fn before(url: &str) -> Self {
        Self::new(&settings(&[("api", url)])).await
    }

    /// Sends one request on a connection of its own.
    pub(crate) async fn send(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Message {
        send(self.address, line, headers, body).await
    }

    /// Sends `POST /pay` with a key.
    pub(crate) async fn pay(&self, key: &str) -> Message {
        self.send("POST /pay", &[("idempotency-key", key)], "{\"amount\":5}").await
    }

    /// Reads one counter of the metrics page.
    pub(crate) async fn metric(&self, line: &str) -> u64 {
        let page = send(self.admin, "GET /metrics", &[], "").await;
        let found = page.text().lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("{line} in {}", page.text())).parse().unwrap()
    }

    /// Waits until a counter has grown to a number.
    pub(crate) async fn until(&self, line: &str, number: u64) {
        let deadline = tokio::time::Instant::now() + crate::message::PATIENCE;
        while self.metric(line).await < number {
            assert!(tokio::time::Instant::now() < deadline, "{line} never reached {number}");
            tokio::task::yield_now().await;
        }
    }

    /// Waits for the end.
    pub(crate) async fn ended(&mut self) -> Ended {
        let task = self.task.take().unwrap();
        tokio::time::timeout(crate::message::PATIENCE, task).await.unwrap().unwrap()
    }
}

/// Settings on the memory store: the first upstream gets every path, and `POST /pay` is protected.
pub(crate) fn settings(upstreams: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::new(StoreUrl::Memory, single_tenant());
    settings.admin = Some(AdminSettings::new("127.0.0.1:0".parse().unwrap()));
    for (index, (name, url)) in upstreams.iter().enumerate() {
        let mut upstream = UpstreamSettings::new(*name, url.parse().unwrap());
        if index == 0 {
            upstream.prefixes = vec!["/".into()];
        }
        settings.upstreams.push(upstream);
    }
    settings.operations = vec![protected("pay", "/pay", None)];
    settings
}

/// An operation on the memory store.
pub(crate) fn protected(name: &str, path: &str, upstream: Option<&str>) -> Protected {
    let policy = semel::Policy { durable: false, ..semel::Policy::default() };
    let operation = Operation::new(name).unwrap().on(http::Method::POST, path).policy(policy);
    Protected { operation, upstream: upstream.map(str::to_owned) }
}
