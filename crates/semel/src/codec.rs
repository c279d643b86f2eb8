//! The bytes of an outcome at rest, versioned. Nothing else reads or writes them.
//!
//! Version 1, all numbers big-endian:
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | version, 1 |
//! | 4 | first four bytes of the SHA-256 of everything after them |
//! | 2 | status |
//! | 2 | number of headers; for each: 2 + name, 4 + value |
//! | 1 | body: 0 not kept, 1 kept: 4 + body |
//! | 1 | pointer: 0 none, 1 one: 1 + kind, 1 + id |
//!
//! A version once written is read for ever: the golden files beside the tests are only added to.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::outcome::{Body, Header, Outcome, Pointer};

const V1: u8 = 1;

/// Says why stored bytes cannot be read.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum CodecError {
    /// The bytes do not agree with their checksum or their own lengths.
    #[error("the stored outcome is damaged")]
    Damaged,
    /// The bytes were written by a newer version.
    #[error("the stored outcome has version {0}, which this version cannot read")]
    Version(u8),
}

/// Makes the bytes of an outcome. Bounds that [`Outcome::broken_bound`] names are the caller's to
/// check first; what is past them is cut.
#[must_use]
pub fn encode(outcome: &Outcome) -> Vec<u8> {
    let mut body = Vec::with_capacity(64);
    body.extend(outcome.status.to_be_bytes());
    let headers = &outcome.headers[..outcome.headers.len().min(Outcome::HEADERS_MAX)];
    body.extend(short(headers.len()).to_be_bytes());
    for header in headers {
        let name = &header.name.as_bytes()[..header.name.len().min(usize::from(u16::MAX))];
        body.extend(short(name.len()).to_be_bytes());
        body.extend(name);
        long(&mut body, &header.value);
    }
    match &outcome.body {
        Body::NotKept => body.push(0),
        Body::Kept(bytes) => {
            body.push(1);
            long(&mut body, bytes);
        }
    }
    match &outcome.pointer {
        None => body.push(0),
        Some(pointer) => {
            body.push(1);
            tiny(&mut body, &pointer.kind);
            tiny(&mut body, &pointer.id);
        }
    }
    let mut bytes = vec![V1];
    bytes.extend(checksum(&body));
    bytes.extend(body);
    bytes
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    let digest = Sha256::digest(bytes);
    [digest[0], digest[1], digest[2], digest[3]]
}

fn short(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

fn long(into: &mut Vec<u8>, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    into.extend(len.to_be_bytes());
    into.extend(bytes);
}

fn tiny(into: &mut Vec<u8>, text: &str) {
    let len = u8::try_from(text.len()).unwrap_or(u8::MAX);
    into.push(len);
    into.extend(&text.as_bytes()[..usize::from(len)]);
}

/// Reads the bytes of an outcome.
///
/// # Errors
///
/// Returns a [`CodecError`] if the bytes are damaged or newer than this version.
pub fn decode(bytes: &[u8]) -> Result<Outcome, CodecError> {
    let (&version, rest) = bytes.split_first().ok_or(CodecError::Damaged)?;
    if version != V1 {
        return Err(CodecError::Version(version));
    }
    let (sum, body) = rest.split_at_checked(4).ok_or(CodecError::Damaged)?;
    if sum != checksum(body) {
        return Err(CodecError::Damaged);
    }
    let mut reader = Reader(body);
    let outcome = reader.outcome().ok_or(CodecError::Damaged)?;
    if reader.0.is_empty() { Ok(outcome) } else { Err(CodecError::Damaged) }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn outcome(&mut self) -> Option<Outcome> {
        let status = self.short()?;
        let headers = (0..self.short()?).map(|_| self.header()).collect::<Option<_>>()?;
        let body = match self.byte()? {
            0 => Body::NotKept,
            1 => Body::Kept(self.long()?),
            _ => return None,
        };
        let pointer = match self.byte()? {
            0 => None,
            1 => Some(Pointer { kind: self.tiny()?, id: self.tiny()? }),
            _ => return None,
        };
        Some(Outcome { status, headers, body, pointer })
    }

    fn header(&mut self) -> Option<Header> {
        let len = usize::from(self.short()?);
        let name = std::str::from_utf8(self.take(len)?).ok()?.into();
        Some(Header { name, value: self.long()? })
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn short(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    fn long(&mut self) -> Option<Bytes> {
        let len = u32::from_be_bytes(self.take(4)?.try_into().ok()?);
        self.take(usize::try_from(len).ok()?).map(Bytes::copy_from_slice)
    }

    fn tiny(&mut self) -> Option<Box<str>> {
        let len = usize::from(self.byte()?);
        std::str::from_utf8(self.take(len)?).ok().map(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN_V1: &[u8] = include_bytes!("testdata/outcome.v1.bin");

    fn sample() -> Outcome {
        Outcome::new(201, "{\"id\":7}\n")
            .header("content-type", "application/json")
            .header("link", "</a>; rel=next")
            .header("link", "</b>; rel=prev")
            .pointer("payment", "pay_7")
    }

    #[test]
    fn what_version_1_wrote_is_read_for_ever() {
        assert_eq!(decode(GOLDEN_V1), Ok(sample()));
        assert_eq!(encode(&sample()), GOLDEN_V1);
    }

    #[test]
    fn every_outcome_comes_back_equal() {
        let all: Bytes = (0..=255).collect::<Vec<u8>>().into();
        for outcome in [
            Outcome::new(204, ""),
            Outcome::new(0, all.clone()),
            Outcome::without_body(200),
            Outcome::new(302, "").header("location", all),
        ] {
            assert_eq!(decode(&encode(&outcome)), Ok(outcome));
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_is_noticed() {
        for at in 0..GOLDEN_V1.len() {
            let mut bytes = GOLDEN_V1.to_vec();
            bytes[at] ^= 1;
            assert!(decode(&bytes).is_err(), "byte {at}");
            assert!(decode(&GOLDEN_V1[..at]).is_err(), "cut at {at}");
        }
        assert_eq!(decode(&[9]), Err(CodecError::Version(9)));
    }
}
