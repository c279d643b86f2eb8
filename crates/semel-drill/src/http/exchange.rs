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
    /// The target sent this whole answer, and the drill kept it from the client.
    Swallowed(Answer),
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

/// What becomes of the connection that a request goes out on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum How {
    /// The client closes it as soon as the request is out.
    HangUp,
    /// The target sends its whole answer, and the client gets none of it.
    Swallow,
    /// The client reads the whole answer.
    Whole,
}

impl Answer {
    /// Returns the first value of a header; `name` is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns what stands at a JSON pointer of the body; a text as it is, anything else as JSON.
    #[must_use]
    pub fn at(&self, pointer: &str) -> Option<String> {
        let body: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        match body.pointer(pointer)? {
            serde_json::Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

impl Got {
    /// Returns the answer that the client has read.
    #[must_use]
    pub const fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::Broken(_) | Self::HungUp | Self::Swallowed(_) | Self::TimedOut => None,
        }
    }

    /// Returns the whole answer that the target sent, whether the client has read it or not.
    #[must_use]
    pub const fn said(&self) -> Option<&Answer> {
        match self {
            Self::Answer(answer) | Self::Swallowed(answer) => Some(answer),
            Self::Broken(_) | Self::HungUp | Self::TimedOut => None,
        }
    }
}

impl std::fmt::Display for Got {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Answer(answer) => write!(f, "{}", answer.status),
            Self::Broken(why) => write!(f, "no answer: {why}"),
            Self::HungUp => f.write_str("nothing: the client hung up"),
            Self::Swallowed(answer) => {
                write!(f, "nothing: a {} was lost on its way", answer.status)
            }
            Self::TimedOut => f.write_str("no answer in time"),
        }
    }
}
