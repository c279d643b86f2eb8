//! Any bytes as a body of any kind behind the HTTP layer: the same request twice acts once, another body under the key
//! never acts, and a refused body runs nothing.
//!
//! The first byte chooses media type and content coding; a line of `--` parts two bodies.

use crate::behind::{Behind, Kept, drive};

static KEPT: Kept = Kept::new(None);

const TYPES: [&[u8]; 7] = [
    b"application/json",
    b"application/merge-patch+json; charset=utf-8",
    b"application/x-www-form-urlencoded",
    b"multipart/form-data; boundary=b",
    b"multipart/form-data",
    b"text/plain",
    b"",
];
const CODINGS: [&[u8]; 5] = [b"", b"identity", b"gzip", b"deflate", b"br"];

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let choice = usize::from(*choice);
    let media_type = TYPES[choice % TYPES.len()];
    let coding = CODINGS[choice / TYPES.len() % CODINGS.len()];
    let parting = rest.windows(4).position(|window| window == b"\n--\n");
    let (one, other) = parting.map_or((rest, &b""[..]), |at| (&rest[..at], &rest[at + 4..]));
    let new = || Behind::new(|operation| operation);
    drive(&KEPT, new, async |behind: &Behind| check(behind, media_type, coding, one, other).await);
}

async fn check(behind: &Behind, media_type: &[u8], coding: &[u8], one: &[u8], other: &[u8]) {
    let mut headers: Vec<(&str, &[u8])> = vec![("idempotency-key", b"k")];
    for (name, value) in [("content-type", media_type), ("content-encoding", coding)] {
        if !value.is_empty() {
            headers.push((name, value));
        }
    }
    let first = behind.post(&headers, one).await;
    let again = behind.post(&headers, one).await;
    assert!(!first.replayed);
    if first.status.is_success() {
        assert_eq!((again.status, again.replayed, again.effects), (first.status, true, 1));
    } else {
        assert_eq!((first.effects, again), (0, first));
    }
    let changed = behind.post(&headers, other).await;
    assert!(changed.effects <= 1);
    if !first.status.is_success() && changed.status.is_success() {
        assert!(!changed.replayed, "a refused body used the key");
    }
}
