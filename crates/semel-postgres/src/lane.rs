//! Lanes: where callers' verbs wait, and are taken in batches by tasks of the store.
//!
//! While one batch is at the server the next one gathers, so that many callers share one statement. A
//! name always goes to the same task of a lane, so that a store never contends with itself for its lock.

use std::{
    collections::{HashSet, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use semel::{StoreError, StoreErrorKind};
use tokio::sync::{Notify, oneshot};
use tokio_util::task::TaskTracker;

use crate::{
    error::{Fault, Shared, ended, full_queue},
    link::{Links, Step, Work},
    verb::{Answered, Busy, Verb},
};

/// How many bytes one batch may hold: the server has them in memory at once.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The pause after which a name is asked for again whose lock was taken, doubled each time, and how
/// often: together about a second.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(150);
const TRIES: u32 = 13;

/// Where verbs of one kind wait.
pub(crate) struct Lane<V: Verb> {
    queues: Vec<Arc<Queue<V>>>,
}

struct Queue<V: Verb> {
    inner: Mutex<Inner<V>>,
    woken: Notify,
    tasks: TaskTracker,
    batch_max: usize,
    waiting_max: usize,
}

struct Inner<V: Verb> {
    waiting: VecDeque<Item<V>>,
    closed: bool,
}

struct Item<V: Verb> {
    verb: V,
    tries: u32,
    answer: oneshot::Sender<Result<V::Answer, StoreError>>,
}

impl<V: Verb> Lane<V> {
    /// Starts the tasks that take from it.
    pub(crate) fn start(workers: usize, links: &Arc<Links>, tasks: &TaskTracker) -> Self {
        let queue = |_| {
            let queue = Arc::new(Queue {
                inner: Mutex::new(Inner { waiting: VecDeque::new(), closed: false }),
                woken: Notify::new(),
                tasks: tasks.clone(),
                batch_max: links.settings.batch_max,
                waiting_max: links.settings.queue_max,
            });
            tasks.spawn(serve(Arc::clone(&queue), Arc::clone(links)));
            queue
        };
        Self { queues: (0..workers.max(1)).map(queue).collect() }
    }

    /// Has a verb done. Dropping the future neither undoes nor repeats it.
    pub(crate) async fn ask(&self, verb: V) -> Result<V::Answer, StoreError> {
        self.send(verb)?.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Has several verbs done, and waits for all of them.
    pub(crate) async fn ask_all(&self, verbs: Vec<V>) -> Result<Vec<V::Answer>, StoreError> {
        let (mut answers, mut failed, count) = (Vec::new(), None, verbs.len());
        let sent: Vec<_> = verbs.into_iter().map(|verb| self.send(verb)).collect();
        for sent in sent {
            let answer = match sent {
                Ok(answer) => answer.await.unwrap_or_else(|_| Err(ended())),
                Err(error) => Err(error),
            };
            match answer {
                Ok(answer) => answers.push(answer),
                Err(error) => failed = Some(worse(failed, error)),
            }
        }
        match failed {
            None => Ok(answers),
            // What is certain of one is not of a batch of which others were done.
            Some(error) if error.kind().is_definite() && count > 1 && !answers.is_empty() => {
                let message = format!("a part of the batch was done, the rest not: {error}");
                Err(StoreError::new(StoreErrorKind::Unavailable, message).with_source(error))
            }
            Some(error) => Err(error),
        }
    }

    fn send(
        &self,
        verb: V,
    ) -> Result<oneshot::Receiver<Result<V::Answer, StoreError>>, StoreError> {
        let lock = verb.named().map_or(0, |named| named.lock.unsigned_abs());
        let count = u64::try_from(self.queues.len()).unwrap_or(1);
        let at = usize::try_from(lock % count).unwrap_or_default();
        let queue = &self.queues[at];
        let (answer, told) = oneshot::channel();
        let mut inner = queue.inner();
        if inner.waiting.len() >= queue.waiting_max {
            return Err(full_queue());
        }
        inner.waiting.push_back(Item { verb, tries: 1, answer });
        drop(inner);
        queue.woken.notify_one();
        Ok(told)
    }
}

/// Of two errors, the one that says less of what was written.
fn worse(last: Option<StoreError>, next: StoreError) -> StoreError {
    match last {
        Some(last) if next.kind().is_definite() => last,
        _ => next,
    }
}

impl<V: Verb> fmt::Debug for Lane<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting: usize = self.queues.iter().map(|queue| queue.inner().waiting.len()).sum();
        f.debug_struct("Lane").field("waiting", &waiting).finish_non_exhaustive()
    }
}

/// The tasks finish what waits, and end.
impl<V: Verb> Drop for Lane<V> {
    fn drop(&mut self) {
        for queue in &self.queues {
            queue.inner().closed = true;
            queue.woken.notify_one();
        }
    }
}

impl<V: Verb> Queue<V> {
    fn inner(&self) -> MutexGuard<'_, Inner<V>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something to do; `false` at the end.
    async fn filled(&self) -> bool {
        loop {
            let woken = self.woken.notified();
            {
                let inner = self.inner();
                if !inner.waiting.is_empty() {
                    return true;
                }
                if inner.closed {
                    return false;
                }
            }
            woken.await;
        }
    }

    /// Takes a batch: in order, a name once unless its verb says otherwise.
    fn take(&self) -> Vec<Item<V>> {
        let mut inner = self.inner();
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        let mut names = HashSet::new();
        let (mut rows, mut bytes) = (0, 0);
        while let Some(item) = inner.waiting.pop_front() {
            let size = item.verb.size();
            if !taken.is_empty() && (rows + size.0 > self.batch_max || bytes + size.1 > BYTES_MAX) {
                left.push(item);
                break;
            }
            let name = item.verb.named().filter(|_| !V::REPEATS);
            if name.is_some_and(|named| !names.insert(named.id.clone())) {
                left.push(item);
                continue;
            }
            rows += size.0;
            bytes += size.1;
            taken.push(item);
        }
        for item in left.into_iter().rev() {
            inner.waiting.push_front(item);
        }
        taken
    }

    /// Puts an item back at once, before all others.
    fn again(&self, item: Item<V>) {
        self.inner().waiting.push_front(item);
        self.woken.notify_one();
    }

    /// Puts an item back after a pause, or gives it up.
    fn later(self: &Arc<Self>, mut item: Item<V>, busy: Busy<V::Answer>) {
        if item.tries >= TRIES || self.inner().closed {
            let given_up = item.verb.gives_up(busy);
            drop(item.answer.send(given_up));
            return;
        }
        let pause = PAUSE.saturating_mul(1 << item.tries.min(10)).min(PAUSE_MAX);
        item.tries += 1;
        let queue = Arc::clone(self);
        self.tasks.spawn(async move {
            tokio::time::sleep(pause).await;
            let mut inner = queue.inner();
            if inner.closed {
                drop(inner);
                let given_up = item.verb.gives_up(busy);
                drop(item.answer.send(given_up));
                return;
            }
            inner.waiting.push_back(item);
            drop(inner);
            queue.woken.notify_one();
        });
    }
}

async fn serve<V: Verb>(queue: Arc<Queue<V>>, links: Arc<Links>) {
    while queue.filled().await {
        let batch = queue.take();
        let verbs: Vec<_> = batch.iter().map(|item| &item.verb).collect();
        match links.run(&Batch(&verbs)).await {
            Ok(answers) => tell(&queue, batch, answers),
            // Each is asked alone, so that only the one is told that it is about. What was written of
            // the others before is met again by their tokens.
            Err(error) if is_about_one(error.kind()) && batch.len() > 1 => {
                for item in batch {
                    alone(&queue, &links, item).await;
                }
            }
            Err(error) => {
                let error = Shared::new(error);
                batch.into_iter().for_each(|item| drop(item.answer.send(Err(error.tell()))));
            }
        }
    }
}

/// Says whether an error may be about one of a batch: it breaks a rule of the server, or its record cannot
/// be read.
const fn is_about_one(kind: StoreErrorKind) -> bool {
    matches!(kind, StoreErrorKind::Damaged | StoreErrorKind::Invalid | StoreErrorKind::Version)
}

async fn alone<V: Verb>(queue: &Arc<Queue<V>>, links: &Links, item: Item<V>) {
    match links.run(&Batch(&[&item.verb])).await {
        Ok(answers) => tell(queue, vec![item], answers),
        Err(error) => drop(item.answer.send(Err(error))),
    }
}

fn tell<V: Verb>(queue: &Arc<Queue<V>>, batch: Vec<Item<V>>, answers: Vec<Answered<V::Answer>>) {
    // Backwards, so that those that ask again keep their order before all others.
    for (item, answer) in batch.into_iter().zip(answers).rev() {
        match answer {
            Answered::Again => queue.again(item),
            Answered::Busy(busy) => queue.later(item, busy),
            Answered::Done(answer) => drop(item.answer.send(Ok(answer))),
        }
    }
}

/// A batch as work on a connection.
struct Batch<'a, V>(&'a [&'a V]);

impl<V: Verb> Work for Batch<'_, V> {
    type Done = Vec<Answered<V::Answer>>;

    async fn run(&self, step: Step<'_>) -> Result<Self::Done, Fault> {
        V::run(step, self.0).await
    }
}
