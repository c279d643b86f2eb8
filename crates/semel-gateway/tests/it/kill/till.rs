//! The upstream: every request makes a row, and rows are what is counted.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

use super::trap::{Phase, Trap};
use crate::message::{Wire, answer};

/// The rows by the key they were made under, each with the body that was answered.
#[derive(Debug, Default)]
pub(super) struct Rows {
    made: Mutex<HashMap<String, Vec<String>>>,
    /// Whether a key that was seen before gets its first answer.
    honours: bool,
}

impl Rows {
    /// Makes a row, or finds it where keys are honoured, and returns the body to answer.
    fn make(&self, key: &str) -> String {
        let mut made = self.made.lock().unwrap();
        let number = made.values().map(Vec::len).sum::<usize>() + 1;
        let rows = made.entry(key.to_owned()).or_default();
        match rows.first().filter(|_| self.honours) {
            Some(first) => first.clone(),
            None => {
                let body = format!("{{\"row\":{number},  \"key\":\"{key}\"}}");
                rows.push(body.clone());
                body
            }
        }
    }

    /// Returns the bodies of all rows of a key.
    pub(super) fn of(&self, key: &str) -> Vec<String> {
        self.made.lock().unwrap().get(key).cloned().unwrap_or_default()
    }

    pub(super) fn count(&self) -> usize {
        self.made.lock().unwrap().values().map(Vec::len).sum()
    }
}

/// The running upstream. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Till {
    pub(super) address: SocketAddr,
    pub(super) rows: Arc<Rows>,
    task: JoinHandle<()>,
}

impl Drop for Till {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Till {
    pub(super) async fn open(honours: bool, trap: &Arc<Trap>) -> Self {
        let rows = Arc::new(Rows { honours, ..Rows::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (trap, kept) = (Arc::clone(trap), Arc::clone(&rows));
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                connections.spawn(serve(Wire::new(tcp), Arc::clone(&kept), Arc::clone(&trap)));
            }
        });
        Self { address, rows, task }
    }
}

/// Serves one connection until the other side is gone, which may be at any moment.
async fn serve(mut wire: Wire<TcpStream>, rows: Arc<Rows>, trap: Arc<Trap>) {
    while let Some(request) = wire.request().await.filter(|request| request.whole) {
        trap.pass(Phase::Arrived).await;
        let body = rows.make(request.header("idempotency-key").expect("the forwarded key"));
        trap.pass(Phase::Made).await;
        let headers = [("content-type", "application/json"), ("location", "/pay/1")];
        if wire.io.write_all(&answer(201, &headers, &body)).await.is_err() {
            return;
        }
        trap.pass(Phase::Answered).await;
    }
}
