//! Pages of names in their order, out of all buckets.

use redis::{Value, cmd};
use semel::store::capability::Filter;

use crate::{
    RedisStore,
    error::{Fault, odd},
    space::{self, BUCKETS},
    store::{TOGETHER, all},
    verb::bytes,
};

/// How many names of a bucket are read at once, at least.
const PAGE_MIN: usize = 8;

/// Reads names in order, a run at a time.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    store: &'a RedisStore,
    /// Which set is read: that of all names, or of those that are held.
    set: &'static str,
    end: Vec<u8>,
    page: usize,
    buckets: Vec<Ahead>,
}

/// What was read of a bucket and not yet given out.
#[derive(Debug)]
struct Ahead {
    names: Vec<Vec<u8>>,
    /// Where the next page begins; nothing if the bucket has no more.
    from: Option<Vec<u8>>,
}

impl<'a> Names<'a> {
    /// Begins behind the filter's last name, within its tenant.
    pub(crate) fn new(store: &'a RedisStore, set: &'static str, filter: &Filter) -> Self {
        let tenant = filter.tenant.as_ref().map(|tenant| tenant.as_str().as_bytes());
        let first = tenant.map(|tenant| [b"[", tenant, &[0]].concat());
        let after = filter.after.as_ref().map(|id| [b"(", &space::name(id)[..]].concat());
        // Of two beginnings the later one counts; they differ behind their first byte.
        let from = match (first, after) {
            (Some(first), Some(after)) if first[1..] > after[1..] => first,
            (_, Some(after)) => after,
            (Some(first), None) => first,
            (None, None) => b"-".to_vec(),
        };
        let end = tenant.map_or_else(|| b"+".to_vec(), |tenant| [b"(", tenant, &[1]].concat());
        let limit =
            usize::try_from(filter.limit).unwrap_or(usize::MAX).min(semel::store::BATCH_MAX);
        let ahead = || Ahead { names: Vec::new(), from: Some(from.clone()) };
        let page = PAGE_MIN.max(2 * limit / BUCKETS);
        Self { store, set, end, page, buckets: (0..BUCKETS).map(|_| ahead()).collect() }
    }

    /// Reads the next run of names; an empty one is the end.
    pub(crate) async fn next(&mut self) -> Result<Vec<Vec<u8>>, Fault> {
        loop {
            self.fill().await?;
            // What lies behind the end of a bucket's page may come before other names.
            let open = self.buckets.iter().filter(|ahead| ahead.from.is_some());
            let known = open.filter_map(|ahead| ahead.names.last()).min().cloned();
            let mut names = Vec::new();
            for ahead in &mut self.buckets {
                let count = known.as_ref().map_or(ahead.names.len(), |known| {
                    ahead.names.partition_point(|name| name <= known)
                });
                names.extend(ahead.names.drain(..count));
            }
            names.sort_unstable();
            if !names.is_empty() || self.buckets.iter().all(|ahead| ahead.from.is_none()) {
                return Ok(names);
            }
        }
    }

    /// Reads a page of every bucket that has none left and may have more.
    async fn fill(&mut self) -> Result<(), Fault> {
        let wanted = self.buckets.iter().enumerate();
        let wanted = wanted.filter(|(_, ahead)| ahead.names.is_empty());
        let wanted: Vec<_> =
            wanted.filter_map(|(at, ahead)| Some((at, ahead.from.clone()?))).collect();
        let this = &*self;
        let read = |(at, from): (usize, Vec<u8>)| async move {
            this.read(at, &from).await.map(|names| (at, names))
        };
        let pages = all(wanted.into_iter().map(read).collect(), TOGETHER).await?;
        for (at, names) in pages {
            let is_last = names.len() < self.page;
            let last = names.last().filter(|_| !is_last);
            self.buckets[at] = Ahead { from: last.map(|last| [b"(", &last[..]].concat()), names };
        }
        Ok(())
    }

    async fn read(&self, at: usize, from: &[u8]) -> Result<Vec<Vec<u8>>, Fault> {
        let mut range = cmd("ZRANGE");
        range.arg(self.store.link.space.bucket(at).key(self.set)).arg(from).arg(&self.end);
        range.arg("BYLEX").arg("LIMIT").arg(0).arg(self.page);
        let Value::Array(names) = self.store.link.look(at, &range).await? else {
            return Err(odd());
        };
        names.into_iter().map(|name| Ok(bytes(name)?.unwrap_or_default())).collect()
    }
}
