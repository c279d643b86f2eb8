//! A bridge that says busy while a test plays the open transaction of an application.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use semel::{
    IntentId, StoreError,
    store::capability::{Bridge, Looked},
};
use tokio::sync::watch;

use crate::http::PATIENCE;

/// Wraps a bridge; while it is held every look is busy.
#[derive(Debug)]
pub struct HeldBridge {
    bridge: Arc<dyn Bridge>,
    held: AtomicBool,
    fails: AtomicUsize,
    looks: watch::Sender<usize>,
}

impl HeldBridge {
    /// Wraps a bridge that nobody holds yet.
    #[must_use]
    pub fn over(bridge: Arc<dyn Bridge>) -> Arc<Self> {
        Arc::new(Self {
            bridge,
            held: AtomicBool::new(false),
            fails: AtomicUsize::new(0),
            looks: watch::Sender::new(0),
        })
    }

    /// Begins the transaction of an application, or ends it.
    pub fn hold(&self, held: bool) {
        self.held.store(held, Ordering::SeqCst);
    }

    /// Lets the next looks fail as if the store were away.
    pub fn fail(&self, looks: usize) {
        self.fails.store(looks, Ordering::SeqCst);
    }

    /// Waits until it was looked through at least `count` times; not for long, so that a test in which
    /// nobody looks fails.
    pub async fn looked(&self, count: usize) {
        let mut looks = self.looks.subscribe();
        let enough = tokio::time::timeout(PATIENCE, looks.wait_for(|now| *now >= count)).await;
        drop(enough.expect("the bridge is looked through in time"));
    }
}

#[async_trait]
impl Bridge for HeldBridge {
    async fn look(&self, id: IntentId) -> Result<Looked, StoreError> {
        let failing =
            self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        let looked = if failing.is_ok() {
            Err(crate::faults::lost())
        } else if self.held.load(Ordering::SeqCst) {
            Ok(Looked::Busy)
        } else {
            self.bridge.look(id).await
        };
        self.looks.send_modify(|count| *count += 1);
        looked
    }
}
