//! Every answer of Semel's own that is not the handler's, as a problem document (RFC 9457).
//!
//! Each has a stable code, and says in the member `retry` what the client does next.

use std::{borrow::Cow, time::Duration};

use axum::body::Body;
use http::{
    HeaderValue, Response, StatusCode,
    header::{CONTENT_TYPE, LOCATION, RETRY_AFTER},
};
use semel::{
    Error, Refusal,
    fingerprint::FingerprintError,
    outcome::Pointer,
    wire::{PROBLEM_JSON, PROBLEM_TYPE_PREFIX},
};
use serde_json::{Map, Value, json};

use crate::{answer::Answer, instant};

/// The longest time a client is asked to wait before it looks again.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);

/// What a client does after a problem.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Retry {
    /// Correct the request, and send it again.
    CorrectRequest,
    /// Nothing: it was done, or nobody can say so any more.
    DoNotRetry,
    /// Make another key: nothing ran under this one.
    NewKey,
    /// Send the same request with the same key again, later. Never with a new key.
    SameKey,
    /// Wait, and send the same request with the same key again: the first still runs.
    Wait,
}

impl Retry {
    /// Returns the word in the document.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CorrectRequest => "correct-request",
            Self::DoNotRetry => "do-not-retry",
            Self::NewKey => "new-key",
            Self::SameKey => "same-key",
            Self::Wait => "wait",
        }
    }
}

macro_rules! codes {
    ($($variant:ident $code:literal $status:ident $retry:ident $title:literal,)*) => {
        /// The stable code of a problem. The title of each stands beside it.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = $title] $variant,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the code as it stands in the document.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// Returns the status that it is sent with, unless the operation says otherwise.
            #[must_use]
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)* }
            }

            /// Returns what the client does next.
            #[must_use]
            pub const fn retry(self) -> Retry {
                match self { $(Self::$variant => Retry::$retry,)* }
            }

            /// Returns the title.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }
        }
    };
}

