//! How the command of an operation is fingerprinted.

use std::fmt;

use hmac::{Hmac, KeyInit};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::feed::Feed;
use super::json;
use super::pointer::Pointers;
use super::volatile;
use super::{Command, Fingerprint, FingerprintError, Limits, PlanError, PlanId};

/// The version of the canonical form. Whoever changes a byte that is hashed makes a new version and keeps the old.
const CANONICAL_VERSION: u8 = 1;
const HEADERS_MAX: usize = 64;
const HEADER_NAME_CHARS_MAX: usize = 255;
const SECRET_BYTES_MIN: usize = 16;
const SECRET_ID_CHARS_MAX: usize = 64;

/// How the command of an operation is fingerprinted: what counts, and under which secret.
///
/// ```
/// use semel::fingerprint::{Command, CommandBody, Plan};
///
/// let plan = Plan::new().exclude(["/trace_id"])?.headers(["If-Match"])?;
/// let first = Command::new("POST", "/payments")
///     .body(CommandBody::Json(br#"{"amount":10,"trace_id":"a"}"#));
/// let again = Command::new("POST", "/payments")
///     .body(CommandBody::Json(br#"{"trace_id":"b","amount":10.00}"#));
/// assert_eq!(plan.digest(&first)?, plan.digest(&again)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Plan {
    include: Pointers,
    exclude: Pointers,
    headers: Vec<String>,
    secret: Option<Secret>,
    limits: Limits,
    id: PlanId,
}

#[derive(Clone)]
struct Secret {
    id: String,
    key: Box<[u8]>,
    keyed: Hmac<Sha256>,
}

impl Plan {
    /// Makes the plan by which everything counts but no header does.
    #[must_use]
    pub fn new() -> Self {
        let plan = Self {
            include: Pointers::default(),
            exclude: Pointers::default(),
            headers: Vec::new(),
            secret: None,
            limits: Limits::new(),
            id: PlanId::new([0; 8]),
        };
        plan.identified()
    }

