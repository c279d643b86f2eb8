//! Connections to whoever is the primary, and what is said on them.
//!
//! A connection carries the questions of many callers at once. It is made when it is needed, and dropped when it
//! breaks, falls silent, or turns out to lead to a replica. The driver repeats nothing by itself; what is repeated
//! here is what was certainly not done. A caller that is told that nobody knows asks again by its token.
//!
//! Answers come in the order of the questions, and nothing else says whose they are: were one lost on the way and the
//! connection alive, all who ask after it would be given the answers of others. So each call sends a number that
//! comes back with its answer. A connection on which another comes back is given up.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::{
        Arc, PoisonError, RwLock,
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
use semel::{StoreError, StoreErrorKind, Timestamp};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    connect::Connector,
    error::{Fault, Next, invalid, odd, unavailable},
    scripts::Script,
    settings::Verdict,
    space::Space,
    wait::Wait,
};

/// How long is waited before what was certainly not done is asked again, in milliseconds.
const PAUSES: [u64; 9] = [1, 5, 10, 20, 50, 100, 200, 300, 300];

/// All connections of a store.
pub(crate) struct Link {
    pub(crate) connector: Arc<Connector>,
    pub(crate) space: Space,
    pub(crate) wait: Wait,
    /// What is said behind a script.
    waits: Vec<Cmd>,
    /// The number of the last call. Where it begins no other process does, whoever carries the calls of both.
    calls: AtomicU64,
    lines: Vec<Line>,
    next: AtomicUsize,
}

/// A connection, while there is one.
#[derive(Debug, Default)]
struct Line {
    live: Mutex<Option<Made>>,
    made: AtomicU64,
    failed: AtomicU64,
}

/// A connection that was made.
#[derive(Clone, Debug)]
struct Made {
    number: u64,
    live: Live,
    /// Tells all who wait for answers on it that theirs will not come.
    mixed: CancellationToken,
    /// Why nothing new is granted on it: whoever is behind it may lose what it acknowledges. What runs is ended.
    refused: Arc<RwLock<Option<&'static str>>>,
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

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (wait, lines) = (&self.wait, &self.lines);
        f.debug_struct("Link").field("wait", wait).field("lines", lines).finish_non_exhaustive()
    }
}

/// The number of a call.
type Call = [u8; 8];

