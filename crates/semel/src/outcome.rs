//! What is kept of a finished run, and replayed.

use bytes::Bytes;

/// A header of an outcome: a lower-case name and the exact bytes of one value. A name with several
/// values stands several times, in order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Header {
    /// The lower-case name.
    pub name: Box<str>,
    /// One value, exactly as it was sent.
    pub value: Bytes,
}

/// What was kept of the body.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Body {
    /// The exact bytes; empty is a body too.
    Kept(Bytes),
    /// The body was larger than the cap, a stream, or not finished in time.
    NotKept,
}

/// Where the resource lives that the operation made.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Pointer {
    /// What kind of resource it is, such as `payment`.
    pub kind: Box<str>,
    /// Its id.
    pub id: Box<str>,
}

/// What is kept and replayed.
///
/// ```
/// use semel::outcome::{Body, Outcome};
/// let created = Outcome::new(201, "{\"id\":7}");
/// assert_eq!(created.body, Body::Kept("{\"id\":7}".into()));
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// The status, as a number the boundary gives meaning to; 0 for a plain function's result.
    pub status: u16,
    /// The headers that were kept, in order.
    pub headers: Vec<Header>,
    /// The body.
    pub body: Body,
    /// Where the resource lives.
    pub pointer: Option<Pointer>,
}

impl Outcome {
    /// The largest number of headers.
    pub const HEADERS_MAX: usize = 256;
    /// The largest number of bytes in all header names and values together.
    pub const HEADER_BYTES_MAX: usize = 64 * 1024;
    /// The largest body that any store keeps, in bytes.
    pub const BODY_MAX: usize = 64 * 1024 * 1024;
    /// The largest pointer kind and id, in bytes each.
    pub const POINTER_MAX: usize = 255;

    /// Makes an outcome of a status and a body.
    #[must_use]
    pub fn new(status: u16, body: impl Into<Bytes>) -> Self {
        Self { status, headers: Vec::new(), body: Body::Kept(body.into()), pointer: None }
    }

    /// Makes an outcome whose body is not kept.
    #[must_use]
    pub const fn without_body(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Body::NotKept, pointer: None }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<Bytes>) -> Self {
        self.headers.push(Header { name: name.to_ascii_lowercase().into(), value: value.into() });
        self
    }

    /// Adds the pointer.
    #[must_use]
    pub fn pointer(mut self, kind: &str, id: &str) -> Self {
        self.pointer = Some(Pointer { kind: kind.into(), id: id.into() });
        self
    }

    /// Says which bound this outcome breaks, if any.
    #[must_use]
    pub fn broken_bound(&self) -> Option<&'static str> {
        let bytes: usize = self.headers.iter().map(|h| h.name.len() + h.value.len()).sum();
        let body = match &self.body {
            Body::Kept(bytes) => bytes.len(),
            Body::NotKept => 0,
        };
        let pointer = self.pointer.as_ref().map_or(0, |p| p.kind.len().max(p.id.len()));
        [
            (self.headers.len() > Self::HEADERS_MAX, "outcome has too many headers"),
            (bytes > Self::HEADER_BYTES_MAX, "outcome has too many header bytes"),
            (body > Self::BODY_MAX, "outcome body is too large"),
            (pointer > Self::POINTER_MAX, "outcome pointer is too long"),
        ]
        .into_iter()
        .find_map(|(broken, what)| broken.then_some(what))
    }
}
