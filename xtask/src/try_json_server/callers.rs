//! Callers that come at once with the same key, and come back until they have the answer.

use std::net::SocketAddr;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::client::{self, Answer};

/// How many come at once.
pub(super) const CALLERS: usize = 50;

/// How long a caller comes back at most, and how often.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

const KEY: &str = "order-7-first-attempt";
const BODY: &str = r#"{"order":"7","amount":"9.50"}"#;

/// Where they go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) address: SocketAddr,
    pub(super) path: &'a str,
}

/// What one of them met.
#[derive(Debug)]
pub(super) struct Caller {
    /// How often it was told that the first one still runs.
    pub(super) sent_away: usize,
    pub(super) answer: Result<Answer>,
}

/// Sends all of them at the same moment and waits until each has its answer.
pub(super) fn at_once(call: &Call<'_>) -> Vec<Caller> {
    let start = Barrier::new(CALLERS);
    thread::scope(|scope| {
        let one = || {
            start.wait();
            let mut sent_away = 0;
            let answer = until_answered(call, &mut sent_away);
            Caller { sent_away, answer }
        };
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(one)).collect();
        let lost = |_| Caller { sent_away: 0, answer: Err(anyhow::anyhow!("a caller panicked")) };
        callers.into_iter().map(|caller| caller.join().unwrap_or_else(lost)).collect()
    })
}

fn until_answered(call: &Call<'_>, sent_away: &mut usize) -> Result<Answer> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = client::send(call.address, "POST", call.path, Some(KEY), BODY)?;
        if answer.status != 409 {
            return Ok(answer);
        }
        *sent_away += 1;
        if Instant::now() > deadline {
            bail!("still 409 after {} s", PATIENCE.as_secs());
        }
        thread::sleep(PAUSE);
    }
}
