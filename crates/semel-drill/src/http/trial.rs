//! One scenario at work: what it sends is kept as evidence, what it counts is checked.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    chance::{Backoff, Chance},
    compare,
    connection::Connection,
    drill::Drill,
    exchange::{Answer, Exchange, Got, How, Request},
    memory::{Kept, Told},
    words::effects,
};
use crate::{
    plan::{KeyStyle, Names, RequestSpec, fill, fill_path},
    report::Ended,
};

/// How often the count is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long those that are to come together wait for their connections. Who has none by then comes when
/// it can: a server that serves one after the other takes no more before it has answered.
const CONNECTED_WITHIN: Duration = Duration::from_secs(1);

/// What a scenario comes to: what was seen, in one sentence, or how else it ended.
pub type Tried<T = String> = Result<T, Ended>;

/// One scenario at work.
#[derive(Debug)]
pub struct Trial<'d> {
    /// What is drilled.
    pub drill: &'d Drill,
    started: Instant,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    chance: Chance,
    exchanges: Vec<Exchange>,
    guilty: Vec<String>,
    kept: Kept,
}

/// What a scenario has seen: the effects by intent and what was told, the exchanges in the order of
/// their sending, and the keys that are found guilty.
pub(crate) type Evidence = (Kept, Vec<Exchange>, Vec<String>);

/// Ends a scenario: the rule is broken.
pub(crate) fn broken<T>(why: impl Into<String>) -> Tried<T> {
    Err(Ended::Broken(why.into()))
}

/// Ends a scenario: it could not be found out.
pub(crate) fn failed<T>(why: impl Into<String>) -> Tried<T> {
    Err(Ended::Failed(why.into()))
}

impl<'d> Trial<'d> {
    pub(crate) fn new(drill: &'d Drill, seed: u64) -> Self {
        let seen = Seen {
            chance: Chance::new(seed),
            exchanges: Vec::new(),
            guilty: Vec::new(),
            kept: Kept::default(),
        };
        Self { drill, started: Instant::now(), seen: Mutex::new(seen) }
    }

    pub(crate) fn into_evidence(self) -> Evidence {
        let seen = self.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut exchanges = seen.exchanges;
        exchanges.sort_by_key(|exchange| exchange.sent_at);
        (seen.kept, exchanges, seen.guilty)
    }

    /// Makes a chance of its own, which follows from the seed of the drill.
    pub(crate) fn chance(&self) -> Chance {
        Chance::new(self.seen().chance.next())
    }

