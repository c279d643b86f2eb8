//! What an answer means to a client that keeps its key: done, later, refused.

use std::time::Duration;

use super::exchange::{Answer, Got};
use crate::plan::Expected;

/// The longest that an answer may ask to wait, as a drill obeys it.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);

/// What a client takes from what it got.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Judged {
    /// A first run's answer, or its replay.
    Done(Answer),
    /// The same key again, later: it still runs, or cannot be asked now. How long to wait, if said.
    Later(Option<Duration>),
    /// The key was used with other content.
    Mismatch,
    /// Nothing that says whether it was done: no answer, or a server's error.
    Nothing,
    /// Any other refusal.
    Refused,
    /// Nobody can know whether it was done.
    Unknown,
}

/// Judges by the statuses that are documented.
pub(crate) fn judge(expected: &Expected, got: &Got) -> Judged {
    let Some(answer) = got.answer() else { return Judged::Nothing };
    let status = answer.status;
    if expected.first.contains(&status) {
        return Judged::Done(answer.clone());
    }
    if is_unknown(expected, answer) {
        return Judged::Unknown;
    }
    if is_later(expected, status) {
        return Judged::Later(retry_after(answer));
    }
    if expected.mismatch.contains(&status) {
        return Judged::Mismatch;
    }
    if status >= 500 { Judged::Nothing } else { Judged::Refused }
}

/// Judges as [`judge`] does, for a request whose content the key was not used with: where a status is
/// documented for both, it says "mismatch" and not "later".
pub(crate) fn judge_other(expected: &Expected, got: &Got) -> Judged {
    if is_mismatch(expected, got) { Judged::Mismatch } else { judge(expected, got) }
}

/// Says whether an answer is a documented "not the content that this key was used with".
pub(crate) fn is_mismatch(expected: &Expected, got: &Got) -> bool {
    got.answer().is_some_and(|answer| expected.mismatch.contains(&answer.status))
}

/// Says whether a status is documented to ask for the same key again.
pub(crate) fn is_later(expected: &Expected, status: u16) -> bool {
    expected.in_progress.contains(&status) || expected.retry.contains(&status)
}

/// Says how long to wait, if that is said, where the server itself answers "not now": by 429 or 503,
/// unless that is documented as an answer of the operation.
pub(crate) fn busy(expected: &Expected, got: &Got) -> Option<Option<Duration>> {
    let answer = got.said()?;
    let own = [
        &expected.first,
        &expected.mismatch,
        &expected.in_progress,
        &expected.missing_key,
        &expected.bad_key,
        &expected.late,
    ];
    let is_busy = matches!(answer.status, 429 | 503)
        && !is_unknown(expected, answer)
        && !own.iter().any(|own| own.contains(&answer.status));
    is_busy.then(|| retry_after(answer))
}

fn is_unknown(expected: &Expected, answer: &Answer) -> bool {
    let Some((pointer, value)) = &expected.unknown else { return false };
    answer.at(pointer).as_ref() == Some(value)
}

/// Reads `Retry-After` in seconds; a date is as good as nothing said, since clocks differ.
fn retry_after(answer: &Answer) -> Option<Duration> {
    let seconds = answer.header("retry-after")?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}
