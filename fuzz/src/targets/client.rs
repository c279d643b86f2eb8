//! Any bytes as what a client writes to the gateway: what the upstream gets is one request per connection with one
//! length and one host, nothing of it speaks for Semel or for the client's connection, and no key runs twice.

use std::{cell::RefCell, collections::HashMap};

use super::key;
use crate::{
    gateway::{Served, parted},
    runtime,
};

/// Meant for one connection alone, or for Semel's own ears.
const NEVER: [&str; 8] = [
    "connection",
    "expect",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "semel-permit",
    "te",
    "upgrade",
];

#[derive(Default)]
struct Kept {
    served: Option<Served>,
    runs: HashMap<String, usize>,
}

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    thread_local! {
        static KEPT: RefCell<Kept> = RefCell::new(Kept::default());
    }
    runtime(async {
        let mut kept = KEPT.take();
        let served = Served::of(kept.served.take()).await;
        if served.input() == 1 {
            kept.runs.clear();
        }
        let last = b"\r\n\r\nGET /end HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let answer = served.exchange(&[data, last].concat()).await;
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", answer.escape_ascii());
        for request in served.seen() {
            sound(&request, &mut kept.runs);
        }
        kept.served = Some(served);
        KEPT.set(kept);
    });
}

fn sound(request: &[u8], runs: &mut HashMap<String, usize>) {
    let shown = || request.escape_ascii().to_string();
    let (head, body) = parted(request).expect("it was read whole");
    let mut lines = head.split('\n');
    let start: Vec<_> = lines.next().unwrap_or_default().split(' ').collect();
    assert!(start.len() == 3 && start[2] == "HTTP/1.1", "{}", shown());
    let headers: Vec<_> = lines.map(|line| line.split_once(':').expect("a header")).collect();
    let values = |name: &str| -> Vec<&str> {
        let met = headers.iter().filter(|(known, _)| *known == name);
        met.map(|(_, value)| value.trim()).collect()
    };
    let is_claimed = !values("semel-fence").is_empty();
    // What no key protects may change the protocol.
    let changes =
        !is_claimed && values("connection") == ["upgrade"] && values("upgrade").len() == 1;
    for (name, _) in &headers {
        if changes && ["connection", "upgrade"].contains(name) {
            continue;
        }
        let own = name.starts_with("semel-") && !["semel-fence", "semel-ask-first"].contains(name);
        assert!(!NEVER.contains(name) && !own, "{name} in {}", shown());
    }
    assert_eq!(values("host").len(), 1, "{}", shown());
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    match (&lengths[..], &codings[..]) {
        ([], []) => assert!(body.is_empty(), "{}", shown()),
        ([length], []) => assert_eq!(length.parse(), Ok(body.len()), "{}", shown()),
        ([], [coding]) => assert_eq!(*coding, "chunked", "{}", shown()),
        _ => panic!("several lengths: {}", shown()),
    }
    let segments: Vec<_> = start[1].split('?').next().unwrap_or_default().split('/').collect();
    assert!(!segments.contains(&"..") && !segments.contains(&"."), "{}", shown());
    if is_claimed {
        let keys = values("idempotency-key");
        let key = keys.first().and_then(|key| key::read(false, key.as_bytes()));
        let key = key.unwrap_or_else(|| panic!("a claim without a key: {}", shown()));
        let count = runs.entry(key).or_default();
        *count += 1;
        assert_eq!(*count, 1, "the key ran again: {}", shown());
    }
}
