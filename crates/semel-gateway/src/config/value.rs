//! The plain values of settings: numbers, texts, addresses, names.

use std::{net::SocketAddr, path::PathBuf};

use http::{HeaderName, Method, Uri};
use toml::{Spanned, de::DeValue};

use super::problem::nearest;
use super::read::{Reading, items, refuse, text};
use super::schema::{Kind, Value};

/// Implements [`Value`] for a type that is read from a text.
macro_rules! from_text {
    ($($kind:ty: $words:literal, $must_be:literal, $parse:expr;)*) => {
        $(impl Value for $kind {
            fn kind() -> Kind {
                Kind::Plain($words)
            }

            fn read(
                value: &Spanned<DeValue<'_>>,
                path: &str,
                reading: &mut Reading<'_>,
            ) -> Option<Self> {
                text(value, path, reading, $must_be, $parse)
            }
        })*
    };
}

from_text! {
    String: "text", "a text", |text| Some(text.to_owned());
    SocketAddr: "address", "an address and a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\"",
        |text| text.parse().ok();
    HeaderName: "header name", "the name of a header", |text| text.parse().ok();
    semel::Operation: "name",
        "a name of 1 to 128 ASCII letters, digits and `.`, `_`, `-`, `:`, `/`",
        |text| semel::Operation::new(text).ok();
    semel::outbox::Destination: "name",
        "a name of 1 to 64 ASCII letters, digits and `.`, `_`, `-`",
        |text| semel::outbox::Destination::new(text).ok();
    Url: "URL",
        "an http or https URL without a user, a query and a fragment, such as \
         \"http://127.0.0.1:3000\"",
        url;
}

/// A URL of http or https, perhaps with a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Url(pub Uri);

fn url(text: &str) -> Option<Url> {
    let uri: Uri = text.parse().ok()?;
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    let user = uri.authority().is_none_or(|authority| authority.as_str().contains('@'));
    let host = uri.host().is_some_and(|host| !host.is_empty());
    (known && host && !user && !text.contains(['?', '#'])).then_some(Url(uri))
}

/// The header that carries a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyHeader(pub HeaderName);

impl Value for KeyHeader {
    fn kind() -> Kind {
        HeaderName::kind()
    }

    fn absent() -> Option<Self> {
        Some(Self(HeaderName::from_static(semel::wire::IDEMPOTENCY_KEY)))
    }

    fn absent_shown() -> Option<&'static str> {
        Some(semel::wire::IDEMPOTENCY_KEY)
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        HeaderName::read(value, path, reading).map(Self)
    }
}

/// The methods of an operation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Methods(pub Vec<Method>);

impl Value for Methods {
    fn kind() -> Kind {
        Kind::Plain("method, or a list of methods")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        if value.get_ref().is_array() {
            let methods: Vec<OneMethod> = items(value, path, reading)?;
            if methods.is_empty() {
                refuse(value, path, reading, "a method or a list of methods");
                return None;
            }
            return Some(Self(methods.into_iter().map(|method| method.0).collect()));
        }
        OneMethod::read(value, path, reading).map(|method| Self(vec![method.0]))
    }
}

/// The registered methods, CONNECT and PRI apart, which no operation can have.
const REGISTERED: [&str; 38] = [
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "COPY",
    "DELETE",
    "GET",
    "HEAD",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "OPTIONS",
    "ORDERPATCH",
    "PATCH",
    "POST",
    "PROPFIND",
    "PROPPATCH",
    "PUT",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "TRACE",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
];

struct OneMethod(Method);

impl Value for OneMethod {
    fn kind() -> Kind {
        Kind::Plain("method")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let must_be = "a method in capitals, such as \"POST\"; CONNECT has no key";
        let method = text(value, path, reading, must_be, |text| {
            let upper = !text.is_empty() && !text.contains(|c: char| c.is_ascii_lowercase());
            let method: Method = text.parse().ok()?;
            (upper && method != Method::CONNECT).then_some(method)
        })?;
        // A slip of the pen would protect nothing, silently.
        if !REGISTERED.contains(&method.as_str()) {
            let hint = nearest(method.as_str(), REGISTERED)
                .map(|near| format!("; did you mean \"{near}\"?"))
                .unwrap_or_default();
            refuse(value, path, reading, &format!("a registered method{hint}"));
            return None;
        }
        Some(Self(method))
    }
}

impl Value for bool {
    fn kind() -> Kind {
        Kind::Plain("true or false")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let truth = value.get_ref().as_bool();
        if truth.is_none() {
            refuse(value, path, reading, "true or false, without quotes");
        }
        truth
    }
}

impl Value for u32 {
    fn kind() -> Kind {
        Kind::Plain("number")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let number = value
            .get_ref()
            .as_integer()
            .and_then(|number| Self::from_str_radix(number.as_str(), number.radix()).ok());
        if number.is_none() {
            refuse(value, path, reading, "a whole number from 0 to 4294967295, without quotes");
        }
        number
    }
}

impl Value for PathBuf {
    fn kind() -> Kind {
        Kind::Plain("path")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let folder = reading.folder.to_path_buf();
        let must_be = "a path; a relative one starts at the folder of this file";
        text(value, path, reading, must_be, |text| (!text.is_empty()).then(|| folder.join(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_no_user_query_or_fragment() {
        for good in ["http://127.0.0.1:3000", "https://api.example.com/v1", "http://[::1]:80/"] {
            assert!(url(good).is_some(), "{good}");
        }
        let bad = ["127.0.0.1:3000", "ftp://x", "http://x?a", "http://u:p@x", "http://", "", "/x"];
        for bad in bad {
            assert!(url(bad).is_none(), "{bad}");
        }
    }
}
