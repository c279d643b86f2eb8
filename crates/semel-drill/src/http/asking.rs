//! How a scenario asks: "not now" is waited out, no answer is no verdict, and a server's error at the
//! start is left behind with a fresh intent.

use tokio::time::Instant;

use super::{
    exchange::{Answer, Got, How, Request},
    judge::{Judged, busy, judge, judge_other},
    trial::{Trial, Tried, broken, failed},
    words::{effects, listed, shown},
};
use crate::plan::{Drilled, Expected, Names};

/// How often a request that gets no answer is sent at most.
const UNANSWERED_MAX: usize = 8;

/// How many intents are begun at most where a server's error comes between.
const BEGUN_MAX: usize = 8;

/// How often a request that met a server's error is retried, to see whether it acts again.
const ERROR_RETRIES: usize = 4;

/// How many plain requests are sent to see whether they meet a server's error: one in twenty is found.
const LOOKED_MAX: usize = 60;

/// An intent that was asked for the first time, and answered as done.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub(crate) names: Names,
    pub(crate) request: Request,
    pub(crate) answer: Answer,
}

const fn is_error(answer: &Answer) -> bool {
    answer.status >= 500
}

impl Trial<'_> {
    /// Sends a request until it is answered: "not now" is waited out, and so is no answer, a few times.
    /// The last that was got is returned.
    pub(crate) async fn ask(&self, what: &str, request: &Request) -> Got {
        let got = self.asked(what, request, How::Whole, |got| got.said().is_none()).await;
        self.without_error(what, request, got).await
    }

    /// Asks again where what was got says nothing: no answer, or an error such as plain requests meet too.
    pub(crate) async fn without_error(&self, what: &str, request: &Request, got: Got) -> Got {
        let is_trouble = match got.said() {
            None => true,
            Some(answer) => is_error(answer) && self.errs_anyway().await,
        };
        if is_trouble { self.ask_for_success(what, request).await } else { got }
    }

    /// Says whether plain requests, which nothing was asked before, meet a server's error too.
    async fn errs_anyway(&self) -> bool {
        let memory = &self.drill.memory;
        if memory.begins_to_look_for_errors() {
            for _ in 0..LOOKED_MAX {
                if memory.has_erred() {
                    break;
                }
                let request = self.command(&self.intent());
                let what = "a plain request, to see whether it meets an error too";
                memory.errs(&self.send(what, &request, How::Whole).await);
            }
        }
        memory.has_erred()
    }

    /// Sends a request until it gets a 2xx, as far as a few tries go.
    pub(crate) async fn ask_for_success(&self, what: &str, request: &Request) -> Got {
        let is_trouble = |got: &Got| got.said().is_none_or(is_error);
        self.asked(what, request, How::Whole, is_trouble).await
    }

    async fn asked(
        &self,
        what: &str,
        request: &Request,
        how: How,
        again: impl Fn(&Got) -> bool,
    ) -> Got {
        let (mut backoff, began, mut tries) = (self.backoff(), Instant::now(), 0);
        loop {
            let got = self.send(what, request, how).await;
            let asked = busy(&self.drill.expected, &got);
            if asked.is_none() {
                tries += 1;
                if tries >= UNANSWERED_MAX || !again(&got) {
                    return got;
                }
            }
            let wait = backoff.next(asked.flatten());
            if began.elapsed() + wait > self.drill.retries_for() {
                return got;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Begins an intent with the operation of the plan.
    pub(crate) async fn begin(&self, what: &str) -> Tried<Begun> {
        self.begin_with(what, |names| self.command(names)).await
    }

    /// Begins an intent: a request that nothing was asked before must be answered as a first run. A
    /// server's error, or no answer, has it tried with a fresh intent; what met it may not act twice.
    pub(crate) async fn begin_with(
        &self,
        what: &str,
        request: impl Fn(&Names) -> Request,
    ) -> Tried<Begun> {
        self.begun(what, How::Whole, || self.intent(), request, true).await
    }

    /// Begins an intent whose answer is lost on its way.
    pub(crate) async fn begin_lost(&self, what: &str) -> Tried<Begun> {
        let request = |names: &Names| self.command(names);
        self.begun(what, How::Swallow, || self.intent(), request, true).await
    }

    /// Begins an intent that is named by the caller, and judges no other: for the control.
    pub(crate) async fn begin_plainly(
        &self,
        what: &str,
        names: impl Fn() -> Names,
    ) -> Tried<Begun> {
        self.begun(what, How::Whole, names, |names| self.command(names), false).await
    }

    async fn begun(
        &self,
        what: &str,
        how: How,
        names: impl Fn() -> Names,
        request: impl Fn(&Names) -> Request,
        judged: bool,
    ) -> Tried<Begun> {
        let mut tries = 0;
        loop {
            let names = names();
            let request = request(&names);
            let got = self.asked(what, &request, how, |_| false).await;
            let said = got.said().cloned().map_or_else(|| got.clone(), Got::Answer);
            tries += 1;
            match judge(&self.drill.expected, &said) {
                Judged::Done(answer) => return Ok(Begun { names, request, answer }),
                Judged::Nothing if tries < BEGUN_MAX => {
                    self.drill.memory.errs(&got);
                    if judged {
                        self.acts_once(what, &names, &request, &got).await?;
                    }
                }
                _ => {
                    let documented = listed(&self.drill.expected.first);
                    let means = match self.drill.of() {
                        Drilled::Consumer => "a message is acknowledged by",
                        Drilled::Http => "a first run is documented as",
                    };
                    return failed(format!(
                        "{what} got {}, and {means} {documented}",
                        shown(&said)
                    ));
                }
            }
        }
    }

    /// Retries what met a server's error or no answer: whatever it comes to, it may not act twice.
    async fn acts_once(
        &self,
        what: &str,
        names: &Names,
        request: &Request,
        met: &Got,
    ) -> Tried<()> {
        let again = format!("{what} again, after an error,");
        let mut backoff = self.backoff();
        for _ in 0..ERROR_RETRIES {
            let got = self.ask(&again, request).await;
            match judge(&self.drill.expected, &got) {
                Judged::Nothing | Judged::Later(_) => {
                    tokio::time::sleep(backoff.next(None)).await;
                }
                _ => break,
            }
        }
        match self.count(names).await? {
            0 | 1 => Ok(()),
            count => broken(format!(
                "{what} got {}, and its retry acted again: {}",
                shown(met),
                effects(count)
            )),
        }
    }

    /// Sends a request until it is definite whether it was done, as a client that keeps its key does.
    /// Every answer on the way must be one that asks for a retry.
    pub(crate) async fn settled(&self, what: &str, request: &Request) -> Tried<Answer> {
        match self.until_definite(what, request).await? {
            (Judged::Done(answer), _) => Ok(answer),
            (Judged::Unknown, got) => {
                broken(format!("{what} is answered `unknown`: {}", shown(&got)))
            }
            (_, got) => broken(format!("{what} is answered {}", shown(&got))),
        }
    }

    /// Sends a request until the answer is definite, or nobody can know.
    pub(crate) async fn until_definite(
        &self,
        what: &str,
        request: &Request,
    ) -> Tried<(Judged, Got)> {
        self.until(what, request, judge).await
    }

    /// Sends a request with other content than its key was used with until the answer is definite.
    pub(crate) async fn until_refused(
        &self,
        what: &str,
        request: &Request,
    ) -> Tried<(Judged, Got)> {
        self.until(what, request, judge_other).await
    }

    async fn until(
        &self,
        what: &str,
        request: &Request,
        judge: impl Fn(&Expected, &Got) -> Judged,
    ) -> Tried<(Judged, Got)> {
        let (mut backoff, began) = (self.backoff(), Instant::now());
        loop {
            let got = self.send(what, request, How::Whole).await;
            let asked = match judge(&self.drill.expected, &got) {
                Judged::Later(after) => after,
                Judged::Nothing => None,
                definite => return Ok((definite, got)),
            };
            let wait = backoff.next(asked);
            let patience = self.drill.retries_for();
            if began.elapsed() + wait > patience {
                let why = format!(
                    "{what} got no definite answer in {} s, the last was {}",
                    patience.as_secs(),
                    shown(&got)
                );
                // No answer at all may be the network's.
                return if got.said().is_some() { broken(why) } else { failed(why) };
            }
            tokio::time::sleep(wait).await;
        }
    }
}
