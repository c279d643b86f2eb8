//! HTTP/1.1 messages as bytes: no library between the test and the wire.

pub(crate) use semel_testkit::http::{Message, PATIENCE, Wire, answer, request, send};
