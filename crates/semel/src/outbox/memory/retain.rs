//! Retention: what every destination has may go.

use std::time::Duration;

use async_trait::async_trait;

use super::{
    super::store::{OutboxRetain, Pos, Retained},
    Inner, MemoryOutbox,
};
use crate::{clock::Timestamp, error::StoreError};

/// How many events one step drops at most.
const STEP: usize = 10_000;

#[async_trait]
impl OutboxRetain for MemoryOutbox {
    async fn retain(&self, keep_for: Duration) -> Result<Retained, StoreError> {
        let (mut inner, now) = self.lock();
        Ok(inner.retain(keep_for, now))
    }
}

impl Inner {
    fn retain(&mut self, keep_for: Duration, now: Timestamp) -> Retained {
        let mut retained = Retained::default();
        if self.cursors.is_empty() {
            let old = self.rows.values().any(|row| now.since(row.placed.at) > keep_for);
            retained.held_up = old.then(|| "no destination was ever led".into());
            return retained;
        }
        let mut gone: Vec<Pos> = Vec::new();
        let old = |at: Timestamp| now.since(at) > keep_for;
        for row in self.rows.values().filter(|row| old(row.placed.at)) {
            match self.cursors.iter().find(|(_, cursor)| !cursor.has(row)) {
                Some((behind, _)) => {
                    let held_up = || format!("the destination {behind} lacks old events").into();
                    retained.held_up.get_or_insert_with(held_up);
                }
                None if gone.len() < STEP => gone.push(row.placed.pos),
                None => {
                    retained.more = true;
                    break;
                }
            }
        }
        gone.iter().for_each(|pos| self.forget_row(*pos));
        let rows = &self.rows;
        self.left_out.retain(|(pos, _)| rows.contains_key(pos));
        retained.dropped = u64::try_from(gone.len()).unwrap_or(u64::MAX);
        retained
    }

    fn forget_row(&mut self, pos: Pos) {
        let Some(row) = self.rows.remove(&pos) else {
            return;
        };
        if let Some(positions) = self.commits.get_mut(&row.commit) {
            positions.retain(|of| *of != pos);
            if positions.is_empty() {
                self.commits.remove(&row.commit);
            }
        }
    }
}
