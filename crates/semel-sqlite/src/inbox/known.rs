//! What is remembered of a message, as columns and back.

use bytes::Bytes;
use rusqlite::{Connection, Row};
use semel::{
    Fingerprint, NameError, StoreError,
    inbox::{Consumer, MessageId, Recorded, SourceName, Standing},
    outbox::EventId,
};

use crate::{
    error::{Fault, damaged},
    queries, row,
};

/// How many columns there are.
pub(super) const COLUMNS: usize = 5;

/// Reads what is remembered of a message.
pub(super) fn of(
    conn: &Connection,
    consumer: &str,
    message: &MessageId,
) -> Result<Option<Recorded>, Fault> {
    let mut statement = conn.prepare_cached(queries::INBOX_RECORDED)?;
    let mut rows = statement.query((consumer, message.source.as_str(), message.id()))?;
    rows.next()?.map(recorded).transpose()
}

/// Reads what is remembered, from the first columns.
pub(super) fn recorded(row: &Row<'_>) -> Result<Recorded, Fault> {
    let standing = row.get_ref(1)?.as_str().ok().and_then(Standing::from_word);
    let events: Option<Box<str>> = row.get(3)?;
    Ok(Recorded {
        fingerprint: fingerprint(row.get_ref(0)?.as_blob().unwrap_or_default())?,
        standing: standing.ok_or_else(|| {
            damaged("a message stands as this version does not know; upgrade semel")
        })?,
        answer: row.get::<_, Option<Vec<u8>>>(2)?.map(Bytes::from),
        events: read(events.as_deref().unwrap_or("[]"))?,
        at: row::instant(row, 4)?,
    })
}

fn fingerprint(bytes: &[u8]) -> Result<Fingerprint, StoreError> {
    let wrong = || damaged("the digest of a message has the wrong length; restore a backup");
    Fingerprint::from_bytes(bytes).ok_or_else(wrong)
}

/// Writes ids as a JSON array; nothing for none.
pub(super) fn written(events: &[EventId]) -> Option<String> {
    let ids: Vec<_> = events.iter().map(|id| format!("\"{id}\"")).collect();
    (!ids.is_empty()).then(|| format!("[{}]", ids.join(",")))
}

fn read(array: &str) -> Result<Vec<EventId>, StoreError> {
    let ids = array.trim_matches(['[', ']']).split(',').filter(|id| !id.is_empty());
    let bad = |error| damaged("the id of an event cannot be read").with_source(error);
    ids.map(|id| id.trim_matches('"').parse().map_err(bad)).collect()
}

/// Reads the name of a consumer.
pub(super) fn consumer(row: &Row<'_>, at: usize) -> Result<Consumer, Fault> {
    let name = row.get_ref(at)?.as_str().unwrap_or_default();
    Ok(Consumer::new(name).map_err(bad_name)?)
}

/// Reads the name of a message, whose two columns begin at `first`.
pub(super) fn message(row: &Row<'_>, first: usize) -> Result<MessageId, Fault> {
    let text = |at| -> Result<&str, Fault> { Ok(row.get_ref(at)?.as_str().unwrap_or_default()) };
    let source = SourceName::new(text(first)?).map_err(bad_name)?;
    Ok(MessageId::new(source, text(first + 1)?).map_err(bad_name)?)
}

pub(super) fn bad_name(error: NameError) -> StoreError {
    damaged("a message has a name that this version does not allow; restore a backup")
        .with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_events_are_read_as_they_are_written() {
        for count in 0..3 {
            let ids: Vec<_> = (0..count).map(|byte| EventId::from_bytes([byte; 16])).collect();
            assert_eq!(read(written(&ids).as_deref().unwrap_or("[]")).unwrap(), ids);
        }
        assert!(read("[\"1\"]").is_err());
    }

    #[test]
    fn a_digest_of_the_wrong_length_is_damage() {
        assert!(fingerprint(&[0; 40]).is_ok());
        assert!(fingerprint(&[0; 39]).is_err());
    }
}