    /// Adds JSON Pointers to values that count. Without any, everything counts.
    ///
    /// # Errors
    ///
    /// Refuses what is not a JSON Pointer, more than 256 pointers, and a value that is excluded.
    pub fn include(
        mut self,
        pointers: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, PlanError> {
        self.include.add(pointers)?;
        self.checked()
    }

    /// Adds JSON Pointers to values that do not count.
    ///
    /// # Errors
    ///
    /// Refuses what is not a JSON Pointer, more than 256 pointers, the whole document, and a value that is included.
    pub fn exclude(
        mut self,
        pointers: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, PlanError> {
        self.exclude.add(pointers)?;
        self.checked()
    }

    /// Adds names of headers that count, in any case.
    ///
    /// # Errors
    ///
    /// Refuses what is no header name, more than 64 names, and the headers that change from one try of an intent to
    /// the next: credentials, dates, tracing, user agent, route and transport.
    pub fn headers(
        mut self,
        names: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, PlanError> {
        for name in names {
            let name = header_name(name.as_ref())?;
            if !self.headers.contains(&name) {
                self.headers.push(name);
            }
            if self.headers.len() > HEADERS_MAX {
                return Err(PlanError::TooMany { what: "headers", limit: HEADERS_MAX });
            }
        }
        self.headers.sort_unstable();
        Ok(self.identified())
    }

    /// Keys the digest with HMAC-SHA-256, so that a stored fingerprint of a guessable body tells nothing without the
    /// secret. The id, not the key, is part of the plan's identity: a new key needs a new id.
    ///
    /// # Errors
    ///
    /// Refuses an id that is not 1 to 64 visible ASCII characters and a key below 16 bytes.
    pub fn secret(mut self, id: &str, key: &[u8]) -> Result<Self, PlanError> {
        if !(1..=SECRET_ID_CHARS_MAX).contains(&id.len())
            || !id.bytes().all(|c| c.is_ascii_graphic())
        {
            return Err(PlanError::SecretId);
        }
        let keyed = match Hmac::new_from_slice(key) {
            Ok(keyed) if key.len() >= SECRET_BYTES_MIN => keyed,
            _ => return Err(PlanError::SecretTooShort { len: key.len() }),
        };
        self.secret = Some(Secret { id: id.to_owned(), key: key.into(), keyed });
        Ok(self.identified())
    }

    /// Sets what a body may cost. Limits are no part of the plan's identity.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the id of the plan.
    #[must_use]
    pub const fn id(&self) -> PlanId {
        self.id
    }

    /// Describes the plan in the frozen text that its id is the digest of. The secret is named by its id.
    #[must_use]
    pub fn description(&self) -> String {
        let mut text = format!("semel fingerprint\ncanonical {CANONICAL_VERSION}\n");
        let secret = self.secret.as_ref().map(|secret| &secret.id);
        let lists = [
            ("include", self.include.texts()),
            ("exclude", self.exclude.texts()),
            ("header", &self.headers),
            ("secret", secret.map_or(&[], std::slice::from_ref)),
        ];
        for (word, values) in lists {
            // The length keeps a pointer with a line feed in it from looking like two lines.
            for value in values {
                text.push_str(&format!("{word} {} {value}\n", value.len()));
            }
        }
        text
    }

    /// Makes the fingerprint of `command`.
    ///
    /// # Errors
    ///
    /// Returns the reason why the command has no canonical form; it is the sender's to correct.
    pub fn digest(&self, command: &Command<'_>) -> Result<Fingerprint, FingerprintError> {
        let mut feed = Feed::command(self);
        feed.head(self, command);
        feed.body(self, command)?;
        Ok(feed.finish(self))
    }

    /// Writes the part of a JSON text that counts by this plan in its canonical form, for tools that show why two
    /// commands differ.
    ///
    /// # Errors
    ///
    /// Returns the reason why the text has no canonical form.
    pub fn canonical_json(&self, text: &[u8]) -> Result<Vec<u8>, FingerprintError> {
        let mut out = Vec::new();
        json::write(text, self, &mut out)?;
        Ok(out)
    }

    pub(super) fn included(&self) -> &Pointers {
        &self.include
    }

    pub(super) fn excluded(&self) -> &Pointers {
        &self.exclude
    }

    /// Returns the names of the headers that count, in lower case. A command needs no others.
    #[must_use]
    pub fn header_names(&self) -> &[String] {
        &self.headers
    }

    pub(super) fn limit(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn keyed(&self) -> Option<&Hmac<Sha256>> {
        self.secret.as_ref().map(|secret| &secret.keyed)
    }

    /// Returns the id of the secret if both plans name it but with different keys.
    pub(super) fn secret_clash(&self, other: &Self) -> Option<&str> {
        let (own, theirs) = self.secret.as_ref().zip(other.secret.as_ref())?;
        let clash = own.id == theirs.id && !bool::from(own.key.ct_eq(&theirs.key));
        clash.then_some(own.id.as_str())
    }

    fn checked(self) -> Result<Self, PlanError> {
        let everything = self.exclude.cover("").then_some("");
        let included = || self.include.texts().iter().find(|pointer| self.exclude.cover(pointer));
        match everything.or_else(|| included().map(String::as_str)) {
            Some(pointer) => Err(PlanError::ExcludesIncluded { pointer: pointer.to_owned() }),
            None => Ok(self.identified()),
        }
    }

    fn identified(mut self) -> Self {
        let digest: [u8; 32] = Sha256::digest(self.description()).into();
        let mut id = [0; 8];
        id.copy_from_slice(&digest[..8]);
        self.id = PlanId::new(id);
        self
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("id", &self.id)
            .field("include", &self.include.texts())
            .field("exclude", &self.exclude.texts())
            .field("headers", &self.headers)
            .field("secret", &self.secret.as_ref().map(|secret| &secret.id))
            .field("limits", &self.limits)
            .finish()
    }
}

fn header_name(name: &str) -> Result<String, PlanError> {
    let token = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
    if name.is_empty() || name.len() > HEADER_NAME_CHARS_MAX || !name.bytes().all(token) {
        return Err(PlanError::HeaderSyntax { name: name.to_owned() });
    }
    let name = name.to_ascii_lowercase();
    match volatile::reason(&name) {
        Some(reason) => Err(PlanError::HeaderRefused { name, reason }),
        None => Ok(name),
    }
}
