//! Retention. The server drops what is long over by itself; the sweep drops it on time, and the names that are left.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use redis::Value;
use semel::{
    StoreError,
    decide::{self, Sweep as Verdict},
    store::capability::{Sweep, SweepBudget, Swept},
};

use crate::{
    RedisStore,
    error::{Fault, odd},
    space::{self, BUCKETS, Place, Space},
    store::{TOGETHER, all},
    verb::{bytes, digits},
};

/// How many buckets are asked at once for what is due.
const ASKED: usize = 32;

/// Looks at the server's settings too, whenever it begins: they may have been changed while it runs.
#[async_trait]
impl Sweep for RedisStore {
    async fn sweep(&self, budget: SweepBudget) -> Result<Swept, StoreError> {
        if !self.is_sweeping.load(Ordering::Relaxed) {
            self.link.look_again().await?;
        }
        let budget = usize::try_from(budget.records).unwrap_or(usize::MAX).max(1);
        let due = self.due(budget.saturating_add(1)).await?;
        let more = due.len() > budget;
        self.is_sweeping.store(more, Ordering::Relaxed);
        let dropped = due.into_iter().take(budget).map(|place| self.dropped(place));
        let dropped = all(dropped.collect(), TOGETHER).await?;
        let count = |wanted| dropped.iter().filter(|verdict| **verdict == wanted).count();
        let count = |wanted| u64::try_from(count(wanted)).unwrap_or(u64::MAX);
        Ok(Swept { forgotten: count(Verdict::Forget), deleted: count(Verdict::Delete), more })
    }
}

impl RedisStore {
    /// Lists what is due, up to a limit, beginning where the last sweep ended.
    async fn due(&self, limit: usize) -> Result<Vec<Place>, Fault> {
        let first = self.swept.load(Ordering::Relaxed);
        let mut due = Vec::new();
        for start in (0..BUCKETS).step_by(ASKED) {
            let asked = (start..start + ASKED).map(|at| (first + at) % BUCKETS);
            let asked = asked.map(|bucket| self.due_in(bucket, limit));
            let pages = all(asked.collect(), ASKED).await?;
            due.extend(pages.into_iter().flatten());
            if due.len() >= limit {
                due.truncate(limit);
                let last = due.last().map_or(0, |place: &Place| place.bucket);
                self.swept.store(last, Ordering::Relaxed);
                break;
            }
        }
        Ok(due)
    }

    async fn due_in(&self, bucket: usize, limit: usize) -> Result<Vec<Place>, Fault> {
        let keys = [self.link.space.bucket(bucket).key("due")];
        let args = [&digits(u32::try_from(limit).unwrap_or(u32::MAX))[..]];
        let said = self.link.run(bucket, &self.scripts.due, &keys, &args).await?;
        let [_, names] = said.try_into().map_err(|_| odd())?;
        let Value::Array(names) = names else { return Err(odd()) };
        let named = |name| Ok(Space::named(bytes(name)?.unwrap_or_default()));
        let place = |name| named(name).map(|place| Place { bucket, ..place });
        names.into_iter().map(place).collect()
    }

    /// Drops of a record what may be dropped, unless it has changed since it was read.
    async fn dropped(&self, place: Place) -> Result<Verdict, Fault> {
        let id = space::id(&place.name)?;
        let seen = self.seen(&place, &id).await?;
        let (verdict, word) = match &seen.record {
            // The server has dropped it already.
            None => (Verdict::Delete, "delete"),
            Some(record) => match decide::sweep(record, seen.now) {
                Verdict::Delete => (Verdict::Delete, "delete"),
                Verdict::Forget => (Verdict::Forget, "forget"),
                Verdict::Keep => (Verdict::Keep, "keep"),
            },
        };
        let mut left = seen.record;
        left.iter_mut().for_each(|record| record.outcome = None);
        let next = left.as_ref().and_then(decide::due_at);
        let next = next.map_or_else(|| b"+inf".to_vec(), |next| digits(next.as_micros()));
        let mut keys = self.keys(&place);
        keys.pop();
        let args = [&seen.bytes[..], word.as_bytes(), &place.name, &next];
        let said = self.link.run(place.bucket, &self.scripts.drop, &keys, &args).await?;
        match &said[..] {
            [_, Value::Int(1)] => Ok(verdict),
            [_, Value::Int(_)] => Ok(Verdict::Keep),
            _ => Err(odd()),
        }
    }
}
