//! A record as one string, versioned. Nothing else reads or writes it but the scripts, which put times, the fence
//! and the state into their places.
//!
//! Version 1, all numbers big-endian, an absent instant is all ones, an absent text has the length 65535:
//!
//! | bytes from | bytes | meaning |
//! |---|---|---|
//! | 0 | 1 | version, 1 |
//! | 1 | 1 | the first letter of the state |
//! | 2 | 16 | token |
//! | 18 | 8 | fence |
//! | 26 | 8 | when the lease was renewed |
//! | 34 | 8 | how long the lease lasts |
//! | 42 | 8 | when it was claimed |
//! | 50 | 8 | when it was first claimed |
//! | 58 | 8 | when it was settled |
//! | 66 | 8 | until when it is replayed |
//! | 74 | 8 | until when it is remembered |
//! | 82 | 4 | take-overs |
//! | 86 | 4 | incarnation |
//! | 90 | 1 | 1: compare; 2: resolved |
//! | 91 | 16 | the id of the resolution |
//! | 107 | 8 | plan of the fingerprint |
//! | 115 | 32 | digest of the fingerprint |
//! | 147 | 2 + n | who claimed it |
//! | then | 2 + n each | reason, kind and id of the pointer |
//!
//! The outcome lies under a key of its own, as `semel::codec` writes it, so that it can end before its record.

use std::time::Duration;

use semel::{
    Fence, Fingerprint, IntentId, Lease, Record, State, Timestamp, Token, codec, decide::Ask,
    fingerprint::PlanId, outcome::Pointer,
};

use crate::error::{Fault, damaged};

const V1: u8 = 1;
/// The largest version there may ever be: what begins with a letter is none.
const VERSION_MAX: u8 = 31;
/// What an absent text has for its length.
const NONE: u16 = u16::MAX;
const COMPARE: u8 = 1;
const RESOLVED: u8 = 2;

/// Makes the bytes of a record, without its outcome.
pub(crate) fn bytes(record: &Record) -> Vec<u8> {
    let mut to = Vec::with_capacity(256);
    to.extend([V1, letter(record.state)]);
    to.extend(record.token.as_bytes());
    to.extend(record.fence.get().to_be_bytes());
    to.extend(instant(record.lease.renewed_at));
    to.extend(span(record.lease.length).to_be_bytes());
    to.extend(instant(record.claimed_at));
    to.extend(instant(record.created_at));
    to.extend(record.settled_at.map_or([u8::MAX; 8], instant));
    to.extend(instant(record.replay_until));
    to.extend(instant(record.remember_until));
    to.extend(record.takeovers.to_be_bytes());
    to.extend(record.incarnation.to_be_bytes());
    let compare = if record.compare { COMPARE } else { 0 };
    to.push(compare | record.resolved_by.map_or(0, |_| RESOLVED));
    to.extend(record.resolved_by.unwrap_or_default());
    to.extend(record.fingerprint.plan().as_bytes());
    to.extend(record.fingerprint.digest());
    text(&mut to, record.claimed_by.as_deref());
    to.extend(rest(record.reason.as_deref(), record.pointer.as_ref()));
    to
}

/// Makes the bytes that follow who claimed it.
pub(crate) fn rest(reason: Option<&str>, pointer: Option<&Pointer>) -> Vec<u8> {
    let mut to = Vec::new();
    text(&mut to, reason);
    text(&mut to, pointer.map(|pointer| &*pointer.kind));
    text(&mut to, pointer.map(|pointer| &*pointer.id));
    to
}

/// Makes the bytes of a claim that finds nothing stored, but for what only the server knows.
pub(crate) fn blank(ask: &Ask) -> Vec<u8> {
    let permit = semel::Permit {
        id: ask.id.clone(),
        token: ask.token,
        fence: Fence::default(),
        incarnation: 0,
    };
    let mut record = Record::held_by(&permit);
    record.fingerprint = ask.fingerprint;
    record.lease.length = ask.lease;
    record.claimed_by.clone_from(&ask.claimed_by);
    bytes(&record)
}