    /// Makes waits that grow, which follow from the seed of the drill.
    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(self.chance())
    }

    /// Names a fresh intent, with a key in the style that is documented.
    pub(crate) fn intent(&self) -> Names {
        self.intent_with(self.key())
    }

    /// Names a fresh intent with a key as it goes over the wire.
    pub(crate) fn intent_with(&self, key: String) -> Names {
        // Names must be fresh whatever the seed: what an earlier drill left must not count.
        let intent = format!("drill-{:016x}", self.fresh());
        Names { intent, key, ..Names::default() }
    }

    /// Makes a fresh key in the style that is documented.
    pub(crate) fn key(&self) -> String {
        let uuid = uuid(self.fresh(), self.fresh());
        match self.drill.expected.key.style {
            KeyStyle::Quoted => format!("\"{uuid}\""),
            KeyStyle::Uuid => uuid,
        }
    }

    /// Draws a number that does not follow from the seed, if the system gives one.
    pub(crate) fn fresh(&self) -> u64 {
        Chance::fresh_seed().unwrap_or_else(|_| self.seen().chance.next())
    }

    /// The operation of the plan for an intent.
    pub(crate) fn command(&self, names: &Names) -> Request {
        self.request(&self.drill.plan.request, names)
    }

    /// The operation of the plan with another body.
    pub(crate) fn command_with(&self, names: &Names, body: &str) -> Request {
        let mut request = self.command(names);
        request.body = fill(body, names).into();
        request
    }

    /// A request of the plan that carries the intent's key.
    pub(crate) fn request(&self, spec: &RequestSpec, names: &Names) -> Request {
        let mut request = self.keyless(spec, names);
        let header = &self.drill.expected.key.header;
        if !header.is_empty() {
            request.headers.push((header.clone(), names.key.clone()));
        }
        request
    }

    /// A request of the plan without a key.
    pub(crate) fn keyless(&self, spec: &RequestSpec, names: &Names) -> Request {
        let typed = spec.headers.keys().any(|name| name.eq_ignore_ascii_case("content-type"));
        let json = (!typed && !spec.body.is_empty())
            .then(|| ("content-type".to_owned(), "application/json".to_owned()));
        let headers = spec.headers.iter().map(|(name, value)| (name.clone(), fill(value, names)));
        Request {
            method: spec.method.clone(),
            path: fill_path(&spec.path, names),
            headers: json.into_iter().chain(headers).collect(),
            body: fill(&spec.body, names).into(),
        }
    }

    /// A request beside the drilled one, such as a change of what was made: with a fresh key, in case
    /// it takes one.
    pub(crate) fn aside(&self, spec: &RequestSpec, names: &Names) -> Request {
        self.request(spec, &Names { key: self.key(), ..names.clone() })
    }

    /// Sends a request, and keeps what came of it as evidence.
    pub(crate) async fn send(&self, what: &str, request: &Request, how: How) -> Got {
        let sent_at = self.started.elapsed();
        let got = self.drill.send(request, how).await;
        self.keep(what, request, &got, sent_at);
        got
    }

    /// Makes a connection for [`send_on`](Self::send_on), so that many can be released together; none
    /// where there is none to be had soon, or a program is started for each request.
    pub(crate) async fn connect(&self) -> Option<Connection> {
        if self.drill.program().is_some() {
            return None;
        }
        let within = self.drill.answer_within().min(CONNECTED_WITHIN);
        tokio::time::timeout(within, self.drill.target.connect()).await.ok()?.ok()
    }

    /// Sends a request on a connection that was made before, or on one of its own.
    pub(crate) async fn send_on(
        &self,
        connection: Option<Connection>,
        what: &str,
        request: &Request,
    ) -> Got {
        let Some(connection) = connection else {
            return self.send(what, request, How::Whole).await;
        };
        let sent_at = self.started.elapsed();
        let answered = connection.send(request, How::Whole);
        let answered = tokio::time::timeout(self.drill.answer_within(), answered).await;
        let got = answered.unwrap_or(Got::TimedOut);
        self.keep(what, request, &got, sent_at);
        got
    }

    fn keep(&self, what: &str, request: &Request, got: &Got, sent_at: Duration) {
        let took = self.started.elapsed().saturating_sub(sent_at);
        let (what, request, got) = (what.to_owned(), request.clone(), got.clone());
        self.seen().exchanges.push(Exchange { what, request, got, sent_at, took });
    }

    /// Sends a request again until it is answered, and holds the answer against the first.
    pub(crate) async fn replays(
        &self,
        what: &str,
        request: &Request,
        first: &Answer,
    ) -> Tried<Answer> {
        let again = self.settled(what, request).await?;
        match self.difference(first, &again) {
            None => Ok(again),
            Some(difference) => {
                broken(format!("{what} is not the first answer again: {difference}"))
            }
        }
    }

    /// Says how an answer differs from the first, in what the plan does not call volatile.
    pub(crate) fn difference(&self, first: &Answer, again: &Answer) -> Option<String> {
        compare::difference(&self.drill.expected.volatile, first, again)
    }

    /// Remembers keys whose exchanges show that the rule is broken.
    pub(crate) fn blame(&self, keys: impl IntoIterator<Item = String>) {
        self.seen().guilty.extend(keys);
    }

    /// Says whether a request may have run without being answered so: its answer was lost, or an error.
    pub(crate) fn may_have_run(&self, request: &Request) -> bool {
        self.seen().exchanges.iter().any(|exchange| {
            let said = exchange.got.said();
            exchange.request == *request && said.is_none_or(|answer| answer.status >= 500)
        })
    }

    /// Says how often a request was sent.
    pub(crate) fn deliveries_of(&self, request: &Request) -> usize {
        self.seen().exchanges.iter().filter(|exchange| exchange.request == *request).count()
    }

    /// Says how long the last request took.
    pub(crate) fn last_took(&self) -> Duration {
        self.seen().exchanges.last().map_or(Duration::ZERO, |exchange| exchange.took)
    }

    /// Remembers a first answer until the end of the drill.
    pub(crate) fn remember(&self, names: &Names, request: &Request, answer: &Answer) {
        let at = Instant::now();
        let (names, request, answer) = (names.clone(), request.clone(), answer.clone());
        self.seen().kept.told.push(Told { at, names, request, answer });
    }

    /// Counts an intent's effects when nothing of it can be under way any more.
    pub(crate) async fn count(&self, names: &Names) -> Tried<u64> {
        let counted = self.drill.effects.count_settled(names).await;
        self.counted(names, counted)
    }

    /// Counts an intent's effects of which nothing was under way for long.
    pub(crate) async fn count_now(&self, names: &Names) -> Tried<u64> {
        let counted = self.drill.effects.count(names).await;
        self.counted(names, counted)
    }

    /// Counts an intent's effects, waiting a little for as many as were answered.
    pub(crate) async fn count_up_to(&self, names: &Names, awaited: u64) -> Tried<u64> {
        let began = Instant::now();
        while self.count_now(names).await? < awaited {
            self.drill.memory.works_later();
            if began.elapsed() > self.drill.effect_within() {
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.count(names).await
    }

    fn counted<E: std::fmt::Display>(&self, names: &Names, counted: Result<u64, E>) -> Tried<u64> {
        let count = match counted {
            Ok(count) => count,
            Err(error) => return failed(error.to_string()),
        };
        let mut seen = self.seen();
        match seen.kept.counts.iter_mut().find(|(known, _)| known.intent == names.intent) {
            Some((_, known)) => *known = count,
            None => seen.kept.counts.push((names.clone(), count)),
        }
        drop(seen);
        Ok(count)
    }

    /// Demands that an intent happened once.
    pub(crate) async fn happened_once(&self, names: &Names, after: &str) -> Tried<()> {
        self.happened(names, 1, after).await
    }

    /// Demands how often an intent happened.
    pub(crate) async fn happened(&self, names: &Names, times: u64, after: &str) -> Tried<()> {
        let count = self.count_up_to(names, times).await?;
        if count == times {
            return Ok(());
        }
        broken(format!("{} after {after}, and {times} would be right", effects(count)))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes 128 random bits as a UUID of version 4.
fn uuid(high: u64, low: u64) -> String {
    let high = (high & 0xffff_ffff_ffff_0fff) | 0x4000;
    let low = (low & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
    let text = format!("{high:016x}{low:016x}");
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_uuid_of_version_4() {
        assert_eq!(uuid(0, 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(u64::MAX, u64::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
