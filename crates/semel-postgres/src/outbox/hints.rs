//! Hints that something was committed. Everything works without them, by polling.
//!
//! Whoever commits events through a run of this process is heard of at once. With
//! [`PostgresBuilder::outbox_listen`](crate::PostgresBuilder::outbox_listen) other processes are too: a
//! connection listens, and commits of this process are told to the others, many at once and never inside
//! their transactions.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use semel::{Clock, StoreError, outbox::OutboxHints};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    PostgresStore,
    connect::Connection,
    error::Fault,
    link::{Links, Step, Work},
};

/// How often the server is asked whether it is there, and how long it may take to answer: so a
/// connection whose other end is gone is found within twice that.
const ALIVE: Duration = Duration::from_secs(4);

/// The pause before it connects again.
const PAUSE: Duration = Duration::from_secs(1);

/// The pause before the next hint to others.
const TELL_EVERY: Duration = Duration::from_millis(20);

/// Counts of what was heard.
#[derive(Debug)]
pub(crate) struct Hints {
    /// Of whoever was heard of.
    heard: watch::Sender<u64>,
    /// Of commits in this process.
    own: watch::Sender<u64>,
}

impl Default for Hints {
    fn default() -> Self {
        Self { heard: watch::Sender::new(0), own: watch::Sender::new(0) }
    }
}

impl Hints {
    /// Somebody committed events in this process.
    pub(crate) fn committed(&self) {
        self.heard();
        self.own.send_modify(|count| *count += 1);
    }

    /// Somebody committed events, or may have.
    pub(crate) fn heard(&self) {
        self.heard.send_modify(|count| *count += 1);
    }
}

#[async_trait]
impl OutboxHints for PostgresStore {
    /// Tells of commits after the call: of runs in this process, and of all processes that listen as
    /// this one does.
    async fn hinted(&self, wait: Duration) -> Result<bool, StoreError> {
        let mut heard = self.hints.heard.subscribe();
        let clock = &self.links.clock;
        let until = clock.monotonic().after(wait);
        tokio::select! {
            biased;
            changed = heard.changed() => Ok(changed.is_ok()),
            () = clock.sleep_until(until) => Ok(false),
        }
    }
}

/// Listens, and tells others, until the store is gone.
pub(crate) fn start(
    links: &Arc<Links>,
    hints: &Arc<Hints>,
    tasks: &TaskTracker,
    ended: &CancellationToken,
) {
    let listens = listen(Arc::clone(links), Arc::clone(hints));
    let tells = tell(Arc::clone(links), hints.own.subscribe());
    drop(tasks.spawn(ended.clone().run_until_cancelled_owned(listens)));
    drop(tasks.spawn(ended.clone().run_until_cancelled_owned(tells)));
}

/// Keeps a connection that listens.
async fn listen(links: Arc<Links>, hints: Arc<Hints>) {
    loop {
        match links.connector.listening(&links.statements, &hints).await {
            Ok(connection) => {
                // What was committed until it listened was told to nobody.
                hints.heard();
                stay(&connection, &links).await;
                connection.end();
            }
            Err(error) => tracing::debug!(%error, "nobody listens for hints; polling goes on"),
        }
        links.clock.sleep_until(links.clock.monotonic().after(PAUSE)).await;
    }
}

/// Returns once the connection is of no use.
async fn stay(connection: &Connection, links: &Links) {
    loop {
        links.clock.sleep_until(links.clock.monotonic().after(ALIVE)).await;
        let alive = connection.client.batch_execute(&links.statements.outbox_alive);
        if !matches!(tokio::time::timeout(ALIVE, alive).await, Ok(Ok(()))) {
            return;
        }
    }
}

/// Tells others of commits in this process: of all that came meanwhile at once.
async fn tell(links: Arc<Links>, mut own: watch::Receiver<u64>) {
    while own.changed().await.is_ok() {
        own.mark_unchanged();
        if let Err(error) = links.run(&Tell).await {
            tracing::debug!(%error, "a hint was not told; polling finds what it would have told of");
        }
        links.clock.sleep_until(links.clock.monotonic().after(TELL_EVERY)).await;
    }
}

struct Tell;

impl Work for Tell {
    type Done = ();

    async fn run(&self, step: Step<'_>) -> Result<(), Fault> {
        Ok(step.client().batch_execute(&step.statements().outbox_hint).await?)
    }
}
