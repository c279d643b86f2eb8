//! What an answer says about its effect: one total table.
//!
//! What is kept is an outcome; what is released ran without effect; what may have acted is never run
//! again by guess (`on_lost` decides). The table, in [`ROWS`]:
//!
#![doc = include_str!("testdata/classes.md")]
//!
//! A status that no row lists may have acted. A handler that knows better says so by [`Effect`].
//!
//! The last column holds for a bridged operation whose application has not completed its permit
//! ([`undone`]); what it has completed is sent as it was stored, whatever the status.

use std::borrow::Cow;

use http::StatusCode;

use crate::operation::{Keep, ServerError};

/// What a handler says about its effect, where the status alone would say something else. It puts it
/// into the extensions of its response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// The answer is final, whatever its status: it is kept and replayed.
    Final,
    /// Certainly nothing happened: the intent may be tried again.
    None,
    /// Nobody can say.
    Unknown,
}

impl Effect {
    /// Reads the value of the header `Semel-Effect`. A word that is not known says that nobody can
    /// say.
    #[must_use]
    pub fn from_word(word: &[u8]) -> Self {
        match word.trim_ascii() {
            b"final" => Self::Final,
            b"none" => Self::None,
            _ => Self::Unknown,
        }
    }
}

/// Why nobody can say whether there was an effect, for whoever has to find out. A handler puts it into
/// the extensions of its response; it is kept with the record and logged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reason {
    pub(crate) code: Cow<'static, str>,
    pub(crate) upstream: Option<Box<str>>,
}

impl Reason {
    /// Makes a reason of a short, stable code such as `upstream-timeout`.
    #[must_use]
    pub fn new(code: impl Into<Cow<'static, str>>) -> Self {
        Self { code: code.into(), upstream: None }
    }

    /// Says which service it happened with.
    #[must_use]
    pub fn of(mut self, upstream: &str) -> Self {
        self.upstream = Some(upstream.into());
        self
    }
}

/// How a run ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ending {
    /// It is kept as a success.
    Done,
    /// It is kept as a final failure.
    Failed,
    /// It may have acted.
    MayHaveActed,
    /// It had no effect.
    Release,
}

/// What a status says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Class {
    /// A failure that another try would not change.
    Final,
    /// Nothing happened: the request was not taken, the caller not let in, or it is too early.
    NotDone,
    /// The handler failed: it may have acted before it did.
    ServerError,
    /// It was done.
    Success,
    /// Nobody can say.
    Unlisted,
}

/// Every status that is listed, by ranges, with what it says and why.
pub const ROWS: &[(u16, u16, Class, &str)] = &[
    (200, 299, Class::Success, "success"),
    (300, 399, Class::Success, "a redirect is an answer too"),
    (400, 401, Class::NotDone, "not valid, not authenticated"),
    (402, 402, Class::Final, "payment refused"),
    (403, 407, Class::NotDone, "not allowed, not found, not offered"),
    (409, 410, Class::Final, "a conflict with what is there, such as out of stock; gone"),
    (411, 411, Class::NotDone, "length wanted"),
    (412, 412, Class::Final, "the precondition does not hold"),
    (413, 417, Class::NotDone, "not taken"),
    (421, 423, Class::NotDone, "misdirected, not valid, locked"),
    (425, 426, Class::NotDone, "too early, another protocol wanted"),
    (428, 429, Class::NotDone, "precondition wanted, too many requests"),
    (431, 431, Class::NotDone, "headers too large"),
    (451, 451, Class::Final, "refused by law"),
    (500, 500, Class::ServerError, "a fault of the handler"),
    (501, 501, Class::NotDone, "not implemented"),
    (502, 504, Class::ServerError, "an upstream that failed may have acted"),
    (505, 505, Class::NotDone, "version of HTTP"),
    (506, 511, Class::ServerError, "a fault of the handler"),
];

/// Says what a status means.
#[must_use]
pub fn class(status: StatusCode) -> Class {
    let status = status.as_u16();
    ROWS.iter()
        .find(|(first, last, ..)| (*first..=*last).contains(&status))
        .map_or(Class::Unlisted, |(_, _, class, _)| *class)
}

/// Says how a run ends, of what it answered, what it said, and what holds for the operation.
#[must_use]
pub fn ending(
    status: StatusCode,
    effect: Option<Effect>,
    keep: Keep,
    server_error: ServerError,
) -> Ending {
    match (effect, class(status)) {
        (Some(Effect::None), _) => Ending::Release,
        (Some(Effect::Unknown), _) => Ending::MayHaveActed,
        (Some(Effect::Final), Class::Success) | (None, Class::Success) => Ending::Done,
        (Some(Effect::Final), _) => Ending::Failed,
        (None, Class::Final) if keep == Keep::Definite => Ending::Failed,
        (None, Class::Final | Class::NotDone) => Ending::Release,
        (None, Class::ServerError) if server_error == ServerError::Retry => Ending::Release,
        (None, Class::ServerError | Class::Unlisted) => Ending::MayHaveActed,
    }
}

