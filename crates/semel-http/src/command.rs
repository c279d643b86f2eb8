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

/// A body, read as what its media type says.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Empty,
    Form(Vec<(Vec<u8>, Vec<u8>)>),
    Json { media_type: String, text: Bytes },
    Multipart(Vec<Piece>),
    Raw { media_type: String, bytes: Bytes },
}

/// One part of a multipart body.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    name: Option<String>,
    file_name: Option<String>,
    content_type: Option<String>,
    content: Bytes,
}

impl Asked {
    /// Reads a body. What is decoded never has more than `max` bytes.
    pub(crate) async fn of(
        headers: &HeaderMap,
        bytes: &Bytes,
        max: usize,
    ) -> Result<Self, Problem> {
        if bytes.is_empty() {
            return Ok(Self::Empty);
        }
        let media_type = match headers.get(CONTENT_TYPE) {
            Some(value) => String::from_utf8_lossy(value.as_bytes()).into_owned(),
            None => String::new(),
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
                Ok(Self::Raw { media_type, bytes: bytes.clone() })
            }
        }
    }

    async fn read(media_type: String, bytes: Bytes) -> Result<Self, Problem> {
        let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "application/x-www-form-urlencoded" => Ok(Self::Form(pairs(&bytes))),
            "multipart/form-data" => Ok(Self::Multipart(pieces(&media_type, bytes).await?)),
            "application/json" => Ok(Self::Json { media_type, text: bytes }),
            _ if essence.ends_with("+json") => Ok(Self::Json { media_type, text: bytes }),
            _ => Ok(Self::Raw { media_type, bytes }),
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
        for (name, value) in headers {
            command.headers.push((name.as_str(), value.as_bytes()));
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
