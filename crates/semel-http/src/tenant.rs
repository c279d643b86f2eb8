//! Who asks. Keys of two tenants never meet.

use std::{fmt, marker::PhantomData};

use http::{HeaderName, header::HeaderValue, request::Parts};
use semel::Tenant;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// Says why a request has no tenant.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum TenantError {
    /// Something is there that cannot be a tenant.
    #[error("{what}")]
    Malformed {
        /// What is wrong, for the caller.
        what: &'static str,
    },
    /// Nobody is named.
    #[error("{what}")]
    Missing {
        /// What should have been there, for the caller.
        what: &'static str,
    },
}

/// Finds out who asks. The caller was authenticated before: a source trusts what it reads.
pub trait TenantSource: Send + Sync {
    /// Returns the tenant of a request.
    ///
    /// # Errors
    ///
    /// Says why there is none; the request is refused with 401 or 400.
    fn tenant(&self, parts: &Parts) -> Result<Tenant, TenantError>;
}

impl<F> TenantSource for F
where
    F: Fn(&Parts) -> Result<Tenant, TenantError> + Send + Sync,
{
    fn tenant(&self, parts: &Parts) -> Result<Tenant, TenantError> {
        self(parts)
    }
}

/// Says that there is only one tenant. Everybody shares one space of keys and sees each other's
/// answers: for services with a single caller.
#[must_use]
#[expect(clippy::missing_panics_doc, reason = "it cannot panic")]
pub fn single_tenant() -> impl TenantSource {
    let tenant = Tenant::new("single").expect("the text is a tenant");
    move |_: &Parts| Ok(tenant.clone())
}

/// Takes the tenant from a header that a trusted proxy in front sets, and that no client can.
#[must_use]
pub fn trusted_header(name: HeaderName) -> impl TenantSource {
    move |parts: &Parts| {
        let text = only(parts, &name)?;
        let text = std::str::from_utf8(text.as_bytes()).map_err(|_| malformed())?;
        Tenant::new(text.trim()).map_err(|_| malformed())
    }
}

/// Makes the tenant of the API key in a header: its digest, never the key itself.
///
/// Use it only where a caller's key stays the same for as long as intents are remembered: a new key
/// is a new tenant.
#[must_use]
pub fn api_key_header(name: HeaderName) -> impl TenantSource {
    move |parts: &Parts| {
        let key = only(parts, &name)?;
        let mut digest = Sha256::new();
        digest.update(b"semel api key tenant v1\0");
        digest.update(key.as_bytes());
        let digest: [u8; 32] = digest.finalize().into();
        let text =
            digest.iter().fold(String::from("key:"), |text, byte| format!("{text}{byte:02x}"));
        Tenant::new(text).map_err(|_| malformed())
    }
}

/// Takes the tenant from what an earlier layer left in the request's extensions.
#[must_use]
pub fn from_extension<T, F>(tenant_of: F) -> impl TenantSource
where
    T: Clone + Send + Sync + 'static,
    F: Fn(&T) -> Result<Tenant, TenantError> + Send + Sync,
{
    FromExtension { tenant_of, of: PhantomData::<fn(&T)> }
}

struct FromExtension<T, F> {
    tenant_of: F,
    of: PhantomData<fn(&T)>,
}

impl<T, F> fmt::Debug for FromExtension<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FromExtension").field(&std::any::type_name::<T>()).finish()
    }
}

impl<T, F> TenantSource for FromExtension<T, F>
where
    T: Clone + Send + Sync + 'static,
    F: Fn(&T) -> Result<Tenant, TenantError> + Send + Sync,
{
    fn tenant(&self, parts: &Parts) -> Result<Tenant, TenantError> {
        let missing = TenantError::Missing { what: "the caller is not authenticated" };
        (self.tenant_of)(parts.extensions.get::<T>().ok_or(missing)?)
    }
}

fn only<'a>(parts: &'a Parts, name: &HeaderName) -> Result<&'a HeaderValue, TenantError> {
    let mut values = parts.headers.get_all(name).iter();
    let first = values
        .next()
        .filter(|value| !value.is_empty())
        .ok_or(TenantError::Missing { what: "the header that says who asks is missing" })?;
    match values.all(|value| value == first) {
        true => Ok(first),
        false => Err(TenantError::Malformed { what: "the header that says who asks stands twice" }),
    }
}

const fn malformed() -> TenantError {
    TenantError::Malformed { what: "the header that says who asks is not a tenant" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(headers: &[(&'static str, &'static str)]) -> Parts {
        let mut request = http::Request::new(());
        for (name, value) in headers {
            request.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        request.into_parts().0
    }

    #[test]
    fn an_api_key_is_kept_only_as_its_digest() {
        let source = api_key_header(HeaderName::from_static("x-api-key"));
        let tenant = source.tenant(&parts(&[("x-api-key", "secret-7")])).unwrap();
        assert!(!tenant.as_str().contains("secret-7"));
        assert_eq!(
            tenant.as_str(),
            "key:a76231fed3c49f6e7b833aecc896a29cfafcd39b89fd85d1d71c8cad46abed22"
        );
        assert_eq!(
            source.tenant(&parts(&[])).map_err(|e| matches!(e, TenantError::Missing { .. })),
            Err(true)
        );
    }

    #[test]
    fn a_header_that_names_two_tenants_names_none() {
        let source = trusted_header(HeaderName::from_static("x-tenant"));
        let twice = source.tenant(&parts(&[("x-tenant", "a"), ("x-tenant", "b")]));
        assert!(matches!(twice, Err(TenantError::Malformed { .. })));
        let same = source.tenant(&parts(&[("x-tenant", "a"), ("x-tenant", "a")]));
        assert_eq!(same.unwrap().as_str(), "a");
    }
}
