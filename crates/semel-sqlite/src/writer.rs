//! The one thread that writes, and the groups it commits.
//!
//! It takes whatever waits, does it all inside one transaction, and answers nobody before the commit
//! has returned: not even a refusal, since what it refuses by may stand in the same group. It never
//! waits for more: while one commit is on its way to the disk the next group gathers by itself, and
//! whatever comes before its own commit joins it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

use rusqlite::Connection;
use semel::{StoreError, StoreErrorKind};
use tokio::sync::oneshot;

use crate::{
    error::{self, Fault},
    open::Identity,
    queue::{Lane, Queue},
    step::{Limits, Step},
    time::Time,
    verb::Verb,
};

/// A verb that waits for the writer.
trait Job: Send {
    /// Does it and keeps the answer. Says whether the group can go on.
    fn run(&mut self, step: &mut Step<'_>) -> Result<(), Fault>;

    /// Gives the kept answer away: the group is committed.
    fn answer(self: Box<Self>);

    /// Says that it was not done.
    fn refuse(self: Box<Self>, error: StoreError);
}

type Jobs = Vec<Box<dyn Job>>;

struct Waiting<V: Verb> {
    verb: V,
    answer: Option<Result<V::Answer, StoreError>>,
    reply: oneshot::Sender<Result<V::Answer, StoreError>>,
}

impl<V: Verb> Job for Waiting<V> {
    fn run(&mut self, step: &mut Step<'_>) -> Result<(), Fault> {
        let writes = step.writes();
        self.answer = None;
        match self.verb.run(step) {
            Ok(answer) => self.answer = Some(Ok(answer)),
            // What is damaged or forbidden about one record is no matter of the others, as long as
            // the driver is well and nothing of it was written yet.
            Err(fault @ (Fault::Outcome(_) | Fault::Said(_))) if step.writes() == writes => {
                self.answer = Some(Err(fault.into()));
            }
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    fn answer(self: Box<Self>) {
        // A caller that has gone asks again by its token.
        let _ = self.reply.send(self.answer.unwrap_or_else(|| Err(error::gone())));
    }

    fn refuse(self: Box<Self>, error: StoreError) {
        let _ = self.reply.send(Err(error));
    }
}

/// The handle of the thread.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Arc<Queue<Box<dyn Job>>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What the thread works by.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) conn: Connection,
    pub(crate) identity: Identity,
    pub(crate) time: Arc<Time>,
    pub(crate) group_max: usize,
    pub(crate) limits: Limits,
}

impl std::fmt::Debug for dyn Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Job")
    }
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(work: Work, queue_max: usize) -> Result<Self, StoreError> {
        let queue = Arc::new(Queue::new(queue_max));
        let jobs = Arc::clone(&queue);
        let thread = thread::Builder::new()
            .name("semel-sqlite-writer".to_owned())
            .spawn(move || work.serve(&jobs))
            .map_err(|error| error::gone().with_source(error))?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Has a verb done by the thread, and waits until its group is committed.
    pub(crate) async fn ask<V: Verb>(&self, lane: Lane, verb: V) -> Result<V::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(lane, Box::new(Waiting { verb, answer: None, reply }))?;
        answer.await.unwrap_or_else(|_| Err(error::gone()))
    }
}

impl Drop for Writer {
    /// Finishes what waits, then closes the file.
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was logged by the thread.
            let _ = thread.join();
        }
    }
}

/// Why a group was not committed, and whom that concerns.
#[derive(Debug)]
enum Failure {
    /// Every job alike.
    All(StoreError),
    /// Perhaps one job alone: the others deserve a transaction of their own.
    One(StoreError),
}

impl Work {
    fn serve(self, queue: &Queue<Box<dyn Job>>) {
        while let Some(jobs) = queue.take(self.group_max) {
            self.time.watch();
            self.group(jobs, &|room| queue.more(room));
        }
    }

    /// Commits `jobs`, and what `more` comes meanwhile, as one group, and answers all of it.
    fn group(&self, mut jobs: Jobs, more: &dyn Fn(usize) -> Jobs) {
        let mut done = self.attempt(&mut jobs, more);
        if self.made_room(&done) {
            done = self.attempt(&mut jobs, &none);
        }
        match done {
            Ok(()) => jobs.into_iter().for_each(Job::answer),
            Err(Failure::One(_)) if jobs.len() > 1 => {
                jobs.into_iter().for_each(|job| self.group(vec![job], &none));
            }
            Err(Failure::One(error) | Failure::All(error)) => {
                jobs.into_iter().for_each(|job| job.refuse(error::again(&error)));
            }
        }
    }

    /// Does all jobs in one transaction, and those that come while it is at it: it commits only when
    /// nothing waits, or the group is full. After an error nothing is written, unless the error is the
    /// commit's.
    fn attempt(&self, jobs: &mut Jobs, more: &dyn Fn(usize) -> Jobs) -> Result<(), Failure> {
        self.identity.check().map_err(Failure::All)?;
        let conn = &self.conn;
        run(conn, "BEGIN IMMEDIATE").map_err(|error| Failure::All(error::driver(error)))?;
        let open = Open(conn);
        let step = Step::begin(conn, &self.time, self.limits);
        let mut step = step.map_err(|fault| Failure::All(fault.into()))?;
        let mut done = 0;
        while done < jobs.len() {
            for job in &mut jobs[done..] {
                // After a panic all is rolled back, and what the job kept is made anew or dropped.
                catch_unwind(AssertUnwindSafe(|| job.run(&mut step)))
                    .unwrap_or_else(|_| Err(error::panicked().into()))
                    .map_err(|fault| Failure::One(fault.into()))?;
            }
            done = jobs.len();
            jobs.extend(more(self.group_max.saturating_sub(done)));
        }
        step.end().map_err(|fault| Failure::One(fault.into()))?;
        run(conn, "COMMIT").map_err(|error| Failure::All(error::commit(error)))?;
        drop(open);
        Ok(())
    }

    /// After a full disk: moves the log into the file and empties it, which may make room.
    fn made_room(&self, done: &Result<(), Failure>) -> bool {
        let Err(Failure::All(error) | Failure::One(error)) = done else {
            return false;
        };
        error.kind() == StoreErrorKind::Full
            && self
                .conn
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
                .is_ok_and(|busy| busy == 0)
    }
}

/// Nobody else joins a group that is done again.
fn none(_: usize) -> Jobs {
    Vec::new()
}

fn run(conn: &Connection, statement: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(statement)?.execute([]).map(|_| ())
}

/// Ends a transaction that was not committed.
struct Open<'c>(&'c Connection);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // SQLite has already rolled back after some errors, and after all of them the next BEGIN
        // tells if it has not.
        if !self.0.is_autocommit() && run(self.0, "ROLLBACK").is_err() {
            tracing::error!("a transaction of the store could not be rolled back");
        }
    }
}

#[cfg(test)]
mod tests;
