//! What a record of a log is to a consumer. There is no client in it.

use bytes::Bytes;
use semel::{
    clock::Timestamp,
    inbox::{Delivery, LogId, MessageId, Position, Receipt, SourceName},
};

/// A record, and where it lies.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) topic: &'a str,
    /// The id of the topic: one that is deleted and made again has another.
    pub(super) topic_id: &'a str,
    pub(super) log: &'a LogId,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) key: Option<&'a [u8]>,
    pub(super) payload: Option<&'a [u8]>,
    pub(super) headers: Vec<(Box<str>, Bytes)>,
    /// Milliseconds since the Unix epoch, if it says so.
    pub(super) sent_at: Option<i64>,
}

impl Record<'_> {
    /// Makes a delivery of it. Its name is what the header `id_header` says, if that is one, else its
    /// place. There is none of a record whose topic can be no source.
    pub(super) fn delivery(self, id_header: &str) -> Option<Delivery> {
        let source = SourceName::new(format!("kafka:{}", self.topic)).ok()?;
        let given = self.headers.iter().find(|(name, _)| **name == *id_header);
        let given = given.and_then(|(_, value)| std::str::from_utf8(value).ok());
        let given = given.and_then(|id| MessageId::new(source.clone(), id).ok());
        let place = || format!("{}/{}/{}", self.topic_id, self.partition, self.offset);
        let message = given.or_else(|| MessageId::new(source, place()).ok())?;
        let payload = self.payload.map(Bytes::copy_from_slice);
        let mut delivery = Delivery::new(message, Receipt(0), payload);
        delivery.headers = self.headers;
        delivery.key = self.key.map(Bytes::copy_from_slice);
        let millis = self.sent_at.and_then(|millis| u64::try_from(millis).ok());
        let instant = |millis: u64| Timestamp::from_micros(millis.saturating_mul(1_000));
        delivery.sent_at = millis.map(instant);
        let offset = u64::try_from(self.offset).unwrap_or_default();
        delivery.position = Some(Position { log: self.log.clone(), offset });
        Some(delivery)
    }
}
