//! Names that travel: headers and problem types, shared by server and client.

/// The request header that carries the key, unless configured otherwise.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The response header that marks a replay.
pub const IDEMPOTENT_REPLAYED: &str = "idempotent-replayed";

/// The response header by which a handler or upstream says whether it had an effect: `none`,
/// `final` or `unknown`. Never sent on to a client.
pub const SEMEL_EFFECT: &str = "semel-effect";

/// The response header by which a handler or upstream names the resource it made, as `kind/id`.
/// Never sent on to a client.
pub const SEMEL_POINTER: &str = "semel-pointer";

/// The header that carries a permit to a bridged upstream. Stripped from every inbound request and
/// every response.
pub const SEMEL_PERMIT: &str = "semel-permit";

/// The header that shows a permit's fence to an upstream.
pub const SEMEL_FENCE: &str = "semel-fence";

/// The header that tells an upstream that an earlier holder was lost: find out first whether the
/// effect happened.
pub const SEMEL_ASK_FIRST: &str = "semel-ask-first";

/// What every header of Semel's own begins with; a client cannot send one.
pub const SEMEL_PREFIX: &str = "semel-";

/// The path below which Semel answers itself.
pub const STATUS_PREFIX: &str = "/.semel/intents/";

/// The media type of a problem document (RFC 9457).
pub const PROBLEM_JSON: &str = "application/problem+json";

/// What the `type` of every problem document begins with; the code follows.
pub const PROBLEM_TYPE_PREFIX: &str = "urn:semel:problem:";

/// The header by which a client tells when it first sent an intent (OASIS Repeatable Requests).
pub const REPEATABILITY_FIRST_SENT: &str = "repeatability-first-sent";

/// The header by which a client says how it would like to be answered (RFC 7240).
pub const PREFER: &str = "prefer";

/// The header that names one try of a request, for tracing.
pub const REQUEST_ID: &str = "x-request-id";

/// The header that names an event, as CloudEvents 1.0 binds them to HTTP in binary mode.
pub const CE_ID: &str = "ce-id";

/// The header that says what happened.
pub const CE_TYPE: &str = "ce-type";

/// The header that says of which type the aggregate of an event is.
pub const CE_SOURCE: &str = "ce-source";

/// The header that names the aggregate of an event.
pub const CE_SUBJECT: &str = "ce-subject";

/// The header that says which version of CloudEvents holds.
pub const CE_SPECVERSION: &str = "ce-specversion";

/// The header that says which version the aggregate has after an event, an extension.
pub const CE_VERSION: &str = "ce-aggregateversion";

/// What every header of CloudEvents begins with.
pub const CE_PREFIX: &str = "ce-";

/// The header that carries the trace context (W3C Trace Context).
pub const TRACEPARENT: &str = "traceparent";

/// What is put before a header of an event that HTTP needs for itself.
pub const EVENT_PREFIX: &str = "event-";