/// What is said behind something, in one go.
#[derive(Debug)]
enum Behind {
    /// Something that reads, or nothing, and the number of the call.
    Echo(Option<Cmd>),
    /// What is waited for behind a script, which may grant something. The number comes back from the script.
    Waits { grants: bool },
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
        lines[0].live = Mutex::new(Some(Made::new(0, first, None)));
        let calls = AtomicU64::new(RandomState::new().build_hasher().finish());
        let (waits, next) = (wait.commands(), AtomicUsize::new(0));
        Self { connector, space, wait, waits, calls, lines, next }
    }

    /// Runs a script in a bucket that answers with several things, and grants nothing.
    pub(crate) async fn run(
        &self,
        bucket: usize,
        script: &Script,
        keys: &[Vec<u8>],
        args: &[&[u8]],
    ) -> Result<Vec<Value>, Fault> {
        match self.tell(bucket, script, keys, args, false).await? {
            Value::Array(values) => Ok(values),
            _ => Err(odd()),
        }
    }

    /// Runs a script in a bucket; one that grants something not on a server that may lose it.
    pub(crate) async fn tell(
        &self,
        bucket: usize,
        script: &Script,
        keys: &[Vec<u8>],
        args: &[&[u8]],
        grants: bool,
    ) -> Result<Value, Fault> {
        let said = |whole, call: Call| {
            let script = if whole { ("EVAL", &script.text) } else { ("EVALSHA", &script.digest) };
            let parts = keys.iter().map(Vec::len).chain(args.iter().map(|arg| arg.len()));
            let mut said =
                Cmd::with_capacity(4 + keys.len() + args.len(), 80 + parts.sum::<usize>());
            said.arg(script.0).arg(&**script.1).arg(keys.len());
            said.arg(keys).arg(args).arg(&call);
            said
        };
        let (told, _) = self.ask(bucket, said, &Behind::Waits { grants }).await?;
        match told {
            Value::Array(mut told) if told.len() == 2 => Ok(told.pop().unwrap_or(Value::Nil)),
            _ => Err(odd()),
        }
    }

    /// Says a command that reads in a bucket; nothing is waited for behind it.
    pub(crate) async fn look(&self, bucket: usize, said: &Cmd) -> Result<Value, Fault> {
        let (told, _) = self.ask(bucket, |_, _| said.clone(), &Behind::Echo(None)).await?;
        Ok(told)
    }

    /// Looks again at what the servers are set to, on a connection of its own: those that are there may be busy with
    /// waiting. Where they may lose by now what they acknowledge, nothing new is granted, by a sentence that says what
    /// to set, until it is.
    pub(crate) async fn look_again(&self) -> Result<(), Fault> {
        // Whoever asks for something finds out about a server that does not answer.
        let Ok((_, verdict)) = self.connector.connect().await else { return Ok(()) };
        for line in &self.lines {
            if let Some(made) = &*line.live.lock().await {
                made.is_judged(verdict);
            }
        }
        verdict.refusal().map_or(Ok(()), |what_to_set| Err(invalid(what_to_set).into()))
    }

    /// Says a command that reads in a bucket, and asks for the server's time behind it.
    pub(crate) async fn look_timed(
        &self,
        bucket: usize,
        said: &Cmd,
    ) -> Result<(Value, Timestamp), Fault> {
        let time = Behind::Echo(Some(cmd("TIME")));
        let (told, behind) = self.ask(bucket, |_, _| said.clone(), &time).await?;
        let time = behind.into_iter().next().ok_or_else(odd)?.extract_error()?;
        let (seconds, micros): (u64, u64) = redis::from_redis_value(time).map_err(|_| odd())?;
        Ok((told, Timestamp::from_micros(seconds * 1_000_000 + micros)))
    }

    /// Says something until it is answered, or the answer is one that passes by no waiting. Returns the answer, and
    /// those to what was said behind it.
    async fn ask(
        &self,
        bucket: usize,
        said: impl Fn(bool, Call) -> Cmd,
        behind: &Behind,
    ) -> Result<(Value, Vec<Value>), Fault> {
        let slot = self.space.bucket(bucket).slot;
        let (mut whole, mut is_unsure) = (false, false);
        let mut node: Option<(String, u16)> = None;
        let mut pauses = PAUSES.iter();
        loop {
            let to = match &node {
                Some((host, port)) => To::Node(host, *port),
                None => To::Bucket(slot),
            };
            let call = self.calls.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            let fault = match self.once(to, said(whole, call), call, behind).await {
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

    async fn once(
        &self,
        to: To<'_>,
        said: Cmd,
        call: Call,
        behind: &Behind,
    ) -> Result<(Value, Vec<Value>), Fault> {
        let line = &self.lines[self.next.fetch_add(1, Ordering::Relaxed) % self.lines.len()];
        let made = line.live(&self.connector).await?;
        if matches!(behind, Behind::Waits { grants: true }) {
            made.may_grant()?;
        }
        let Made { number, live, mixed, .. } = made;
        let echoed;
        let more: &[Cmd] = match behind {
            Behind::Echo(between) => {
                let echo = cmd("ECHO").arg(&call).take();
                echoed = between.iter().cloned().chain([echo]).collect::<Vec<_>>();
                &echoed
            }
            Behind::Waits { .. } => &self.waits,
        };
        let said = live.say(to, said, more);
        let answered = mixed.run_until_cancelled(said).await.unwrap_or_else(|| Err(mixed_up()));
        // Which of several commands was refused is not told: what names no key is sent elsewhere by the node's state
        // alone, and may come behind a script that ran.
        let is_doubtful = |fault: &Fault| {
            !matches!(behind, Behind::Echo(_)) && !more.is_empty() && fault.next == Next::Elsewhere
        };
        let answered =
            answered.map_err(|fault| if is_doubtful(&fault) { fault.unsure() } else { fault });
        let answered = answered.and_then(|(first, rest)| {
            let first = first.extract_error()?;
            match behind {
                Behind::Echo(_) => is_of(call, rest.last())?,
                Behind::Waits { .. } => {
                    let Value::Array(signed) = &first else { return Err(mixed_up()) };
                    is_of(call, signed.first())?;
                    self.wait.judge(&rest).map_err(Fault::unsure)?;
                }
            }
            Ok((first, rest))
        });
        if let Err(fault) = &answered
            && matches!(fault.next, Next::Elsewhere | Next::GiveUp | Next::Reconnect)
        {
            line.drop(number).await;
            if fault.next == Next::GiveUp {
                mixed.cancel();
            }
        }
        answered
    }
}

impl Made {
    fn new(number: u64, live: Live, refused: Option<&'static str>) -> Self {
        let refused = Arc::new(RwLock::new(refused));
        Self { number, live, mixed: CancellationToken::new(), refused }
    }

    fn is_judged(&self, verdict: Verdict) {
        *self.refused.write().unwrap_or_else(PoisonError::into_inner) = verdict.refusal();
    }

    fn may_grant(&self) -> Result<(), Fault> {
        let refused = *self.refused.read().unwrap_or_else(PoisonError::into_inner);
        refused.map_or(Ok(()), |what_to_set| {
            let error = StoreError::new(StoreErrorKind::ReadOnly, what_to_set);
            Err(Fault { error, next: Next::GrantNothing })
        })
    }
}

impl Line {
    /// Returns the connection; makes one if there is none. Those who wait while one is tried
    /// for share its failure.
    async fn live(&self, connector: &Connector) -> Result<Made, Fault> {
        let failed = self.failed.load(Ordering::Acquire);
        let mut live = self.live.lock().await;
        if let Some(made) = &*live {
            return Ok(made.clone());
        }
        if self.failed.load(Ordering::Acquire) != failed {
            return Err(unavailable("the server cannot be reached").into());
        }
        // Seldom and large: whoever has a connection carries it not along.
        match Box::pin(connector.connect()).await {
            Ok((made, verdict)) => {
                let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
                Ok(live.insert(Made::new(number, made, verdict.refusal())).clone())
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
        if live.as_ref().is_some_and(|made| made.number == number) {
            *live = None;
        }
    }
}

impl Live {
    /// Says something, and more behind it. Returns the first answer, and the others.
    async fn say(self, to: To<'_>, said: Cmd, more: &[Cmd]) -> Result<(Value, Vec<Value>), Fault> {
        let count = 1 + more.len();
        let mut told = match (self, to) {
            (Self::One(mut connection), _) if more.is_empty() => {
                return Ok((connection.send_packed_command(&said).await?, Vec::new()));
            }
            (Self::One(mut connection), _) => {
                let said = pipeline([said].into_iter().chain(more.iter().cloned()));
                connection.send_packed_commands(&said, 0, count).await?
            }
            (Self::Cluster(mut cluster), To::Bucket(slot)) => {
                let said = pipeline([said].into_iter().chain(more.iter().cloned()));
                let route = SingleNodeRoutingInfo::SpecificNode(Route::new(slot, SlotAddr::Master));
                cluster.route_pipeline(said, 0, count, route).await?
            }
            (Self::Cluster(mut cluster), To::Node(host, port)) => {
                let said = [cmd("ASKING"), said].into_iter().chain(more.iter().cloned());
                let route = SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port };
                cluster.route_pipeline(pipeline(said), 1, count, route).await?
            }
        };
        if told.is_empty() {
            return Err(odd());
        }
        let first = told.remove(0);
        Ok((first, told))
    }
}

/// Refuses an answer that is another call's.
fn is_of(call: Call, told: Option<&Value>) -> Result<(), Fault> {
    match told {
        Some(Value::BulkString(told)) if *told == call => Ok(()),
        _ => Err(mixed_up()),
    }
}

/// An answer is not that of its call, so that nobody knows what becomes of any on this connection.
fn mixed_up() -> Fault {
    let message = "the answers on a connection came in another order than the questions; nobody knows whether the \
                   server did what was asked";
    Fault { error: unavailable(message), next: Next::GiveUp }
}

fn pipeline(said: impl Iterator<Item = Cmd>) -> Pipeline {
    let mut pipeline = Pipeline::new();
    said.for_each(|said| {
        pipeline.add_command(said);
    });
    pipeline
}