codes! {
    BodyIncomplete "body-incomplete" BAD_REQUEST SameKey "The request body did not arrive whole",
    BodyTooLarge "body-too-large" PAYLOAD_TOO_LARGE CorrectRequest "The request body is too large",
    BodyTooLong "body-too-long" PAYLOAD_TOO_LARGE CorrectRequest "The JSON text is too long",
    BodyTooSlow "body-too-slow" REQUEST_TIMEOUT SameKey "The request body took too long to arrive",
    ByteOrderMark "byte-order-mark" BAD_REQUEST CorrectRequest "The JSON text starts with a byte order mark",
    Closed "closed" SERVICE_UNAVAILABLE SameKey "The service is shutting down",
    CodingMalformed "coding-malformed" BAD_REQUEST CorrectRequest "The content coding of the body is damaged",
    CodingTooLarge "coding-too-large" BAD_REQUEST CorrectRequest "The body is too large once decoded",
    DuplicateMember "duplicate-member" BAD_REQUEST CorrectRequest "A JSON object has a member twice",
    Forgotten "forgotten" GONE DoNotRetry "The request was done, and its answer is no longer kept",
    HandlerPanicked "handler-panicked" INTERNAL_SERVER_ERROR SameKey "The request ended by a fault of the service",
    InProgress "in-progress" CONFLICT Wait "The first request with this key still runs",
    Incomparable "incomparable" CONFLICT SameKey "This request cannot be compared with the first one",
    InvalidUtf8 "invalid-utf-8" BAD_REQUEST CorrectRequest "The JSON text is not UTF-8",
    KeyCharacter "key-character" BAD_REQUEST NewKey "The key has a character that is not allowed",
    KeyEmpty "key-empty" BAD_REQUEST NewKey "The key is empty",
    KeyMalformed "key-malformed" BAD_REQUEST CorrectRequest "The key cannot be read",
    KeyMissing "key-missing" BAD_REQUEST CorrectRequest "The key is missing",
    KeySeveral "key-several" BAD_REQUEST CorrectRequest "The request has several keys",
    KeyTooLong "key-too-long" BAD_REQUEST NewKey "The key is too long",
    KeyWeak "key-weak" BAD_REQUEST NewKey "The key is no good name for one intent",
    Late "late" PRECONDITION_FAILED DoNotRetry "The retry comes too late",
    LoneSurrogate "lone-surrogate" BAD_REQUEST CorrectRequest "A JSON string holds half a character",
    MalformedJson "malformed-json" BAD_REQUEST CorrectRequest "The body is not JSON",
    Mismatch "mismatch" UNPROCESSABLE_ENTITY CorrectRequest "The key was used with another request",
    MultipartMalformed "multipart-malformed" BAD_REQUEST CorrectRequest "The multipart body cannot be read",
    NotCompleted "not-completed" BAD_GATEWAY SameKey "The service answered without completing the request",
    NotRecorded "not-recorded" NOT_FOUND SameKey "Nothing is recorded under this key",
    NotStored "not-stored" SERVICE_UNAVAILABLE SameKey "The outcome is unknown: ask again with the same key",
    NumberExponent "number-exponent" BAD_REQUEST CorrectRequest "A JSON number has too long an exponent",
    NumberTooLong "number-too-long" BAD_REQUEST CorrectRequest "A JSON number has too many digits",
    OperationUnknown "operation-unknown" NOT_FOUND DoNotRetry "There is no such operation",
    OutcomeNotKept "outcome-not-kept" GONE DoNotRetry "The request has ended, and its answer was not kept",
    Overloaded "overloaded" SERVICE_UNAVAILABLE SameKey "Too many bodies are held at once",
    ReferenceExists "reference-exists" CONFLICT DoNotRetry "The reference was used by another request",
    StalePermit "stale-permit" CONFLICT SameKey "The run ended after its permit",
    StatusMethod "status-method" METHOD_NOT_ALLOWED CorrectRequest "The status is read by GET",
    StoreAway "store-away" SERVICE_UNAVAILABLE SameKey "The store cannot be asked",
    TenantMalformed "tenant-malformed" BAD_REQUEST CorrectRequest "The caller cannot be told",
    TenantMissing "tenant-missing" UNAUTHORIZED CorrectRequest "The caller is not known",
    TooDeep "too-deep" BAD_REQUEST CorrectRequest "The JSON text nests too deep",
    TooManyMembers "too-many-members" BAD_REQUEST CorrectRequest "The body has too many members",
    Unknown "unknown" CONFLICT SameKey "Nobody can say whether the request was done",
    Upgrade "upgrade" BAD_REQUEST CorrectRequest "A request with a key cannot change the protocol",
}

/// A problem document on its way.
#[derive(Clone, Debug)]
#[must_use]
pub struct Problem {
    code: Code,
    status: StatusCode,
    detail: Cow<'static, str>,
    retry_after: Option<u64>,
    location: Option<HeaderValue>,
    members: Map<String, Value>,
}

impl Problem {
    /// Makes a problem.
    pub fn new(code: Code) -> Self {
        let retry_after = match code {
            Code::Closed | Code::NotStored | Code::Overloaded | Code::StoreAway => Some(1),
            Code::InProgress => Some(1),
            _ => None,
        };
        let status = code.status();
        let detail = Cow::Borrowed("");
        Self { code, status, detail, retry_after, location: None, members: Map::new() }
    }

    /// Sets what is said of this case, for people.
    pub fn detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Sets another status than the code's.
    pub const fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Adds a member.
    pub fn member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// Says how long to wait: whole seconds, at least one and at most five.
    pub(crate) fn retry_after(mut self, span: Duration) -> Self {
        let secs = span.min(RETRY_AFTER_MAX).as_millis().div_ceil(1000);
        self.retry_after = Some(u64::try_from(secs).unwrap_or(1).max(1));
        self
    }

    /// Says where to ask.
    pub(crate) fn location(mut self, location: &str) -> Self {
        self.location = HeaderValue::from_str(location).ok();
        self.member("status_url", location)
    }

    /// Names the resource that was made.
    pub(crate) fn pointer(self, pointer: Option<&Pointer>) -> Self {
        match pointer {
            Some(p) => self.member("pointer", json!({ "kind": &*p.kind, "id": &*p.id })),
            None => self,
        }
    }

