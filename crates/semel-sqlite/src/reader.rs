//! Reads, which wait for no writer.
//!
//! A reader sees what is in the write-ahead log up to the last commit, and a commit is shown to
//! readers only after its flush has returned, since every writer of the file runs with
//! `synchronous=FULL`. So whatever a reader sees is durable already, and may be answered at once.
//!
//! A look at a few records runs on the caller's own thread, by a connection that is idle: it takes
//! some microseconds, less than handing it to another thread. Everything longer, and a look that
//! would have to wait, goes through a bounded queue to threads.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use rusqlite::Connection;
use semel::{IntentId, StoreError, StoreErrorKind, Timestamp};
use tokio::sync::oneshot;

use crate::{
    error::{Fault, gone, panicked},
    migrate,
    open::Setting,
    queries,
    queue::{Lane, Queue},
    row::{self, Seen},
    time::Time,
};

/// How many records are looked up on the caller's own thread.
const INLINE_MAX: usize = 16;

/// A read that waits for a thread.
struct Task(Box<dyn FnOnce(&Connection) + Send>);

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}

/// What a look saw.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) seen: Vec<Option<Seen>>,
    pub(crate) now: Timestamp,
}

/// The connections that read.
#[derive(Debug)]
pub(crate) struct Readers {
    idle: Mutex<Vec<Connection>>,
    queue: Arc<Queue<Task>>,
    threads: Vec<thread::JoinHandle<()>>,
    time: Arc<Time>,
}

impl Readers {
    /// Opens `count` connections for callers' threads and as many threads with their own.
    pub(crate) fn start(
        setting: &Setting,
        count: usize,
        queue_max: usize,
        time: Arc<Time>,
    ) -> Result<Self, StoreError> {
        // A caller's thread never waits for a lock; whoever must wait goes to the threads.
        let idle: Result<Vec<_>, _> = (0..count).map(|_| setting.reader(Duration::ZERO)).collect();
        let queue = Arc::new(Queue::<Task>::new(queue_max));
        let mut readers = Self { idle: Mutex::new(idle?), queue, threads: Vec::new(), time };
        for number in 0..count {
            let conn = setting.reader(setting.busy_wait)?;
            let queue = Arc::clone(&readers.queue);
            let thread = thread::Builder::new()
                .name(format!("semel-sqlite-reader-{number}"))
                .spawn(move || serve(&conn, &queue))
                .map_err(|error| gone().with_source(error))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Reads records; the time too, whether or not there is a record, if `timed`.
    pub(crate) async fn look(&self, ids: Vec<IntentId>, timed: bool) -> Result<Look, StoreError> {
        if ids.len() <= INLINE_MAX
            && let Some(idle) = self.idle()
        {
            match look(idle.conn(), &self.time, &ids, timed) {
                Err(error) if error.kind() == StoreErrorKind::Busy => {}
                looked => return looked,
            }
        }
        let time = Arc::clone(&self.time);
        self.ask(move |conn| look(conn, &time, &ids, timed)).await
    }

    /// Has a short read done on this thread; `None` if no connection is idle or the read would have to
    /// wait, so that a thread is to be asked.
    pub(crate) fn glance<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Option<Result<T, StoreError>> {
        let idle = self.idle()?;
        match read(idle.conn()) {
            Err(error) if error.kind() == StoreErrorKind::Busy => None,
            read => Some(read),
        }
    }

    /// Has a thread read.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let task = Box::new(move |conn: &Connection| {
            let read = catch_unwind(AssertUnwindSafe(|| read(conn)));
            // A caller that has gone needs no answer.
            let _ = reply.send(read.unwrap_or_else(|_| Err(panicked())));
        });
        self.queue.push(Lane::Later, Task(task))?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// The time to decide reads by.
    pub(crate) fn time(&self) -> Arc<Time> {
        Arc::clone(&self.time)
    }

    fn idle(&self) -> Option<Idle<'_>> {
        let conn = self.lock().pop()?;
        Some(Idle { readers: self, conn: Some(conn) })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            // A panic of a read was answered to its caller.
            let _ = thread.join();
        }
    }
}

/// A connection that goes back when it is dropped.
struct Idle<'r> {
    readers: &'r Readers,
    conn: Option<Connection>,
}

impl Idle<'_> {
    fn conn(&self) -> &Connection {
        self.conn.as_ref().expect("it is taken by drop alone")
    }
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        let conn = self.conn.take();
        self.readers.lock().extend(conn);
    }
}

fn serve(conn: &Connection, queue: &Queue<Task>) {
    while let Some(Task(read)) = queue.take_one() {
        read(conn);
    }
}

fn look(conn: &Connection, time: &Time, ids: &[IntentId], timed: bool) -> Result<Look, StoreError> {
    let seen: Result<Vec<_>, Fault> = ids.iter().map(|id| one(conn, time, id)).collect();
    let seen = seen?;
    // Where no record is, no time came with it. A claim of such an intent is decided by the writer,
    // but a reader who is told the time must be told the file's.
    if timed && !seen.iter().any(Option::is_some) {
        observe(conn, time)?;
    }
    Ok(Look { seen, now: time.now() })
}

/// Reads one record, and with it takes over the time that another process persisted.
pub(crate) fn one(conn: &Connection, time: &Time, id: &IntentId) -> Result<Option<Seen>, Fault> {
    let mut statement = conn.prepare_cached(queries::RECORD_LOOK)?;
    let scope = &id.scope;
    let mut rows = statement.query((
        scope.tenant.as_str(),
        scope.operation.as_str(),
        id.key.as_str(),
        row::facet(id),
    ))?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    migrate::admit(row.get(row::NAME + 1)?)?;
    time.observe(row::instant(row, row::NAME)?);
    row::seen(id.clone(), row).map(Some)
}

/// Takes over the time that another process persisted.
pub(crate) fn observe(conn: &Connection, time: &Time) -> Result<(), Fault> {
    let mut statement = conn.prepare_cached(queries::META_READ)?;
    let mut rows = statement.query([])?;
    let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    migrate::admit(row.get(0)?)?;
    time.observe(row::instant(row, 1)?);
    Ok(())
}
