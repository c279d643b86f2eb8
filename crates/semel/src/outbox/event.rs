//! What leaves: an [`Event`] of one aggregate.

use std::{fmt, str::FromStr, sync::Arc};

use bytes::Bytes;
use thiserror::Error;

use crate::{clock::Clock, entropy::Entropy, inbox::MessageId, key::IntentId};

/// The name of an event, a UUID: the same in every copy that is ever sent.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct EventId([u8; 16]);

impl EventId {
    /// Makes a new one: a UUID of version 7 (RFC 9562, section 5.7), so that ids of about one time lie
    /// side by side in an index.
    #[must_use]
    pub fn new(clock: &dyn Clock, entropy: &dyn Entropy) -> Self {
        let mut bytes = entropy.bytes();
        let millis = clock.wall().as_micros() / 1_000;
        bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
        bytes[6] = 0x70 | (bytes[6] & 0x0f);
        bytes[8] = 0x80 | (bytes[8] & 0x3f);
        Self(bytes)
    }

    /// Makes an id of its bytes; any UUID will do.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for EventId {
    /// Writes it in lower case with hyphens, as RFC 9562 does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventId({self})")
    }
}

impl FromStr for EventId {
    type Err = EventError;

    /// Reads 32 hexadecimal digits, with hyphens as RFC 9562 sets them or without any.
    fn from_str(text: &str) -> Result<Self, EventError> {
        let hyphens = [8, 13, 18, 23];
        let bytes = text.as_bytes();
        let hyphened = bytes.len() == 36 && hyphens.iter().all(|at| bytes[*at] == b'-');
        let is_digit = |(at, byte): (usize, &u8)| {
            let digit = char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            if hyphened && hyphens.contains(&at) { None } else { Some(digit) }
        };
        let digits: Option<Vec<u8>> = bytes.iter().enumerate().filter_map(is_digit).collect();
        let digits = digits.filter(|digits| digits.len() == 32).ok_or(EventError::Id)?;
        let mut id = [0; 16];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(Self(id))
    }
}

/// Whose events keep their order: one aggregate, such as `order` and `order-7`.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Lane {
    kind: Arc<str>,
    id: Arc<str>,
}

impl Lane {
    /// The largest type of an aggregate and the largest id, in bytes each.
    pub const MAX: usize = 255;

    /// Names an aggregate by its type and id: 1 to 255 bytes each, without control characters.
    ///
    /// # Errors
    ///
    /// Says which part breaks its bound.
    pub fn new(kind: impl AsRef<str>, id: impl AsRef<str>) -> Result<Self, EventError> {
        let (kind, id) = (kind.as_ref(), id.as_ref());
        text("aggregatetype", kind, Self::MAX)?;
        text("aggregateid", id, Self::MAX)?;
        Ok(Self { kind: kind.into(), id: id.into() })
    }

    /// The type of the aggregate, such as `order`: what topics are named by.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The id of the aggregate, such as `order-7`: what partitions are chosen by.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for Lane {
    /// Writes the type, a slash and the id; the first slash is the one between them, since one in the
    /// type is written as `%2F`, and `%` as `%25`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.replace('%', "%25").replace('/', "%2F");
        write!(f, "{kind}/{}", self.id)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lane({self})")
    }
}

/// What made an event be: an event, a message or a request, as `event:…`, `message:…` or `request:…`.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Cause(Arc<str>);

impl Cause {
    /// The largest cause, in bytes.
    pub const MAX: usize = 800;

    /// Names a cause: 1 to 800 bytes without control characters.
    ///
    /// # Errors
    ///
    /// Says that it breaks its bound.
    pub fn new(cause: impl AsRef<str>) -> Result<Self, EventError> {
        text("cause", cause.as_ref(), Self::MAX)?;
        Ok(Self(cause.as_ref().into()))
    }

    /// Names an event as the cause.
    #[must_use]
    pub fn event(id: EventId) -> Self {
        Self(format!("event:{id}").into())
    }

    /// Names a message as the cause.
    #[must_use]
    pub fn message(message: &MessageId) -> Self {
        Self(format!("message:{message}").into())
    }

    /// Names a request as the cause, by what it is called.
    ///
    /// # Errors
    ///
    /// Says that it breaks its bound.
    pub fn request(by: &str) -> Result<Self, EventError> {
        Self::new(format!("request:{by}"))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cause({:?})", &*self.0)
    }
}

/// Something that happened to an aggregate, on its way to whoever wants to know.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// Its name, the same in every copy.
    pub id: EventId,
    /// Whose event it is, and so in which order it leaves.
    pub lane: Lane,
    /// What happened, such as `OrderPlaced`: 1 to 255 bytes without control characters.
    pub kind: Box<str>,
    /// What is told, as bytes of the producer's own format; `None` is a tombstone.
    pub payload: Option<Bytes>,
    /// What goes beside it, such as a content type.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// The version of the aggregate after it, if the producer counts them: the relay then reports
    /// events of a lane that do not come in this order.
    pub version: Option<i64>,
    /// The trace context it was made in, such as a `traceparent` of W3C Trace Context.
    pub trace: Option<Box<str>>,
    /// The intent it is an effect of.
    pub intent: Option<IntentId>,
    /// What made it be.
    pub cause: Option<Cause>,
}

