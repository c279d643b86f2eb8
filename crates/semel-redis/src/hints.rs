//! Hints at the ends of runs, by publish and subscribe.
//!
//! Whoever waits for a run asks to be told by a mark beside its record, which names a channel; the step that ends the
//! run says so there, if it finds the mark. So a run for which nobody waits costs no message. One connection in each
//! process listens, as long as somebody there waits. What is not heard is found by polling.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use redis::{PushInfo, PushKind, Value, aio::MultiplexedConnection, cmd};
use semel::{
    IntentId, StoreError,
    store::{
        Reading,
        capability::{Hint, Notify},
        within_batch,
    },
};
use tokio::sync::{Notify as Signal, broadcast};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{RedisStore, connect::Connector, error::Fault, space};

/// How many hints whoever takes them may be behind.
const BEHIND_MAX: usize = 1_024;
/// How long a mark stays.
pub(crate) const WATCHED_MILLIS: u32 = 120_000;
/// How often a connection that hears nothing is asked whether it is still there.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// How often it is asked, or made anew, without any wish meanwhile, before it is given up. Wishes are renewed sooner.
const QUIET_MAX: u32 = 12;
/// The shortest and the longest pause before a connection is made anew.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(5)];

/// Who listens, and who is told.
#[derive(Debug)]
pub(crate) struct Hints {
    pub(crate) channel: Box<str>,
    told: broadcast::Sender<Hint>,
    listener: Arc<Mutex<Listener>>,
    tasks: TaskTracker,
    /// Ends the task with the store.
    ended: DropGuard,
}

#[derive(Debug, Default)]
struct Listener {
    is_running: bool,
    /// How often it turned since somebody wished to hear something.
    quiet: u32,
}

impl Hints {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            channel: format!("{prefix}:ended").into(),
            told: broadcast::Sender::new(BEHIND_MAX),
            listener: Arc::default(),
            tasks: TaskTracker::new(),
            ended: CancellationToken::new().drop_guard(),
        }
    }

    /// Listens from now on, for as long as there are wishes.
    fn listen(&self, connector: &Arc<Connector>) {
        let mut listener = lock(&self.listener);
        listener.quiet = 0;
        if !listener.is_running {
            listener.is_running = true;
            let ended = self.ended.token().clone();
            let listening = Listening {
                connector: Arc::clone(connector),
                channel: self.channel.clone(),
                told: self.told.clone(),
                listener: Arc::clone(&self.listener),
            };
            self.tasks.spawn(async move { ended.run_until_cancelled(listening.run()).await });
        }
    }
}

fn lock(listener: &Mutex<Listener>) -> MutexGuard<'_, Listener> {
    listener.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The task that listens.
struct Listening {
    connector: Arc<Connector>,
    channel: Box<str>,
    told: broadcast::Sender<Hint>,
    listener: Arc<Mutex<Listener>>,
}

impl Listening {
    async fn run(self) {
        let [shortest, longest] = PAUSES;
        let mut pause = shortest;
        loop {
            let is_over = match self.once().await {
                Ok(is_over) => {
                    pause = shortest;
                    is_over
                }
                Err(fault) => {
                    let error = &fault.error;
                    tracing::debug!(%error, "nobody listens for hints; polling goes on");
                    self.is_over()
                }
            };
            if is_over {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Listens until nobody wishes it any more, which it tells, or the connection breaks.
    async fn once(&self) -> Result<bool, Fault> {
        let gone = Arc::new(Signal::new());
        let told = {
            let (gone, told) = (Arc::clone(&gone), self.told.clone());
            move |push| {
                heard(push, &told, &gone);
                Ok::<(), redis::aio::SendError>(())
            }
        };
        let mut connection = self.connector.listening(told).await?;
        connection.subscribe(&*self.channel).await?;
        // What ended before was not heard.
        self.told.send(Hint::Missed).ok();
        loop {
            tokio::select! {
                () = gone.notified() => return Ok(false),
                () = tokio::time::sleep(ASK_EVERY) => is_there(&mut connection).await?,
            }
            if self.is_over() {
                return Ok(true);
            }
        }
    }

    /// Turns once more, unless nobody wished to hear anything for long: then the task must end.
    fn is_over(&self) -> bool {
        let mut listener = lock(&self.listener);
        listener.quiet += 1;
        listener.is_running = listener.quiet <= QUIET_MAX;
        !listener.is_running
    }
}

async fn is_there(connection: &mut MultiplexedConnection) -> Result<(), Fault> {
    connection.send_packed_command(&cmd("PING")).await?.extract_error()?;
    Ok(())
}

/// Passes on what was published.
fn heard(push: PushInfo, told: &broadcast::Sender<Hint>, gone: &Signal) {
    match push.kind {
        PushKind::Disconnection => gone.notify_one(),
        PushKind::Message => {
            // Somebody else may publish there too.
            let name = match push.data.into_iter().nth(1) {
                Some(Value::BulkString(name)) => space::id(&name).ok(),
                _ => None,
            };
            if let Some(id) = name {
                told.send(Hint::Ended(id)).ok();
            }
        }
        _ => {}
    }
}

#[async_trait]
impl Notify for RedisStore {
    fn hints(&self) -> broadcast::Receiver<Hint> {
        self.hints.told.subscribe()
    }

    async fn watch(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError> {
        within_batch(ids.len())?;
        self.hints.listen(&self.link.connector);
        self.reading(&ids, true).await
    }
}
