//! Connections to whoever is the primary, and what is said on them.
//!
//! A connection carries the questions of many callers at once. It is made when it is needed, and dropped when it
//! breaks, falls silent, or turns out to lead to a replica. The driver repeats nothing by itself; what is repeated
//! here is what was certainly not done. A caller that is told that nobody knows asks again by its token.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use redis::{
    Cmd, Pipeline, Value,
    aio::MultiplexedConnection,
    cluster_async::ClusterConnection,
    cluster_routing::{Route, SingleNodeRoutingInfo, SlotAddr},
    cmd,
};
use semel::StoreErrorKind;
use tokio::sync::Mutex;

use crate::{
    connect::Connector,
    error::{Fault, Next, odd, unavailable},
    scripts::Script,
    space::Space,
    wait::Wait,
};

/// How long is waited before what was certainly not done is asked again, in milliseconds.
const PAUSES: [u64; 9] = [1, 5, 10, 20, 50, 100, 200, 300, 300];

/// All connections of a store.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) connector: Arc<Connector>,
    pub(crate) space: Space,
    pub(crate) wait: Wait,
    lines: Vec<Line>,
    next: AtomicUsize,
}

/// A connection, while there is one.
#[derive(Debug, Default)]
struct Line {
    live: Mutex<Option<(u64, Live)>>,
    made: AtomicU64,
    failed: AtomicU64,
}

/// A connection that is shared by whoever has something to say.
#[derive(Clone)]
pub(crate) enum Live {
    Cluster(ClusterConnection),
    One(MultiplexedConnection),
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cluster(_) => "Cluster",
            Self::One(_) => "One",
        })
    }
}

/// Where something is said.
#[derive(Clone, Copy, Debug)]
pub(crate) enum To<'a> {
    /// To whoever has a bucket.
    Bucket(u16),
    /// To this node of the cluster, which has the bucket almost.
    Node(&'a str, u16),
}

impl Link {
    pub(crate) fn new(
        connector: Arc<Connector>,
        space: Space,
        wait: Wait,
        lines: usize,
        first: Live,
    ) -> Self {
        let mut lines: Vec<_> = (0..lines.max(1)).map(|_| Line::default()).collect();
        lines[0].live = Mutex::new(Some((0, first)));
        Self { connector, space, wait, lines, next: AtomicUsize::new(0) }
    }

