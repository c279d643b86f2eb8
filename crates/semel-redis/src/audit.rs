//! The audit: rows in lists, newest first, one for each bucket.
//!
//! A row is stored as the server's time, 8 bytes, by which rows of all buckets are put in order; then the version, 1,
//! the instant, 8 bytes, and 2 + n bytes each for the kind, the name, the actor and the note.

use redis::{Value, cmd};
use semel::{
    IntentId,
    store::capability::{AuditKind, AuditRow},
};

use crate::{
    RedisStore,
    error::{Fault, damaged, odd},
    row::{Reader, text},
    space::{self, BUCKETS, Place, Space},
    store::{TOGETHER, all},
    verb::{bytes as told, digits},
};

const V1: u8 = 1;
/// How many rows of a bucket are read at once.
const PAGE: usize = 32;

/// Makes the bytes of a row.
pub(crate) fn bytes(row: &AuditRow) -> Vec<u8> {
    let mut to = vec![V1];
    to.extend(row.at.as_micros().to_be_bytes());
    text(&mut to, Some(row.kind.as_str()));
    let name = space::name(&row.id);
    to.extend(u16::try_from(name.len()).unwrap_or(u16::MAX).to_be_bytes());
    to.extend(name);
    text(&mut to, Some(&row.actor));
    text(&mut to, Some(&row.note));
    to
}

/// Reads a row, and when the server wrote it.
fn row(bytes: &[u8]) -> Result<(u64, AuditRow), Fault> {
    let mut from = Reader(bytes);
    let written = from.number()?;
    let [version] = from.take()?;
    if version != V1 {
        return Err(Fault::version(version));
    }
    let at = from.instant()?;
    let kind = from.text()?.and_then(|kind| AuditKind::from_word(&kind));
    let kind = kind.ok_or_else(|| damaged("an audit row has an unknown kind; upgrade semel"))?;
    let len = usize::from(u16::from_be_bytes(from.take()?));
    let short = || damaged("an audit row is cut short; restore a backup");
    let (name, rest) = from.0.split_at_checked(len).ok_or_else(short)?;
    let id = space::id(name)?;
    let mut from = Reader(rest);
    let (actor, note) = (from.text()?.unwrap_or_default(), from.text()?.unwrap_or_default());
    Ok((written, AuditRow { id, at, kind, actor, note }))
}

impl RedisStore {
    pub(crate) async fn noted(&self, row: &AuditRow) -> Result<(), Fault> {
        let place = Space::place(&row.id);
        let keys = [self.link.space.bucket(place.bucket).key("audit")];
        let args = [&bytes(row)[..], &digits(self.audit_max)];
        self.link.run(place.bucket, &self.scripts.note, &keys, &args).await.map(drop)
    }

    /// Reads the rows of one intent, newest first.
    pub(crate) async fn rows_of(
        &self,
        id: &IntentId,
        limit: usize,
    ) -> Result<Vec<AuditRow>, Fault> {
        let Place { bucket, .. } = Space::place(id);
        let mut rows = Vec::new();
        for start in (0..).step_by(PAGE) {
            let page = self.rows(bucket, start).await?;
            let is_last = page.len() < PAGE;
            rows.extend(page.into_iter().map(|(_, row)| row).filter(|row| row.id == *id));
            if is_last || rows.len() >= limit {
                break;
            }
        }
        rows.truncate(limit);
        Ok(rows)
    }

    /// Reads the rows of all intents, newest first: of each bucket as many as may be among them.
    pub(crate) async fn rows_of_all(&self, limit: usize) -> Result<Vec<AuditRow>, Fault> {
        let mut rows: Vec<(u64, AuditRow)> = Vec::new();
        let mut open: Vec<usize> = (0..BUCKETS).collect();
        for start in (0..).step_by(PAGE) {
            let read =
                |bucket| async move { self.rows(bucket, start).await.map(|page| (bucket, page)) };
            let pages = all(open.into_iter().map(read).collect(), TOGETHER).await?;
            let ends: Vec<_> = pages
                .iter()
                .filter(|(_, page)| page.len() == PAGE)
                .filter_map(|(bucket, page)| Some((*bucket, page.last()?.0)))
                .collect();
            rows.extend(pages.into_iter().flat_map(|(_, page)| page));
            rows.sort_by_key(|(written, _)| std::cmp::Reverse(*written));
            rows.truncate(limit);
            // A bucket whose last row is older than all that are wanted has no newer one behind it.
            let oldest = rows.last().map_or(0, |(written, _)| *written);
            let is_full = rows.len() == limit;
            let goes_on = |(_, end): &(usize, u64)| !is_full || *end > oldest;
            open = ends.into_iter().filter(goes_on).map(|(bucket, _)| bucket).collect();
            if open.is_empty() {
                break;
            }
        }
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// Reads all rows of a bucket, newest first.
    pub(crate) async fn rows_in(&self, bucket: usize) -> Result<Vec<AuditRow>, Fault> {
        let mut rows = Vec::new();
        for start in (0..).step_by(PAGE) {
            let page = self.rows(bucket, start).await?;
            let is_last = page.len() < PAGE;
            rows.extend(page.into_iter().map(|(_, row)| row));
            if is_last {
                break;
            }
        }
        Ok(rows)
    }

    async fn rows(&self, bucket: usize, start: usize) -> Result<Vec<(u64, AuditRow)>, Fault> {
        let mut range = cmd("LRANGE");
        range.arg(self.link.space.bucket(bucket).key("audit")).arg(start).arg(start + PAGE - 1);
        let Value::Array(rows) = self.link.look(bucket, &range).await? else {
            return Err(odd());
        };
        rows.into_iter().map(|row| self::row(&told(row)?.unwrap_or_default())).collect()
    }
}
