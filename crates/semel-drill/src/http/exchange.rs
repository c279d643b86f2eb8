//! What was sent and what came back: the evidence of every verdict.

use std::time::Duration;

use bytes::Bytes;

/// A request as it goes out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers in order, the key among them; a name may stand more than once.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

/// A whole answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers in order, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The exact bytes of the body.
    pub body: Bytes,
}

/// What came of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Got {
    /// A whole answer.
    Answer(Answer),
    /// The drill hung up once the request was out.
    HungUp,
    /// The answer was sent, and the drill's proxy swallowed it.
    Swallowed,
    /// The connection ended without a whole answer; why.
    Broken(String),
    /// No answer within the bound.
    TimedOut,
}

/// One request and what came of it.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// What this was for, such as `first` or `retry with another amount`.
    pub what: String,
    /// What was sent.
    pub request: Request,
    /// What came back.
    pub got: Got,
    /// When it was sent, from the start of the scenario.
    pub sent_at: Duration,
    /// How long it took.
    pub took: Duration,
}
