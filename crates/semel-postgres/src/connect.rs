//! Connections of Semel's own: to the first host that can be written to.

use std::{
    error::Error,
    future::poll_fn,
    iter::successors,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::{Either, select};
use semel::{StoreError, StoreErrorKind as Kind};
use tokio::task::AbortHandle;
use tokio_postgres::{AsyncMessage, CancelToken, Client, Config, types::Type};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::{
    address::{Address, Host},
    error::{Fault, invalid, read_only},
    names::Param,
    outbox::Hints,
    queries::Statements,
    tls::Tls,
    value::Cells,
};

/// The oldest server whose SQL suffices.
const VERSION_MIN: i64 = 130_000;

/// How long it may take to have a statement stopped.
const STOP: Duration = Duration::from_secs(2);

/// Opens connections.
#[derive(Debug)]
pub(crate) struct Connector {
    address: Address,
    tls: Tls,
    tasks: TaskTracker,
    /// The host that was connected to last.
    last: AtomicUsize,
}

/// One connection, and the task that moves its bytes.
pub(crate) struct Connection {
    pub(crate) client: Client,
    task: AbortHandle,
    address: Box<Config>,
    canceller: CancelToken,
    tls: Tls,
    tasks: TaskTracker,
    /// Whether the server keeps what it acknowledges through a power cut.
    pub(crate) durable: bool,
    /// Whether a statement by itself sees what was committed before it began.
    pub(crate) read_committed: bool,
}

impl Connector {
    pub(crate) fn new(address: Address, tasks: TaskTracker) -> Result<Self, StoreError> {
        let tls = Tls::new(address.ssl_mode, &address.files)?;
        Ok(Self { address, tls, tasks, last: AtomicUsize::new(0) })
    }

    /// Connects to a host that can be written to: the last that could, else the first that can.
    pub(crate) async fn connect(&self, statements: &Statements) -> Result<Connection, StoreError> {
        self.connect_for(statements, None).await
    }

    async fn connect_for(
        &self,
        statements: &Statements,
        hints: Option<&Arc<Hints>>,
    ) -> Result<Connection, StoreError> {
        let hosts = &self.address.hosts;
        let begin = self.last.load(Ordering::Relaxed);
        let mut last = None;
        for at in (begin..hosts.len()).chain(0..begin) {
            let one = self.host(&hosts[at], statements, hints);
            // Looking at the session takes one answer more than connecting.
            match tokio::time::timeout(self.address.connect.saturating_mul(2), one).await {
                Ok(Ok(connection)) => {
                    self.last.store(at, Ordering::Relaxed);
                    return Ok(connection);
                }
                Ok(Err(error)) => last = worse(last, error),
                Err(_) => last = worse(last, silent(&hosts[at])),
            }
        }
        Err(last.unwrap_or_else(|| invalid("the PostgreSQL URL names no host")))
    }

    /// Makes a connection that is told of hints.
    pub(crate) async fn listening(
        &self,
        statements: &Statements,
        hints: &Arc<Hints>,
    ) -> Result<Connection, StoreError> {
        let connection = self.connect_for(statements, Some(hints)).await?;
        let listens = connection.client.batch_execute(&statements.outbox_listen).await;
        listens.map_err(Fault::from)?;
        Ok(connection)
    }

    async fn host(
        &self,
        host: &Host,
        statements: &Statements,
        hints: Option<&Arc<Hints>>,
    ) -> Result<Connection, StoreError> {
        let connected = host.config.connect(self.tls.0.clone()).await;
        let (client, mut moving) = connected.map_err(|error| unconnected(host, error))?;
        let hints = hints.cloned();
        // Until the server has answered: it may never do so.
        let task = AbortOnDropHandle::new(self.tasks.spawn(async move {
            while let Some(message) = poll_fn(|context| moving.poll_message(context)).await {
                match (message, &hints) {
                    (Ok(AsyncMessage::Notification(_)), Some(hints)) => hints.heard(),
                    (Ok(_), _) => {}
                    (Err(error), _) => {
                        // Whoever waits for an answer is told of it too.
                        let error = &error as &dyn Error;
                        tracing::debug!(error, "a connection ended");
                        return;
                    }
                }
            }
        }));
        let canceller = client.cancel_token();
        let mut connection = Connection {
            client,
            task: task.abort_handle(),
            address: Box::new(host.config.clone()),
            canceller,
            tls: self.tls.clone(),
            tasks: self.tasks.clone(),
            durable: false,
            read_committed: false,
        };
        connection.look(statements).await?;
        drop(task.detach());
        Ok(connection)
    }
}

impl Connection {
    /// Looks at what the server lets this session do, once all that it shows is safe.
    async fn look(&mut self, statements: &Statements) -> Result<(), StoreError> {
        let rows = self.client.query_typed(&statements.session_look, &[]).await;
        let rows = rows.map_err(Fault::from)?;
        let row = rows.first().ok_or_else(|| invalid("the server answers no query"))?;
        if row.bigint(0)?.is_none_or(|version| version < VERSION_MIN) {
            return Err(invalid("the server is older than PostgreSQL 13; upgrade it"));
        }
        if row.truth(1)? == Some(true) {
            return Err(read_only());
        }
        self.durable = row.truth(2)? == Some(true);
        self.read_committed = row.truth(3)? == Some(true);
        Ok(())
    }

    /// Ends the connection at once.
    pub(crate) fn end(self) {
        self.task.abort();
    }

    /// Ends a connection whose server has not answered a statement for a while, and asks the server to
    /// stop what it still does for it, such as to wait for a lock.
    ///
    /// A commit that waits for a standby must not be stopped: PostgreSQL would then let all see it that
    /// the standby does not have, and what is seen is acknowledged to whoever asks again.
    pub(crate) fn stop(self, statements: &Arc<Statements>, silent_for: Duration) {
        self.task.abort();
        let (address, canceller, tls) = (self.address, self.canceller, self.tls.0);
        let statements = Arc::clone(statements);
        self.tasks.spawn(async move {
            let stopped = async {
                let (client, moving) = address.connect(tls.clone()).await?;
                let silent_ms = i64::try_from(silent_for.as_millis() / 2).unwrap_or(i64::MAX);
                let params: [Param<'_>; 1] = [(&silent_ms, Type::INT8)];
                let asked = pin!(client.query_typed(&statements.session_stoppable, &params));
                let Either::Left((rows, _moving)) = select(asked, moving).await else {
                    return Ok(());
                };
                let may = rows?.first().map(|row| row.try_get(0)).transpose()?;
                if may == Some(true) {
                    canceller.cancel_query(tls).await?;
                }
                Ok::<_, tokio_postgres::Error>(())
            };
            // Nobody waits for it: the server notices the end of the connection later by itself.
            drop(tokio::time::timeout(STOP, stopped).await);
        });
    }
}

/// Of two hosts that failed, one that answered says more than one that is away.
fn worse(last: Option<StoreError>, next: StoreError) -> Option<StoreError> {
    match last {
        Some(last) if answered(&last) => Some(last),
        _ => Some(next),
    }
}

fn answered(error: &StoreError) -> bool {
    let said = error.source().and_then(|source| source.downcast_ref::<Fault>());
    error.kind() != Kind::Unavailable || said.is_some_and(|fault| fault.sqlstate().is_some())
}

fn silent(host: &Host) -> StoreError {
    let message = format!(
        "the server at {} does not answer; look whether it runs, and the standbys that its commits wait \
         for",
        host.told
    );
    StoreError::new(Kind::Unavailable, message)
}

fn unconnected(host: &Host, error: tokio_postgres::Error) -> StoreError {
    let fault = Fault::from(error);
    let told = &host.told;
    let message = match fault.sqlstate().as_deref() {
        Some("28000" | "28P01") => format!("the server at {told} refuses the user or the password"),
        Some("3D000") => format!("the server at {told} has no such database; create it"),
        Some("53300") => format!("the server at {told} has no connection left; raise its limit"),
        Some(_) => format!("the server at {told} refuses the connection for now"),
        None if is_of_the_network(&fault) => {
            format!("cannot connect to the server at {told}; look whether it runs")
        }
        None => format!(
            "the server at {told} asks for what the URL does not give, such as a password or TLS"
        ),
    };
    StoreError::new(Kind::Unavailable, message).with_source(fault)
}

fn is_of_the_network(fault: &Fault) -> bool {
    if matches!(fault, Fault::Postgres(error) if error.is_closed()) {
        return true;
    }
    let mut causes = successors(Some(fault as &dyn Error), |&error| error.source());
    causes.any(|cause| cause.is::<std::io::Error>())
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("durable", &self.durable).finish_non_exhaustive()
    }
}