/// Reads a record and its outcome.
pub(crate) fn record(id: IntentId, bytes: &[u8], outcome: Option<&[u8]>) -> Result<Record, Fault> {
    let mut from = Reader(bytes);
    let mut record = from.head(id)?;
    let resolved_by: [u8; 16] = from.take()?;
    record.resolved_by = record.resolved_by.map(|_| resolved_by);
    record.fingerprint = Fingerprint::new(PlanId::new(from.take()?), from.take()?);
    record.claimed_by = from.text()?;
    record.reason = from.text()?;
    record.pointer = from.text()?.zip(from.text()?).map(|(kind, id)| Pointer { kind, id });
    if !from.0.is_empty() {
        return Err(damaged("a record is longer than it says; restore a backup").into());
    }
    record.outcome = outcome.map(codec::decode).transpose()?;
    Ok(record)
}

/// Says whether a record has ended: only then what lies under the key of its outcome is its outcome.
pub(crate) fn is_ended(bytes: &[u8]) -> bool {
    let ended = [State::Done, State::Failed].map(letter);
    bytes.get(1).is_some_and(|state| ended.contains(state))
}

/// Reads the beginning of a record: what tells its state and times. The rest stays empty.
pub(crate) fn head(id: IntentId, bytes: &[u8]) -> Result<Record, Fault> {
    Reader(bytes).head(id)
}

/// Returns a span in microseconds, rounded up: a lease must not end before its holder thinks.
pub(crate) fn span(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX).min(i64::MAX as u64)
}

pub(crate) const fn letter(state: State) -> u8 {
    match state {
        State::Done => b'd',
        State::Failed => b'f',
        State::Open => b'o',
        State::Running => b'r',
        State::Unknown => b'u',
    }
}

fn state(letter: u8) -> Result<State, Fault> {
    let states = [State::Done, State::Failed, State::Open, State::Running, State::Unknown];
    let state = states.into_iter().find(|state| self::letter(*state) == letter);
    Ok(state.ok_or_else(|| damaged("a record has an unknown state; upgrade or restore"))?)
}

const fn instant(instant: Timestamp) -> [u8; 8] {
    instant.as_micros().to_be_bytes()
}

pub(crate) fn text(to: &mut Vec<u8>, text: Option<&str>) {
    let bytes = text.map(str::as_bytes);
    let len = bytes.map_or(NONE, |bytes| u16::try_from(bytes.len()).unwrap_or(NONE - 1));
    to.extend(len.to_be_bytes());
    let bytes = bytes.unwrap_or_default();
    to.extend(&bytes[..bytes.len().min(usize::from(len))]);
}

fn short() -> semel::StoreError {
    damaged("a stored record is cut short; restore a backup")
}

