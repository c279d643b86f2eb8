//! The bytes that are hashed. Every item is led by its length or a tag, so that no two commands feed the same bytes.

use hmac::Mac;
use sha2::{Digest, Sha256};

use super::{Command, CommandBody, Content, Fingerprint, FingerprintError, Part, Plan};
use super::{form, json};

/// Sets this use of SHA-256 apart from any other.
const DOMAIN_COMMAND: &[u8] = b"semel/fingerprint/command\0";
const DOMAIN_VALUE: &[u8] = b"semel/fingerprint/value\0";

/// The bytes of one fingerprint, gathered and hashed at the end in one go.
pub(super) struct Feed {
    buffer: Vec<u8>,
}

impl Feed {
    /// Starts the bytes of a command.
    pub(super) fn command(plan: &Plan) -> Self {
        Self::new(DOMAIN_COMMAND, plan)
    }

    /// Starts the bytes of a bare value.
    pub(super) fn value(plan: &Plan) -> Self {
        Self::new(DOMAIN_VALUE, plan)
    }

    fn new(domain: &[u8], plan: &Plan) -> Self {
        let mut feed = Self { buffer: Vec::with_capacity(512) };
        feed.buffer.extend_from_slice(domain);
        feed.buffer.extend_from_slice(plan.id().as_bytes());
        feed
    }

    /// Adds everything of a command but its body.
    pub(super) fn head(&mut self, plan: &Plan, command: &Command<'_>) {
        self.bytes(command.method.as_bytes());
        self.bytes(command.path.as_bytes());
        self.option(command.query);
        for name in plan.header_names() {
            let named =
                command.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
            self.count(named.clone().count());
            for (_, value) in named {
                self.bytes(without_blanks(value));
            }
        }
    }

    /// Adds the body of a command.
    pub(super) fn body(
        &mut self,
        plan: &Plan,
        command: &Command<'_>,
    ) -> Result<(), FingerprintError> {
        match &command.body {
            CommandBody::Empty => self.tag(b'E'),
            CommandBody::Form(pairs) => {
                self.tag(b'F');
                form::pairs(self, plan, pairs)?;
            }
            CommandBody::Json(text) => {
                self.tag(b'J');
                self.json_type(command.media_type);
                self.json(plan, text)?;
            }
            CommandBody::Multipart(parts) => {
                self.tag(b'M');
                form::parts(self, plan, parts)?;
            }
            CommandBody::Raw { media_type, bytes } => {
                self.tag(b'R');
                self.media_type(media_type);
                self.bytes(bytes);
            }
        }
        Ok(())
    }

    /// Adds the canonical form of a JSON text.
    pub(super) fn json(&mut self, plan: &Plan, text: &[u8]) -> Result<(), FingerprintError> {
        self.tag(b'V');
        self.buffer.reserve(text.len() + text.len() / 16 + 64);
        let what = self.sized(|buffer| json::write(text, plan, buffer))?;
        self.tag(match what {
            json::Written::Included => b'I',
            json::Written::Whole => b'W',
        });
        Ok(())
    }

    pub(super) fn part(&mut self, part: &Part<'_>) {
        self.option(part.name);
        self.option(part.file_name);
        match part.content_type {
            None => self.tag(0),
            Some(media_type) => {
                self.tag(1);
                self.media_type(media_type);
            }
        }
        match part.content {
            Content::Bytes(bytes) => self.buffer.extend_from_slice(&Sha256::digest(bytes)),
            Content::Digest(digest) => self.buffer.extend_from_slice(&digest),
        }
    }

    pub(super) fn tag(&mut self, tag: u8) {
        self.buffer.push(tag);
    }

    pub(super) fn count(&mut self, count: usize) {
        self.buffer.extend_from_slice(&length(count));
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.buffer.extend_from_slice(bytes);
    }

    fn option(&mut self, text: Option<&str>) {
        match text {
            None => self.tag(0),
            Some(text) => {
                self.tag(1);
                self.bytes(text.as_bytes());
            }
        }
    }

    /// Adds the essence of a JSON type; `text/json` and a missing type are other words for `application/json`.
    fn json_type(&mut self, media_type: &str) {
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        let other = |word: &str| essence.eq_ignore_ascii_case(word);
        if ["", "application/json", "text/json"].into_iter().any(other) {
            self.bytes(b"application/json");
        } else {
            self.media_type(essence);
        }
    }

    /// Adds a media type without the blanks outside of quotes, its essence and parameter names in lower case.
    fn media_type(&mut self, text: &str) {
        let mut plain = String::with_capacity(text.len());
        let (mut quoted, mut escaped, mut value) = (false, false, false);
        for character in text.chars() {
            match character {
                _ if quoted => {
                    quoted = escaped || character != '"';
                    escaped = !escaped && character == '\\';
                }
                ' ' | '\t' => continue,
                '"' => quoted = true,
                ';' => value = false,
                '=' => value = true,
                _ => {}
            }
            plain.push(if value { character } else { character.to_ascii_lowercase() });
        }
        self.bytes(plain.as_bytes());
    }

    /// Adds what `write` writes, led by its length.
    fn sized<T, E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<T, E>) -> Result<T, E> {
        let at = self.buffer.len();
        self.count(0);
        let start = self.buffer.len();
        let result = write(&mut self.buffer)?;
        let written = length(self.buffer.len() - start);
        self.buffer[at..start].copy_from_slice(&written);
        Ok(result)
    }

    /// Hashes what was gathered.
    pub(super) fn finish(self, plan: &Plan) -> Fingerprint {
        let digest = match plan.keyed() {
            None => Sha256::digest(&self.buffer).into(),
            Some(keyed) => {
                let mut keyed = keyed.clone();
                keyed.update(&self.buffer);
                keyed.finalize().into_bytes().into()
            }
        };
        Fingerprint::new(plan.id(), digest)
    }
}

fn without_blanks(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

fn length(count: usize) -> [u8; 8] {
    u64::try_from(count).unwrap_or(u64::MAX).to_be_bytes()
}
