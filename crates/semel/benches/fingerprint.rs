//! The fingerprint of a JSON body against `serde_json` parsing the same body into a `Value`.
//!
//! Prints the ratio of the medians over interleaved rounds; at most 1 is wanted. The time to drop the `Value` is not
//! counted. `cargo bench -p semel --bench fingerprint -- --json` prints one JSON object instead.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::error::Error;
use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

use semel::fingerprint::{Command, CommandBody, Plan};
use serde_json::Value;

const ROUNDS: usize = 41;
/// How much text one round reads.
const ROUND_BYTES: usize = 4 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let json = std::env::args().any(|argument| argument == "--json");
    let mut lines = Vec::new();
    for (size, bytes) in [("1 KiB", 1 << 10), ("1 MiB", 1 << 20)] {
        for (shape, body) in [
            ("compact", compact(bytes)),
            ("pretty", pretty(&compact(bytes))?),
            ("numbers", numbers(bytes)),
            ("prose", prose(bytes)),
        ] {
            let (ours, theirs) = measure(body.as_bytes())?;
            lines.push(Line { size, shape, bytes: body.len(), ours, theirs });
        }
    }
    print!("{}", if json { as_json(&lines) } else { as_table(&lines) });
    Ok(())
}

struct Line {
    size: &'static str,
    shape: &'static str,
    bytes: usize,
    ours: Duration,
    theirs: Duration,
}

impl Line {
    fn ratio(&self) -> f64 {
        self.ours.as_secs_f64() / self.theirs.as_secs_f64()
    }
}

/// Takes the median time per body of ours and of `serde_json`, in interleaved rounds.
fn measure(body: &[u8]) -> Result<(Duration, Duration), Box<dyn Error>> {
    let plan = Plan::new();
    let repeats = u32::try_from(ROUND_BYTES / body.len()).unwrap_or(1).max(1);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let digest = || {
        let body = CommandBody::Json(black_box(body));
        plan.digest(&Command::new("POST", "/payments").body(body))
    };
    for _ in 0..ROUNDS {
        // Lets the allocator settle what the last round's values left behind, which is not ours to pay.
        black_box(digest()?);
        let start = Instant::now();
        for _ in 0..repeats {
            black_box(digest()?);
        }
        ours.push(start.elapsed() / repeats);

        let mut values = Vec::with_capacity(repeats as usize);
        let start = Instant::now();
        for _ in 0..repeats {
            values.push(serde_json::from_slice::<Value>(black_box(body))?);
        }
        theirs.push(start.elapsed() / repeats);
        black_box(values);
    }
    Ok((median(ours), median(theirs)))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// One payment as an API takes it, or a list of such, about `bytes` long.
fn compact(bytes: usize) -> String {
    let mut text = String::from(r#"{"request":"payout","items":["#);
    let mut nth = 0;
    while text.len() < bytes.saturating_sub(256) || nth == 0 {
        let lead = if nth == 0 { "" } else { "," };
        let amount = nth * 37 % 100_000;
        let _ = write!(
            text,
            r#"{lead}{{"orderId":"ord_{nth:08}","amount":{amount}.{:02},"currency":"EUR","customer":{{"id":{nth},"name":"Ana María Núñez","email":"ana.{nth}@example.com","vip":false}},"lines":[{{"sku":"A-{nth}","quantity":{},"price":19.5}},{{"sku":"B-7","quantity":1,"price":4}}],"note":"leave at the door, ring \"twice\"","reference":null,"capture":true}}"#,
            nth % 100,
            nth % 9 + 1,
        );
        nth += 1;
    }
    text.push_str("]}");
    text
}

fn pretty(text: &str) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&serde_json::from_str::<Value>(text)?)
}

fn numbers(bytes: usize) -> String {
    let mut text = String::from("[0");
    let mut state = 1_u64;
    while text.len() < bytes {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let _ = write!(text, ",{}.{:03},{}", state >> 44, state % 1_000, state >> 50);
    }
    text.push(']');
    text
}

/// Messages in a language with letters beyond ASCII, with escapes.
fn prose(bytes: usize) -> String {
    let words = "Übermorgen kommt der Händler — \\u00fcber die Brücke.\\nDann nicht mehr.";
    let mut text = String::from("[");
    let mut nth = 0;
    while text.len() < bytes.saturating_sub(120) || nth == 0 {
        let lead = if nth == 0 { "" } else { "," };
        let _ = write!(text, r#"{lead}{{"to":{nth},"subject":"Nachricht","text":"{words}"}}"#);
        nth += 1;
    }
    text.push(']');
    text
}

fn as_table(lines: &[Line]) -> String {
    let mut table = String::from("body             bytes    semel µs    Value µs    ratio\n");
    for line in lines {
        let (ours, theirs) = (line.ours.as_secs_f64() * 1e6, line.theirs.as_secs_f64() * 1e6);
        let (size, shape, bytes, ratio) = (line.size, line.shape, line.bytes, line.ratio());
        let _ = writeln!(
            table,
            "{size} {shape:<8} {bytes:>8} {ours:>11.2} {theirs:>11.2} {ratio:>8.3}"
        );
    }
    table
}

fn as_json(lines: &[Line]) -> String {
    let entry = |line: &Line| {
        serde_json::json!({
            "body": format!("{} {}", line.size, line.shape),
            "bytes": line.bytes,
            "semel_ns": line.ours.as_secs_f64() * 1e9,
            "value_ns": line.theirs.as_secs_f64() * 1e9,
            "ratio": line.ratio(),
        })
    };
    let entries: Vec<_> = lines.iter().map(entry).collect();
    format!("{}\n", serde_json::json!({ "bench": "fingerprint", "results": entries }))
}