    /// What scripts are told of whether answers are waited for.
    pub(crate) fn waits(&self) -> &'static [u8] {
        if self.wait.is_wanted() { b"1" } else { b"0" }
    }

    /// Runs a script in a bucket.
    pub(crate) async fn run(
        &self,
        bucket: usize,
        script: &Script,
        keys: &[Vec<u8>],
        args: &[&[u8]],
    ) -> Result<Vec<Value>, Fault> {
        let said = |whole| {
            let script = if whole { ("EVAL", &script.text) } else { ("EVALSHA", &script.digest) };
            let parts = keys.iter().map(Vec::len).chain(args.iter().map(|arg| arg.len()));
            let mut said =
                Cmd::with_capacity(3 + keys.len() + args.len(), 64 + parts.sum::<usize>());
            said.arg(script.0).arg(&**script.1).arg(keys.len());
            said.arg(keys).arg(args);
            said
        };
        match self.ask(bucket, said, true).await? {
            Value::Array(values) => Ok(values),
            _ => Err(odd()),
        }
    }

    /// Says a command that reads in a bucket; nothing is waited for behind it.
    pub(crate) async fn look(&self, bucket: usize, said: &Cmd) -> Result<Value, Fault> {
        self.ask(bucket, |_| said.clone(), false).await
    }

    /// Looks again at what the servers are set to. Where they may lose by now what they acknowledge, the connections
    /// are given up: whoever asks next is refused by a sentence that says what to set, until it is.
    pub(crate) async fn look_again(&self) -> Result<(), Fault> {
        let (_, live) = self.lines[0].live(&self.connector).await?;
        match self.connector.judge(live).await {
            Err(fault) if fault.error.kind() == StoreErrorKind::Invalid => {
                for line in &self.lines {
                    *line.live.lock().await = None;
                }
                Err(fault)
            }
            // Whoever asks for something finds out about the rest.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Says something until it is answered, or the answer is one that passes by no waiting.
    async fn ask(
        &self,
        bucket: usize,
        said: impl Fn(bool) -> Cmd,
        waits: bool,
    ) -> Result<Value, Fault> {
        let slot = self.space.bucket(bucket).slot;
        let (mut whole, mut is_unsure) = (false, false);
        let mut node: Option<(String, u16)> = None;
        let mut pauses = PAUSES.iter();
        loop {
            let to = match &node {
                Some((host, port)) => To::Node(host, *port),
                None => To::Bucket(slot),
            };
            let fault = match self.once(to, said(whole), waits).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            is_unsure |= !fault.error.kind().is_definite();
            let pause = pauses.next();
            node = match (&fault.next, pause) {
                (Next::Load, _) if !whole => {
                    whole = true;
                    None
                }
                (Next::Ask(host, port), Some(_)) => Some((host.clone(), *port)),
                (Next::Again | Next::Elsewhere, Some(pause)) => {
                    tokio::time::sleep(Duration::from_millis(*pause)).await;
                    None
                }
                _ if is_unsure => return Err(fault.unsure()),
                _ => return Err(fault),
            };
        }
    }

    async fn once(&self, to: To<'_>, said: Cmd, waits: bool) -> Result<Value, Fault> {
        let line = &self.lines[self.next.fetch_add(1, Ordering::Relaxed) % self.lines.len()];
        let (number, live) = line.live(&self.connector).await?;
        let behind = if waits { self.wait.commands() } else { Vec::new() };
        let count = 1 + behind.len();
        let answered = live.say(to, said, behind).await;
        // Which of several commands was refused is not told: what names no key is sent elsewhere by the node's state
        // alone, and may come behind a script that ran.
        let is_doubtful = |fault: &Fault| count > 1 && fault.next == Next::Elsewhere;
        let answered =
            answered.map_err(|fault| if is_doubtful(&fault) { fault.unsure() } else { fault });
        let answered = answered.and_then(|values| {
            let mut values = values.into_iter();
            let first = values.next().ok_or_else(odd)?.extract_error()?;
            self.wait.judge(values.collect()).map_err(Fault::unsure)?;
            Ok(first)
        });
        if let Err(fault) = &answered
            && matches!(fault.next, Next::Elsewhere | Next::Reconnect)
        {
            line.drop(number).await;
        }
        answered
    }
}

impl Line {
    /// Returns the connection, and its number; makes one if there is none. Those who wait while one is tried
    /// for share its failure.
    async fn live(&self, connector: &Connector) -> Result<(u64, Live), Fault> {
        let failed = self.failed.load(Ordering::Acquire);
        let mut live = self.live.lock().await;
        if let Some((number, live)) = &*live {
            return Ok((*number, live.clone()));
        }
        if self.failed.load(Ordering::Acquire) != failed {
            return Err(unavailable("the server cannot be reached").into());
        }
        match connector.connect().await {
            Ok((made, _)) => {
                let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
                *live = Some((number, made.clone()));
                Ok((number, made))
            }
            Err(fault) => {
                self.failed.fetch_add(1, Ordering::Release);
                Err(fault)
            }
        }
    }

    /// Drops a connection, unless another is there by now.
    async fn drop(&self, number: u64) {
        let mut live = self.live.lock().await;
        if live.as_ref().is_some_and(|(current, _)| *current == number) {
            *live = None;
        }
    }
}

impl Live {
    async fn say(self, to: To<'_>, said: Cmd, behind: Vec<Cmd>) -> Result<Vec<Value>, Fault> {
        let count = 1 + behind.len();
        match (self, to) {
            (Self::One(mut connection), _) if behind.is_empty() => {
                Ok(vec![connection.send_packed_command(&said).await?])
            }
            (Self::One(mut connection), _) => {
                let said = pipeline([said].into_iter().chain(behind));
                Ok(connection.send_packed_commands(&said, 0, count).await?)
            }
            (Self::Cluster(mut cluster), To::Bucket(slot)) => {
                let said = pipeline([said].into_iter().chain(behind));
                let route = SingleNodeRoutingInfo::SpecificNode(Route::new(slot, SlotAddr::Master));
                Ok(cluster.route_pipeline(said, 0, count, route).await?)
            }
            (Self::Cluster(mut cluster), To::Node(host, port)) => {
                let asking = pipeline([cmd("ASKING"), said].into_iter().chain(behind));
                let route = SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port };
                Ok(cluster.route_pipeline(asking, 1, count, route).await?)
            }
        }
    }
}

fn pipeline(said: impl Iterator<Item = Cmd>) -> Pipeline {
    let mut pipeline = Pipeline::new();
    said.for_each(|said| {
        pipeline.add_command(said);
    });
    pipeline
}