    /// Returns the code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// Returns the document.
    #[must_use]
    pub fn document(&self) -> Value {
        let mut document = self.members.clone();
        let mut put = |name: &str, value: Value| document.insert(name.to_owned(), value);
        put("type", format!("{PROBLEM_TYPE_PREFIX}{}", self.code.as_str()).into());
        put("code", self.code.as_str().into());
        put("title", self.code.title().into());
        put("status", self.status.as_u16().into());
        put("retry", self.code.retry().as_str().into());
        if !self.detail.is_empty() {
            put("detail", self.detail.as_ref().into());
        }
        document.into()
    }

    /// Makes the response.
    #[must_use]
    pub fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.document().to_string()));
        *response.status_mut() = self.status;
        // 202 is no problem, though it has the same members.
        let media_type = if self.status.is_success() { "application/json" } else { PROBLEM_JSON };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        if let Some(secs) = self.retry_after {
            headers.insert(RETRY_AFTER, secs.into());
        }
        if let Some(location) = self.location.filter(|_| self.status == StatusCode::ACCEPTED) {
            headers.insert(LOCATION, location);
        }
        response.extensions_mut().insert(Answer::Refused(self.code));
        response
    }
}

impl axum::response::IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        Self::into_response(self)
    }
}

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Forgotten { settled_at, pointer } => {
                let problem = Self::new(Code::Forgotten).pointer(pointer.as_ref()).detail(
                    "a request with this key was finished; it is not run again; look for what it made",
                );
                optional(problem, "settled_at", settled_at.map(instant::text))
            }
            Refusal::InProgress { claimed_at, lease_left, claimed_by } => {
                let problem = Self::new(Code::InProgress)
                    .retry_after(*lease_left)
                    .detail("wait, then send the same request with the same key again");
                let problem = optional(problem, "claimed_at", claimed_at.map(instant::text));
                optional(problem, "claimed_by", claimed_by.as_deref())
            }
            Refusal::Mismatch => Self::new(Code::Mismatch).detail(
                "send with this key only what was first sent with it; what is a new intent needs a \
                 new key",
            ),
            Refusal::Unknown { claimed_at, claimed_by } => {
                let problem = Self::new(Code::Unknown)
                    .detail(
                        "the run of this request was lost; do not use a new key; the same key is \
                         answered as soon as an operator or a reconciler has found out",
                    )
                    .member("claimed_at", instant::text(*claimed_at));
                optional(problem, "claimed_by", claimed_by.as_deref())
            }
            Refusal::ReferenceExists { pointer, used_at } => {
                let problem = Self::new(Code::ReferenceExists).pointer(pointer.as_ref()).detail(
                    "another request made this already, under another key; nothing ran; look for what \
                     it made",
                );
                optional(problem, "used_at", used_at.map(instant::text))
            }
            _ => Self::new(Code::Incomparable).detail(
                "the first request was recorded by rules that this service no longer has; do not \
                 use a new key",
            ),
        }
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        match error {
            Error::Closed => Self::new(Code::Closed).detail("nothing ran"),
            Error::NotStored(_) => Self::new(Code::NotStored)
                .detail("the request may have been done; never use a new key for it"),
            Error::Stale => Self::new(Code::StalePermit).detail(
                "somebody else was granted this intent, or it was resolved, while it ran; the same \
                 key tells what is recorded",
            ),
            _ => Self::new(Code::StoreAway).detail("nothing ran"),
        }
    }
}

impl From<&FingerprintError> for Problem {
    fn from(error: &FingerprintError) -> Self {
        let code = match error {
            FingerprintError::ByteOrderMark => Code::ByteOrderMark,
            FingerprintError::DuplicateMember { .. } => Code::DuplicateMember,
            FingerprintError::InvalidUtf8 { .. } => Code::InvalidUtf8,
            FingerprintError::LoneSurrogate { .. } => Code::LoneSurrogate,
            FingerprintError::NumberExponent { .. } => Code::NumberExponent,
            FingerprintError::NumberTooLong { .. } => Code::NumberTooLong,
            FingerprintError::TooDeep { .. } => Code::TooDeep,
            FingerprintError::TooLong { .. } => Code::BodyTooLong,
            FingerprintError::TooManyMembers { .. } => Code::TooManyMembers,
            _ => Code::MalformedJson,
        };
        Self::new(code).detail(error.to_string())
    }
}

