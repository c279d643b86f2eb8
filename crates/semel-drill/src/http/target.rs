//! Where the API listens, and how it is reached.

use std::{fmt, path::Path, time::Duration};

use rustls_pki_types::ServerName;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{
    connection::{Connection, Stream},
    exchange::{Got, How, Request},
};

/// Says why a target cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The text is no URL of a server.
    #[error("`{0}` is no URL of the form http://HOST:PORT or https://HOST:PORT")]
    NoUrl(String),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] semel_gateway::tls::TlsError),
}

/// An API's address. Cheap to clone.
#[derive(Clone)]
pub struct Target {
    url: String,
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// What the `host` header says.
    authority: String,
    /// What stands before every path; empty or `/…` without a slash at its end.
    base: String,
    tls: Option<TlsConnector>,
}

impl Target {
    /// Reads a URL. Under `https` the certificates of `ca` are trusted, or Mozilla's.
    ///
    /// # Errors
    ///
    /// Fails if the text is no `http` or `https` URL, or if TLS cannot be set up.
    pub fn parse(url: &str, ca: Option<&Path>) -> Result<Self, TargetError> {
        let no_url = || TargetError::NoUrl(url.to_owned());
        let uri: http::Uri = url.parse().map_err(|_| no_url())?;
        let authority = uri.authority().ok_or_else(no_url)?;
        let (tls, default_port) = match uri.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => (Some(TlsConnector::from(semel_gateway::tls::client(ca)?)), 443),
            _ => return Err(no_url()),
        };
        // Whoever stands in a URL before an @ is no part of the host.
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(no_url());
        }
        // What is no port must not be taken for the scheme's own: a drill acts on whoever answers.
        let port = match authority.port() {
            Some(_) => authority.port_u16().filter(|port| *port > 0).ok_or_else(no_url)?,
            None if authority.as_str().ends_with(authority.host()) => default_port,
            None => return Err(no_url()),
        };
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port,
            authority: authority.as_str().to_owned(),
            base: uri.path().trim_end_matches('/').to_owned(),
            tls,
        })
    }

    /// Returns the URL, without a slash at its end.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends a request on a connection of its own.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection; the target may have the request.
    pub async fn send(&self, request: &Request, how: How, within: Duration) -> Got {
        let sent = async {
            match self.connect().await {
                Ok(connection) => connection.send(request, how).await,
                Err(why) => Got::Broken(why),
            }
        };
        tokio::time::timeout(within, sent).await.unwrap_or(Got::TimedOut)
    }

    /// Makes a connection for one request, so that many can be released together.
    ///
    /// # Errors
    ///
    /// Says why nobody can be reached, in half a sentence.
    pub async fn connect(&self) -> Result<Connection, String> {
        let cannot = |error: &dyn fmt::Display| {
            format!("cannot connect to {}:{}: {error}", self.host, self.port)
        };
        let tcp = TcpStream::connect((self.host.as_str(), self.port));
        let tcp = tcp.await.map_err(|error| cannot(&error))?;
        tcp.set_nodelay(true).map_err(|error| cannot(&error))?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(tcp),
            Some(tls) => {
                let name = ServerName::try_from(self.host.clone());
                let name = name.map_err(|error| cannot(&error))?;
                Box::new(tls.connect(name, tcp).await.map_err(|error| cannot(&error))?)
            }
        };
        Ok(Connection::new(stream, &self.authority, &self.base))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("url", &self.url).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_read_from_its_url() {
        let target = Target::parse("http://[::1]:8080/api/", None).unwrap();
        assert_eq!((target.host.as_str(), target.port), ("::1", 8080));
        assert_eq!((target.base.as_str(), target.authority.as_str()), ("/api", "[::1]:8080"));
        let target = Target::parse("https://api.example", None).unwrap();
        assert_eq!((target.port, target.base.as_str(), target.tls.is_some()), (443, "", true));
    }

    #[test]
    fn what_is_no_url_of_a_server_is_refused() {
        for text in [
            "",
            "api.example",
            "ftp://api.example",
            "http://",
            "http://a@b",
            "http:///x",
            "http://a:99999",
            "http://a:0",
            "http://a:",
        ] {
            assert!(Target::parse(text, None).is_err(), "{text}");
        }
    }
}
