//! One message as it is sent to a receiver: fields, each behind its length.

use bytes::{Buf, BufMut, Bytes};
use semel::outbox::{Event, EventId, Lane};

pub(super) const CONFIRMED: u8 = 1;
pub(super) const REFUSED_DESTINATION: u8 = 2;
pub(super) const REFUSED_MESSAGE: u8 = 3;

/// A copy of an event that arrived.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Arrived {
    /// The name of the event.
    pub id: EventId,
    /// Whose event it is.
    pub lane: Lane,
    /// What it tells.
    pub payload: Option<Bytes>,
    /// What came beside it.
    pub headers: Vec<(Box<str>, Bytes)>,
}

impl Arrived {
    pub(super) fn write(event: &Event) -> Vec<u8> {
        let mut frame = vec![0; 4];
        frame.put_slice(event.id.as_bytes());
        field(&mut frame, event.lane.kind().as_bytes());
        field(&mut frame, event.lane.id().as_bytes());
        frame.put_u8(u8::from(event.payload.is_some()));
        field(&mut frame, event.payload.as_deref().unwrap_or_default());
        for (name, value) in &event.headers {
            field(&mut frame, name.as_bytes());
            field(&mut frame, value.as_bytes());
        }
        let len = u32::try_from(frame.len() - 4).expect("an event is small");
        frame[..4].copy_from_slice(&len.to_be_bytes());
        frame
    }

    pub(super) fn read(frame: &[u8]) -> Option<Self> {
        let mut rest = frame;
        let id = EventId::from_bytes(rest.get(..16)?.try_into().ok()?);
        rest.advance(16);
        let kind = text(&mut rest)?;
        let lane = Lane::new(kind, text(&mut rest)?).ok()?;
        let is_some = *rest.first()? == 1;
        rest.advance(1);
        let payload = taken(&mut rest)?;
        let payload = is_some.then(|| Bytes::copy_from_slice(payload));
        let mut headers = Vec::new();
        while !rest.is_empty() {
            let name = text(&mut rest)?.into();
            headers.push((name, Bytes::copy_from_slice(taken(&mut rest)?)));
        }
        Some(Self { id, lane, payload, headers })
    }
}

fn field(frame: &mut Vec<u8>, bytes: &[u8]) {
    frame.put_u32(u32::try_from(bytes.len()).expect("a field is small"));
    frame.put_slice(bytes);
}

fn taken<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = u32::from_be_bytes(rest.get(..4)?.try_into().ok()?) as usize;
    let field = rest.get(4..4 + len)?;
    *rest = &rest[4 + len..];
    Some(field)
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(taken(rest)?).ok()
}