fn optional(problem: Problem, name: &str, value: Option<impl Into<Value>>) -> Problem {
    match value {
        Some(value) => problem.member(name, value),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, fmt::Write};

    use semel::{StoreError, StoreErrorKind, Timestamp};

    use super::*;

    const GOLDEN: &str = include_str!("testdata/problems.v1.txt");

    fn refusals() -> Vec<Refusal> {
        let at = Timestamp::from_micros(1_893_456_000_000_000);
        let pointer = Pointer { kind: "payment".into(), id: "7".into() };
        vec![
            Refusal::Forgotten { settled_at: Some(at), pointer: Some(pointer) },
            Refusal::InProgress {
                claimed_at: Some(at),
                lease_left: Duration::from_secs(30),
                claimed_by: Some("r-1".into()),
            },
            Refusal::Incomparable { plan: semel::fingerprint::Plan::new().id() },
            Refusal::Mismatch,
            Refusal::ReferenceExists {
                pointer: Some(Pointer { kind: "order".into(), id: "8".into() }),
                used_at: Some(at),
            },
            Refusal::Unknown { claimed_at: at, claimed_by: None },
        ]
    }

    fn errors() -> Vec<Error> {
        let store = || StoreError::new(StoreErrorKind::Unavailable, "x");
        vec![Error::Closed, Error::NotStored(store()), Error::Stale, Error::Store(store())]
    }

    #[test]
    fn every_document_is_as_it_was() {
        let mut text = String::new();
        let plain = Code::ALL.iter().map(|code| Problem::new(*code));
        let refusals = refusals();
        let told = refusals.iter().map(Problem::from);
        let errors = errors();
        let failed = errors.iter().map(Problem::from);
        for problem in plain.chain(told).chain(failed) {
            let wait = problem.retry_after.map_or(String::new(), |secs| format!(" after {secs} s"));
            writeln!(text, "{}{wait} {}", problem.status.as_u16(), problem.document()).unwrap();
        }
        assert_eq!(text, GOLDEN);
    }

    #[test]
    fn a_refusal_and_an_error_keep_the_code_of_the_engine() {
        for refusal in refusals() {
            assert_eq!(Problem::from(&refusal).code().as_str(), refusal.code());
        }
        for error in errors().iter().filter(|error| !matches!(error, Error::Store(_))) {
            assert_eq!(Problem::from(error).code().as_str(), error.code());
        }
        for (text, code) in
            [(&b"{"[..], Code::MalformedJson), (b"{\"a\":1,\"a\":1}", Code::DuplicateMember)]
        {
            let error = semel::Fingerprint::of_json(text).unwrap_err();
            assert_eq!(Problem::from(&error).code(), code);
            assert_eq!(code.as_str(), error.code());
        }
    }

    #[test]
    fn every_code_stands_once_and_has_a_page_that_says_its_status_and_advice() {
        let codes: HashSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(codes.len(), Code::ALL.len());
        for code in Code::ALL {
            let path =
                format!("{}/../../docs/errors/{}.md", env!("CARGO_MANIFEST_DIR"), code.as_str());
            let page =
                std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            let head = format!(
                "# {}\n\nStatus {}, `retry`: `{}`.\n",
                code.as_str(),
                code.status().as_u16(),
                code.retry().as_str()
            );
            assert!(page.starts_with(&head), "{path} begins with\n{head}");
        }
    }

    #[test]
    fn a_client_waits_at_least_one_second_and_at_most_five() {
        for (ms, secs) in [(0, 1), (1, 1), (1_001, 2), (60_000, 5)] {
            let problem = Problem::new(Code::InProgress).retry_after(Duration::from_millis(ms));
            let response = problem.into_response();
            assert_eq!(response.headers()[RETRY_AFTER], HeaderValue::from(secs));
        }
    }
}
