//! The one thread that writes, and the groups it commits.
//!
//! It takes whatever waits, does it all inside one transaction, and answers nobody before the commit
//! has returned: not even a refusal, since what it refuses by may stand in the same group. It never
//! waits for more: while one commit is on its way to the disk the next group gathers by itself, and
//! whatever comes before its own commit joins it.
//!
//! While another connection holds the file's lock, a group waits for it in short turns: each job gives up
//! at its own time, counted from when it was asked for, and not at that of what it waits behind.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::Duration,
};

use rusqlite::Connection;
use semel::{Clock, Monotonic, StoreError, StoreErrorKind, SystemClock};
use tokio::sync::oneshot;

use crate::{
    error::{self, Fault},
    open::Identity,
    queue::{Lane, Queue},
    step::{Limits, Step},
    time::Time,
    verb::Verb,
};

/// How long a group waits for the file's lock before it looks who has waited long enough.
const TURN: Duration = Duration::from_millis(50);

/// A verb that waits for the writer.
trait Job: Send {
    /// Until when it waits for another connection's lock.
    fn until(&self) -> Monotonic;

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
    until: Monotonic,
    answer: Option<Result<V::Answer, StoreError>>,
    reply: oneshot::Sender<Result<V::Answer, StoreError>>,
}

impl<V: Verb> Job for Waiting<V> {
    fn until(&self) -> Monotonic {
        self.until
    }

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
    busy_wait: Duration,
    clock: SystemClock,
}

/// What the thread works by.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) conn: Connection,
    pub(crate) identity: Identity,
    pub(crate) time: Arc<Time>,
    pub(crate) group_max: usize,
    pub(crate) limits: Limits,
    /// How long another connection's lock is waited for at most.
    pub(crate) busy_wait: Duration,
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
        let (busy_wait, clock) = (work.busy_wait, SystemClock::new());
        work.wait_for_lock(TURN)?;
        let jobs = Arc::clone(&queue);
        let thread = thread::Builder::new()
            .name("semel-sqlite-writer".to_owned())
            .spawn(move || work.serve(&jobs, clock))
            .map_err(|error| error::gone().with_source(error))?;
        Ok(Self { queue, thread: Some(thread), busy_wait, clock })
    }

    /// Has a verb done by the thread, and waits until its group is committed.
    pub(crate) async fn ask<V: Verb>(&self, lane: Lane, verb: V) -> Result<V::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let until = self.clock.monotonic().after(self.busy_wait.min(V::LOCK_WAIT));
        self.queue.push(lane, Box::new(Waiting { verb, until, answer: None, reply }))?;
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
    fn serve(self, queue: &Queue<Box<dyn Job>>, clock: SystemClock) {
        while let Some(jobs) = queue.take(self.group_max) {
            self.time.watch();
            self.group(jobs, &clock, &|room| queue.more(room));
        }
    }

    /// Has a statement wait for a lock, within the bound for all of them.
    fn wait_for_lock(&self, wait: Duration) -> Result<(), StoreError> {
        self.conn.busy_timeout(wait.min(self.busy_wait)).map_err(error::driver)
    }

    /// Commits `jobs`, and what `more` comes meanwhile, as one group, and answers all of it.
    fn group(&self, mut jobs: Jobs, clock: &SystemClock, more: &dyn Fn(usize) -> Jobs) {
        let mut done = self.attempt(&mut jobs, clock, more);
        if self.made_room(&done) {
            done = self.attempt(&mut jobs, clock, &none);
        }
        match done {
            Ok(()) => jobs.into_iter().for_each(Job::answer),
            Err(Failure::One(_)) if jobs.len() > 1 => {
                jobs.into_iter().for_each(|job| self.group(vec![job], clock, &none));
            }
            Err(Failure::One(error) | Failure::All(error)) => {
                jobs.into_iter().for_each(|job| job.refuse(error::again(&error)));
            }
        }
    }

    /// Does all jobs in one transaction, and those that come while it is at it: it commits only when
    /// nothing waits, or the group is full. After an error nothing is written, unless the error is the
    /// commit's.
    fn attempt(
        &self,
        jobs: &mut Jobs,
        clock: &SystemClock,
        more: &dyn Fn(usize) -> Jobs,
    ) -> Result<(), Failure> {
        self.identity.check().map_err(Failure::All)?;
        let conn = &self.conn;
        self.begin(jobs, clock, more).map_err(Failure::All)?;
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

    /// Begins a transaction. While another connection holds the lock, refuses whoever has waited long
    /// enough, and takes in who comes; fails once nobody waits any more.
    fn begin(
        &self,
        jobs: &mut Jobs,
        clock: &SystemClock,
        more: &dyn Fn(usize) -> Jobs,
    ) -> Result<(), StoreError> {
        loop {
            let busy = match run(&self.conn, "BEGIN IMMEDIATE") {
                Err(refused) if error::is_busy(&refused) => error::driver(refused),
                begun => return begun.map_err(error::driver),
            };
            jobs.extend(more(self.group_max.saturating_sub(jobs.len())));
            let now = clock.monotonic();
            let (waited, wait): (Jobs, Jobs) =
                std::mem::take(jobs).into_iter().partition(|job| job.until() <= now);
            *jobs = wait;
            waited.into_iter().for_each(|job| job.refuse(error::again(&busy)));
            if jobs.is_empty() {
                return Err(busy);
            }
            // Where SQLite refuses without having waited.
            thread::park_timeout(Duration::from_millis(1));
        }
    }

    /// After a full disk: moves the log into the file and empties it, which may make room.
    fn made_room(&self, done: &Result<(), Failure>) -> bool {
        let Err(Failure::All(error) | Failure::One(error)) = done else {
            return false;
        };
        error.kind() == StoreErrorKind::Full && {
            // Readers of the log are waited for.
            let waits = self.wait_for_lock(self.busy_wait);
            let emptied = self
                .conn
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
                .is_ok_and(|busy| busy == 0);
            waits.and_then(|()| self.wait_for_lock(TURN)).is_ok() && emptied
        }
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