/// How a bridged run ends that its application has not ended in its transaction. What the application
/// did end is sent as it stored it, and no status says otherwise.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Undone {
    /// It answered that it was done: nobody can say what happened, and it is never run again by guess.
    Breach,
    /// It says that something outside of its transaction may have happened.
    Doubt,
    /// It says that its failure is final.
    Fail,
    /// Its transaction was rolled back, so that nothing happened.
    Release,
}

/// Says how a bridged run ends that its application has not ended, of what it answered and said.
#[must_use]
pub fn undone(status: StatusCode, effect: Option<Effect>) -> Undone {
    match (effect, class(status)) {
        (Some(Effect::None), _) => Undone::Release,
        (Some(Effect::Unknown), _) => Undone::Doubt,
        (Some(Effect::Final) | None, Class::Success) => Undone::Breach,
        (Some(Effect::Final), _) => Undone::Fail,
        (None, _) => Undone::Release,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    const KEEPS: [Keep; 2] = [Keep::Definite, Keep::SuccessOnly];
    const ERRORS: [ServerError; 2] = [ServerError::Unknown, ServerError::Retry];

    fn word(ending: Ending) -> &'static str {
        match ending {
            Ending::Done => "keep as done",
            Ending::Failed => "keep as failed",
            Ending::MayHaveActed => "may have acted",
            Ending::Release => "release",
        }
    }

    fn word_undone(undone: Undone) -> &'static str {
        match undone {
            Undone::Breach => "unknown",
            Undone::Doubt => "may have acted",
            Undone::Fail => "keep as failed",
            Undone::Release => "release",
        }
    }

    fn table() -> String {
        let mut text = String::from(
            "| status | why | default | `keep = success_only` | `server_error = retry` | `bridged`, not completed |\n\
             |---|---|---|---|---|---|\n",
        );
        let mut line = |statuses: &str, why: &str, status: u16| {
            let end = |keep, error| {
                word(ending(StatusCode::from_u16(status).unwrap(), None, keep, error))
            };
            let cells = [
                end(Keep::Definite, ServerError::Unknown),
                end(Keep::SuccessOnly, ServerError::Unknown),
                end(Keep::Definite, ServerError::Retry),
                word_undone(undone(StatusCode::from_u16(status).unwrap(), None)),
            ];
            writeln!(text, "| {statuses} | {why} | {} |", cells.join(" | ")).unwrap();
        };
        for (first, last, _, why) in ROWS {
            let statuses =
                if first == last { first.to_string() } else { format!("{first}–{last}") };
            line(&statuses, why, *first);
        }
        line("every other", "not listed", 599);
        text
    }

    #[test]
    fn the_table_in_the_documentation_is_the_table() {
        assert_eq!(table(), include_str!("testdata/classes.md"));
    }

    #[test]
    fn every_status_has_one_ending_and_no_two_rows_meet() {
        for pair in ROWS.windows(2) {
            assert!(pair[0].1 < pair[1].0, "{pair:?}");
        }
        for code in 100..=599 {
            let status = StatusCode::from_u16(code).unwrap();
            for (keep, error) in KEEPS.into_iter().flat_map(|k| ERRORS.map(|e| (k, e))) {
                let end = |effect| ending(status, effect, keep, error);
                let kept = matches!(end(None), Ending::Done | Ending::Failed);
                assert_eq!(end(None) == Ending::Done, (200..400).contains(&code), "{code}");
                assert!(!kept || code < 500, "a server error is never kept by itself: {code}");
                assert_eq!(end(Some(Effect::None)), Ending::Release);
                assert_eq!(end(Some(Effect::Unknown)), Ending::MayHaveActed);
                let last =
                    if code / 100 == 2 || code / 100 == 3 { Ending::Done } else { Ending::Failed };
                assert_eq!(end(Some(Effect::Final)), last);
            }
        }
        let unlisted = [100, 101, 408, 418, 424, 499, 512, 599];
        for code in unlisted {
            assert_eq!(class(StatusCode::from_u16(code).unwrap()), Class::Unlisted, "{code}");
        }
    }

    #[test]
    fn only_a_success_without_completion_breaks_the_contract_of_a_bridge() {
        for code in 100..=599 {
            let status = StatusCode::from_u16(code).unwrap();
            let is_success = (200..400).contains(&code);
            let says = |effect| undone(status, effect);
            assert_eq!(says(None) == Undone::Breach, is_success, "{code}");
            assert_eq!(says(None) == Undone::Release, !is_success, "{code}");
            assert_eq!(says(Some(Effect::None)), Undone::Release);
            assert_eq!(says(Some(Effect::Unknown)), Undone::Doubt);
            let last = if is_success { Undone::Breach } else { Undone::Fail };
            assert_eq!(says(Some(Effect::Final)), last);
        }
    }

    #[test]
    fn a_word_that_is_not_known_says_that_nobody_can_say() {
        assert_eq!(Effect::from_word(b" none "), Effect::None);
        assert_eq!(Effect::from_word(b"final"), Effect::Final);
        for word in [&b"unknown"[..], b"None", b"", b"none, final"] {
            assert_eq!(Effect::from_word(word), Effect::Unknown);
        }
    }
}
