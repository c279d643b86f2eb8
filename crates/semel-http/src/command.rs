//! What a request asks for, as the canonical command that is fingerprinted.

use std::borrow::Cow;

use axum::body::Body;
use bytes::Bytes;
use http::{
    HeaderMap, Method, Uri,
    header::{CONTENT_DISPOSITION, CONTENT_TYPE},
};
use http_body_util::BodyDataStream;
use multer::Multipart;
use semel::{
    Fingerprint,
    fingerprint::{Command, CommandBody, Content, FingerprintError, Part, Plan},
};

use crate::{
    coding::{Codings, DecodeError},
    problem::{Code, Problem},
    route::unescaped,
};

const JSON_SUFFIX: &str = "+json";

/// A body, read as what its media type says.
#[derive(Clone, Debug)]
pub(crate) enum Asked<'a> {
    Empty,
    Form(Vec<(Vec<u8>, Vec<u8>)>),
    Json { media_type: Cow<'a, str>, text: Bytes },
    Multipart(Vec<Piece>),
    Raw { media_type: Cow<'a, str>, bytes: Bytes },
}

/// One part of a multipart body.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    name: Option<String>,
    file_name: Option<String>,
    content_type: Option<String>,
    content: Bytes,
}

impl<'a> Asked<'a> {
    /// Reads a body. What is decoded never has more than `max` bytes.
    pub(crate) async fn of(
        headers: &'a HeaderMap,
        bytes: &Bytes,
        max: usize,
    ) -> Result<Self, Problem> {
        if bytes.is_empty() {
            return Ok(Self::Empty);
        }
        let media_type = match headers.get(CONTENT_TYPE) {
            Some(value) => String::from_utf8_lossy(value.as_bytes()),
            None => Cow::Borrowed(""),
        };
        let codings = Codings::of(headers);
        if codings.is_empty() {
            return Self::read(media_type, bytes.clone()).await;
        }
        match codings.decode(bytes, max).map_err(undecoded)? {
            Some(decoded) if decoded.is_empty() => Ok(Self::Empty),
            Some(decoded) => Self::read(media_type, decoded).await,
            // What cannot be taken off is part of what the bytes mean.
            None => {
                let media_type = format!("{media_type}; content-coding=\"{}\"", codings.text());
                Ok(Self::Raw { media_type: media_type.into(), bytes: bytes.clone() })
            }
        }
    }

    async fn read(media_type: Cow<'a, str>, bytes: Bytes) -> Result<Self, Problem> {
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        let is = |name: &str| essence.eq_ignore_ascii_case(name);
        let suffix = essence.len().checked_sub(JSON_SUFFIX.len()).and_then(|at| essence.get(at..));
        if is("application/json") || suffix.is_some_and(|s| s.eq_ignore_ascii_case(JSON_SUFFIX)) {
            return Ok(Self::Json { media_type, text: bytes });
        }
        if is("application/x-www-form-urlencoded") {
            return Ok(Self::Form(pairs(&bytes)));
        }
        if is("multipart/form-data") {
            // Its state is large and it is rare: it must not weigh on every other request.
            return Ok(Self::Multipart(Box::pin(pieces(&media_type, bytes)).await?));
        }
        Ok(Self::Raw { media_type, bytes })
    }

    /// Lets go of the request's headers.
    pub(crate) fn into_owned(self) -> Asked<'static> {
        let owned = |media_type: Cow<'_, str>| Cow::Owned(media_type.into_owned());
        match self {
            Self::Empty => Asked::Empty,
            Self::Form(pairs) => Asked::Form(pairs),
            Self::Json { media_type, text } => Asked::Json { media_type: owned(media_type), text },
            Self::Multipart(pieces) => Asked::Multipart(pieces),
            Self::Raw { media_type, bytes } => Asked::Raw { media_type: owned(media_type), bytes },
        }
    }

    /// Makes the fingerprint by a plan.
    pub(crate) fn digest(
        &self,
        plan: &Plan,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Fingerprint, FingerprintError> {
        let mut command = Command::new(method.as_str(), uri.path()).query(uri.query());
        for name in plan.header_names() {
            let values = headers.get_all(name).iter();
            command.headers.extend(values.map(|value| (name.as_str(), value.as_bytes())));
        }
        command.body = match self {
            Self::Empty => CommandBody::Empty,
            Self::Form(pairs) => {
                CommandBody::Form(pairs.iter().map(|(n, v)| (borrowed(n), borrowed(v))).collect())
            }
            Self::Json { media_type, text } => {
                command.media_type = media_type;
                CommandBody::Json(text)
            }
            Self::Multipart(pieces) => {
                CommandBody::Multipart(pieces.iter().map(Piece::part).collect())
            }
            Self::Raw { media_type, bytes } => CommandBody::Raw { media_type, bytes },
        };
        plan.digest(&command)
    }
}

impl Piece {
    fn part(&self) -> Part<'_> {
        let part = Part::new(Content::Bytes(&self.content))
            .file_name(self.file_name.as_deref())
            .content_type(self.content_type.as_deref());
        match &self.name {
            Some(name) => part.name(name),
            None => part,
        }
    }
}

fn borrowed(bytes: &[u8]) -> Cow<'_, [u8]> {
    Cow::Borrowed(bytes)
}

fn undecoded(error: DecodeError) -> Problem {
    match error {
        DecodeError::Malformed => Problem::new(Code::CodingMalformed),
        DecodeError::TooLarge => Problem::new(Code::CodingTooLarge),
    }
    .detail("nothing ran")
}

/// Reads a form byte by byte: text that is no UTF-8 must not look like other such text.
fn pairs(bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    bytes
        .split(|byte| *byte == b'&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=');
            let (name, value) = at.map_or((pair, &[][..]), |at| (&pair[..at], &pair[at + 1..]));
            (unescaped(name, true), unescaped(value, true))
        })
        .collect()
}

async fn pieces(media_type: &str, bytes: Bytes) -> Result<Vec<Piece>, Problem> {
    let boundary = multer::parse_boundary(media_type).map_err(malformed)?;
    let stream = BodyDataStream::new(Body::from(bytes));
    let mut parts = Multipart::new(stream, boundary);
    let mut pieces = Vec::new();
    while let Some(field) = parts.next_field().await.map_err(malformed)? {
        let disposition = field.headers().get(CONTENT_DISPOSITION).map(|value| value.as_bytes());
        // The extended form is not decoded; its text stands for the name it spells.
        let extended =
            disposition.map(String::from_utf8_lossy).filter(|text| text.contains("filename*"));
        let file_name =
            extended.map(Cow::into_owned).or_else(|| field.file_name().map(str::to_owned));
        let content_type = field.headers().get(CONTENT_TYPE);
        pieces.push(Piece {
            name: field.name().map(str::to_owned),
            file_name,
            content_type: content_type
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
            content: field.bytes().await.map_err(malformed)?,
        });
    }
    Ok(pieces)
}

#[expect(clippy::needless_pass_by_value, reason = "it is the argument of map_err")]
fn malformed(error: multer::Error) -> Problem {
    Problem::new(Code::MultipartMalformed).detail(error.to_string())
}
