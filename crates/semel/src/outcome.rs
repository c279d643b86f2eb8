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

impl Pointer {
    pub(crate) fn longest(&self) -> usize {
        self.kind.len().max(self.id.len())
    }
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

    /// Says whether a store that keeps bodies of `body_max` bytes keeps all of this.
    #[must_use]
    pub fn fits(&self, body_max: usize) -> bool {
        self.body_len() <= body_max && self.broken_bound().is_none()
    }

    /// Drops what breaks a bound, or a body larger than `body_max`: the body, the headers, the
    /// pointer, and nothing that fits. The status always stays.
    #[must_use]
    pub fn within(mut self, body_max: usize) -> Self {
        if self.body_len() > body_max.min(Self::BODY_MAX) {
            self.body = Body::NotKept;
        }
        if self.headers.len() > Self::HEADERS_MAX || self.header_bytes() > Self::HEADER_BYTES_MAX {
            self.headers.clear();
        }
        self.pointer = self.pointer.filter(|pointer| pointer.longest() <= Self::POINTER_MAX);
        self
    }

    fn body_len(&self) -> usize {
        match &self.body {
            Body::Kept(bytes) => bytes.len(),
            Body::NotKept => 0,
        }
    }

    fn header_bytes(&self) -> usize {
        self.headers.iter().map(|header| header.name.len() + header.value.len()).sum()
    }

    /// Says which bound this outcome breaks, if any.
    #[must_use]
    pub fn broken_bound(&self) -> Option<&'static str> {
        let pointer = self.pointer.as_ref().map_or(0, Pointer::longest);
        [
            (self.headers.len() > Self::HEADERS_MAX, "outcome has too many headers"),
            (self.header_bytes() > Self::HEADER_BYTES_MAX, "outcome has too many header bytes"),
            (self.body_len() > Self::BODY_MAX, "outcome body is too large"),
            (pointer > Self::POINTER_MAX, "outcome pointer is too long"),
        ]
        .into_iter()
        .find_map(|(broken, what)| broken.then_some(what))
    }
}
