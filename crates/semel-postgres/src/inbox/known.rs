//! What is remembered of a message, as columns and back.

use bytes::Bytes;
use semel::{
    Fingerprint, StoreError,
    inbox::{Consumer, MessageId, Recorded, SourceName, Standing},
    outbox::EventId,
};

use crate::{
    error::{Fault, damaged},
    row,
    value::Cells,
};

/// How many columns there are.
pub(super) const COLUMNS: usize = 5;

/// Reads what is remembered from the columns that begin at `first`.
pub(super) fn recorded(row: &impl Cells, first: usize) -> Result<Recorded, Fault> {
    let standing = row.text(first + 1)?.and_then(Standing::from_word);
    Ok(Recorded {
        fingerprint: fingerprint(row.bytes(first)?.unwrap_or_default())?,
        standing: standing.ok_or_else(|| {
            damaged("a message stands as this version does not know; upgrade semel")
        })?,
        answer: row.bytes(first + 2)?.map(Bytes::copy_from_slice),
        events: events(row.text(first + 3)?.unwrap_or("{}"))?,
        at: row::instant(row, first + 4)?,
    })
}

fn fingerprint(bytes: &[u8]) -> Result<Fingerprint, StoreError> {
    let wrong = || damaged("the digest of a message has the wrong length; restore a backup");
    Fingerprint::from_bytes(bytes).ok_or_else(wrong)
}

/// Writes ids as the server writes an array.
pub(super) fn array(events: &[EventId]) -> String {
    let ids: Vec<_> = events.iter().map(ToString::to_string).collect();
    format!("{{{}}}", ids.join(","))
}

fn events(array: &str) -> Result<Vec<EventId>, StoreError> {
    let ids = array.trim_matches(['{', '}']).split(',').filter(|id| !id.is_empty());
    let bad = |error| damaged("the id of an event cannot be read").with_source(error);
    ids.map(|id| id.parse().map_err(bad)).collect()
}

/// Reads the name of a consumer.
pub(super) fn consumer(row: &impl Cells, at: usize) -> Result<Consumer, Fault> {
    Ok(Consumer::new(row.text(at)?.unwrap_or_default()).map_err(bad_name)?)
}

/// Reads the name of a message, whose two columns begin at `first`.
pub(super) fn message(row: &impl Cells, first: usize) -> Result<MessageId, Fault> {
    let source = SourceName::new(row.text(first)?.unwrap_or_default()).map_err(bad_name)?;
    Ok(MessageId::new(source, row.text(first + 1)?.unwrap_or_default()).map_err(bad_name)?)
}

pub(super) fn bad_name(error: semel::NameError) -> StoreError {
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
            assert_eq!(events(&array(&ids)).unwrap(), ids);
        }
        assert!(events("{1}").is_err());
    }

    #[test]
    fn a_digest_of_the_wrong_length_is_damage() {
        assert!(fingerprint(&[0; 40]).is_ok());
        assert!(fingerprint(&[0; 39]).is_err());
    }
}
