//! The canonical command: what was asked, however it was spelled.

use std::borrow::Cow;

/// What was asked: the input of [`Plan::digest`](super::Plan::digest).
///
/// The borrowed parts come from whoever speaks the protocol; nothing here is decoded or changed on the way in.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Command<'a> {
    /// The method, as sent.
    pub method: &'a str,
    /// The path, as sent, without the query.
    pub path: &'a str,
    /// The query without its question mark, as sent; `None` where there was no question mark.
    pub query: Option<&'a str>,
    /// The headers, one entry per value, names in any case. Only those that the plan names are looked at.
    pub headers: Vec<(&'a str, &'a [u8])>,
    /// The media type of a JSON body, parameters or not; empty means `application/json`. The other kinds of body
    /// carry what they need themselves.
    pub media_type: &'a str,
    /// The body, content codings removed.
    pub body: CommandBody<'a>,
}

impl<'a> Command<'a> {
    /// Starts a command without query, headers and body.
    #[must_use]
    pub const fn new(method: &'a str, path: &'a str) -> Self {
        Self {
            method,
            path,
            query: None,
            headers: Vec::new(),
            media_type: "",
            body: CommandBody::Empty,
        }
    }

    /// Sets the query.
    #[must_use]
    pub const fn query(mut self, query: Option<&'a str>) -> Self {
        self.query = query;
        self
    }

    /// Adds one header value.
    #[must_use]
    pub fn header(mut self, name: &'a str, value: &'a [u8]) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Sets the media type of a JSON body.
    #[must_use]
    pub const fn media_type(mut self, media_type: &'a str) -> Self {
        self.media_type = media_type;
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: CommandBody<'a>) -> Self {
        self.body = body;
        self
    }
}

/// The body of a [`Command`], content codings removed.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub enum CommandBody<'a> {
    /// No body, or an empty one.
    Empty,
    /// A form: its decoded pairs in the order they were sent.
    Form(Vec<FormPair<'a>>),
    /// A JSON text.
    Json(&'a [u8]),
    /// A multipart body: its parts in the order they were sent.
    Multipart(Vec<Part<'a>>),
    /// Anything else.
    Raw {
        /// The media type with its parameters; empty where none was sent.
        media_type: &'a str,
        /// The bytes.
        bytes: &'a [u8],
    },
}

/// The decoded name and value of one field of a form.
pub type FormPair<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// One part of a multipart body.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// The name from the content disposition.
    pub name: Option<&'a str>,
    /// The file name from the content disposition, decoded.
    pub file_name: Option<&'a str>,
    /// The content type of the part.
    pub content_type: Option<&'a str>,
    /// What the part holds.
    pub content: Content<'a>,
}

impl<'a> Part<'a> {
    /// Starts a part that has nothing but content.
    #[must_use]
    pub const fn new(content: Content<'a>) -> Self {
        Self { name: None, file_name: None, content_type: None, content }
    }

    /// Sets the name.
    #[must_use]
    pub const fn name(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// Sets the file name.
    #[must_use]
    pub const fn file_name(mut self, file_name: Option<&'a str>) -> Self {
        self.file_name = file_name;
        self
    }

    /// Sets the content type.
    #[must_use]
    pub const fn content_type(mut self, content_type: Option<&'a str>) -> Self {
        self.content_type = content_type;
        self
    }
}

/// The content of a [`Part`]: the bytes, or their digest where they were hashed as they streamed by.
///
/// Both spellings of one content are equal.
#[derive(Copy, Clone, Debug)]
pub enum Content<'a> {
    /// The bytes themselves.
    Bytes(&'a [u8]),
    /// The SHA-256 of the bytes.
    Digest([u8; 32]),
}
