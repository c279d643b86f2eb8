//! What a server shows, and checks, where it speaks TLS.

use std::path::PathBuf;

/// The files of a server that speaks TLS; its user must be able to read them.
#[derive(Clone, Debug)]
pub struct RedisTls {
    /// The authorities that vouch for clients and for other servers.
    pub authority: PathBuf,
    /// Its certificate.
    pub certificate: PathBuf,
    /// The key of that.
    pub key: PathBuf,
    /// Whether a client must show a certificate too.
    pub asks_clients: bool,
}

impl RedisTls {
    /// Returns the settings of a server, or of a Sentinel, that speaks TLS at a port: with everybody, also
    /// with other servers.
    pub(super) fn settings(&self, port: u16) -> Vec<(String, String)> {
        let path = |path: &PathBuf| path.display().to_string();
        let asks = if self.asks_clients { "yes" } else { "no" };
        let settings = [
            ("tls-port", port.to_string()),
            ("tls-ca-cert-file", path(&self.authority)),
            ("tls-cert-file", path(&self.certificate)),
            ("tls-key-file", path(&self.key)),
            ("tls-auth-clients", asks.to_owned()),
            ("tls-replication", "yes".to_owned()),
        ];
        settings.map(|(name, value)| (name.to_owned(), value)).into()
    }
}