impl Event {
    /// The largest payload that any store keeps, in bytes.
    pub const PAYLOAD_MAX: usize = 1024 * 1024;
    /// The largest type, in bytes.
    pub const KIND_MAX: usize = 255;
    /// The largest number of headers.
    pub const HEADERS_MAX: usize = 64;
    /// The largest name of a header, in bytes.
    pub const HEADER_NAME_MAX: usize = 128;
    /// The largest value of a header, in bytes.
    pub const HEADER_VALUE_MAX: usize = 4_096;
    /// The largest trace context, in bytes.
    pub const TRACE_MAX: usize = 512;

    /// Makes an event of its name, its aggregate, its type and what it tells.
    ///
    /// # Errors
    ///
    /// Says which part breaks its bound.
    pub fn new(
        id: EventId,
        lane: Lane,
        kind: impl Into<Box<str>>,
        payload: Option<Bytes>,
    ) -> Result<Self, EventError> {
        let event = Self {
            id,
            lane,
            kind: kind.into(),
            payload,
            headers: Vec::new(),
            version: None,
            trace: None,
            intent: None,
            cause: None,
        };
        event.check()?;
        Ok(event)
    }

    /// Checks every bound: each store does so before it appends.
    ///
    /// # Errors
    ///
    /// Says which part breaks its bound.
    pub fn check(&self) -> Result<(), EventError> {
        text("type", &self.kind, Self::KIND_MAX)?;
        let len = self.payload.as_ref().map_or(0, Bytes::len);
        within("payload", len, Self::PAYLOAD_MAX)?;
        within("headers", self.headers.len(), Self::HEADERS_MAX)?;
        for (name, value) in &self.headers {
            text("header name", name, Self::HEADER_NAME_MAX)?;
            within("header value", value.len(), Self::HEADER_VALUE_MAX)?;
            control("header value", value)?;
        }
        self.trace.as_ref().map_or(Ok(()), |trace| text("trace", trace, Self::TRACE_MAX))
    }

    /// About how many bytes it takes in memory and on the wire.
    #[must_use]
    pub fn size(&self) -> usize {
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let payload = self.payload.as_ref().map_or(0, Bytes::len);
        160 + self.lane.kind.len() + self.lane.id.len() + self.kind.len() + headers + payload
    }
}

/// An event breaks a bound; nothing was appended.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum EventError {
    /// A part holds a control character.
    #[error("the {part} of an event holds a control character")]
    Character {
        /// Which part.
        part: &'static str,
    },
    /// A part is empty.
    #[error("the {part} of an event is empty")]
    Empty {
        /// Which part.
        part: &'static str,
    },
    /// The id is no UUID.
    #[error("the id of an event is no UUID")]
    Id,
    /// A part is too large.
    #[error("the {part} of an event has {len}, more than {max}")]
    TooLarge {
        /// Which part.
        part: &'static str,
        /// How many bytes or items it has.
        len: usize,
        /// How many it may have.
        max: usize,
    },
}

impl EventError {
    /// Returns the stable code of this error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Character { .. } => "event-character",
            Self::Empty { .. } => "event-empty",
            Self::Id => "event-id",
            Self::TooLarge { .. } => "event-too-large",
        }
    }
}

fn text(part: &'static str, text: &str, max: usize) -> Result<(), EventError> {
    if text.is_empty() {
        return Err(EventError::Empty { part });
    }
    within(part, text.len(), max)?;
    control(part, text)
}

fn within(part: &'static str, len: usize, max: usize) -> Result<(), EventError> {
    if len > max { Err(EventError::TooLarge { part, len, max }) } else { Ok(()) }
}

fn control(part: &'static str, text: &str) -> Result<(), EventError> {
    if text.chars().any(char::is_control) { Err(EventError::Character { part }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SystemClock, entropy::SystemEntropy};

    #[test]
    fn an_id_is_written_and_read_as_a_uuid_of_version_7() {
        let id = EventId::new(&SystemClock::new(), &SystemEntropy);
        let text = id.to_string();
        assert_eq!((text.len(), &text[14..15]), (36, "7"));
        assert!(matches!(&text[19..20], "8" | "9" | "a" | "b"), "{text}");
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(text.replace('-', "").to_uppercase().parse(), Ok(id));
        for bad in ["", "0", &text[1..], &text.replace('-', "_"), &text.replace('7', "g")] {
            assert_eq!(bad.parse::<EventId>(), Err(EventError::Id), "{bad}");
        }
    }

    #[test]
    fn what_breaks_a_bound_is_named() {
        let id = EventId::from_bytes([0; 16]);
        let lane = Lane::new("order", "7").unwrap();
        let event = Event::new(id, lane.clone(), "Placed", None).unwrap();
        let large = Bytes::from(vec![0; Event::PAYLOAD_MAX + 1]);
        let too_large = Event::new(id, lane.clone(), "Placed", Some(large)).unwrap_err();
        assert_eq!(too_large.code(), "event-too-large");
        assert_eq!(Event::new(id, lane, "", None).unwrap_err().code(), "event-empty");
        let mut bad = event;
        bad.headers.push(("a".into(), "b\r\nc".into()));
        assert_eq!(bad.check().unwrap_err().code(), "event-character");
        assert!(Lane::new("", "7").is_err() && Lane::new("a", "x".repeat(256)).is_err());
    }
}