/// Takes bytes from the front.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    fn head(&mut self, id: IntentId) -> Result<Record, Fault> {
        let [version] = self.take()?;
        if version != V1 {
            if version > VERSION_MAX {
                return Err(damaged("a stored record is none of semel's; find out who wrote it, or restore a backup").into());
            }
            return Err(Fault::version(version));
        }
        let [letter] = self.take()?;
        let state = state(letter)?;
        let token = Token::from_bytes(self.take()?);
        let fence = Fence::new(self.number()?);
        let permit = semel::Permit { id, token, fence, incarnation: 0 };
        let mut record = Record::held_by(&permit);
        record.state = state;
        record.lease =
            Lease { renewed_at: self.instant()?, length: Duration::from_micros(self.number()?) };
        record.claimed_at = self.instant()?;
        record.created_at = self.instant()?;
        let settled_at = self.number()?;
        record.settled_at = (settled_at != u64::MAX).then(|| Timestamp::from_micros(settled_at));
        record.replay_until = self.instant()?;
        record.remember_until = self.instant()?;
        record.takeovers = u32::from_be_bytes(self.take()?);
        record.incarnation = u32::from_be_bytes(self.take()?);
        let [flags] = self.take()?;
        record.compare = flags & COMPARE != 0;
        record.resolved_by = (flags & RESOLVED != 0).then_some([0; 16]);
        Ok(record)
    }

    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(short)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Fault> {
        self.take().map(u64::from_be_bytes)
    }

    pub(crate) fn instant(&mut self) -> Result<Timestamp, Fault> {
        self.number().map(Timestamp::from_micros)
    }

    pub(crate) fn text(&mut self) -> Result<Option<Box<str>>, Fault> {
        let len = u16::from_be_bytes(self.take()?);
        if len == NONE {
            return Ok(None);
        }
        let (text, rest) = self.0.split_at_checked(usize::from(len)).ok_or_else(short)?;
        self.0 = rest;
        let text = std::str::from_utf8(text);
        let text = text.map_err(|_| damaged("a stored text is not UTF-8; restore a backup"))?;
        Ok(Some(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use semel::{Key, Operation, Outcome, Scope, Tenant};

    use super::*;

    const GOLDEN_V1: &[u8] = include_bytes!("testdata/record.v1.bin");

    fn id() -> IntentId {
        let scope = Scope::new(Tenant::new("acme").unwrap(), Operation::new("pay").unwrap());
        scope.intent(Key::new("k").unwrap())
    }

    /// A record with something in every place.
    fn sample() -> Record {
        Record {
            id: id(),
            state: State::Failed,
            token: Token::from_bytes([7; 16]),
            fence: Fence::new(1_700_000_000_000_001),
            fingerprint: Fingerprint::new(PlanId::new([3; 8]), [9; 32]),
            lease: Lease {
                renewed_at: Timestamp::from_micros(1_700_000_000_000_000),
                length: Duration::from_secs(30),
            },
            takeovers: 2,
            compare: true,
            incarnation: 5,
            created_at: Timestamp::from_micros(1_600_000_000_000_000),
            claimed_at: Timestamp::from_micros(1_700_000_000_000_000),
            settled_at: Some(Timestamp::from_micros(1_700_000_000_500_000)),
            claimed_by: Some("request-1".into()),
            reason: Some("resolved".into()),
            resolved_by: Some([4; 16]),
            outcome: None,
            pointer: Some(Pointer { kind: "payment".into(), id: "pay_7".into() }),
            replay_until: Timestamp::from_micros(1_800_000_000_000_000),
            remember_until: Timestamp::MAX,
        }
    }

    #[test]
    fn what_version_1_wrote_is_read_for_ever() {
        assert_eq!(record(id(), GOLDEN_V1, None).unwrap(), sample());
        assert_eq!(bytes(&sample()), GOLDEN_V1);
    }

    #[test]
    fn every_record_comes_back_equal() {
        let mut empty = sample();
        empty.state = State::Open;
        empty.settled_at = None;
        empty.claimed_by = Some("".into());
        (empty.reason, empty.resolved_by, empty.pointer) = (None, None, None);
        empty.compare = false;
        for wanted in [sample(), empty] {
            assert_eq!(record(id(), &bytes(&wanted), None).unwrap(), wanted);
        }
        let mut ended = sample();
        ended.outcome = Some(Outcome::new(402, "no"));
        let outcome = ended.outcome.as_ref().map(codec::encode);
        assert_eq!(record(id(), &bytes(&ended), outcome.as_deref()).unwrap(), ended);
    }

    #[test]
    fn a_record_cut_anywhere_is_damaged_and_a_newer_one_is_told_apart() {
        for at in 0..GOLDEN_V1.len() {
            assert!(record(id(), &GOLDEN_V1[..at], None).is_err(), "cut at {at}");
        }
        let longer = [GOLDEN_V1, &[0]].concat();
        assert!(record(id(), &longer, None).is_err());
        let newer = [&[2], &GOLDEN_V1[1..]].concat();
        let error = semel::StoreError::from(record(id(), &newer, None).unwrap_err());
        assert_eq!(error.kind(), semel::StoreErrorKind::Version);
    }
}
