//! Reads what TLS needs from files, and refuses with a sentence what cannot be used.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use hyper_rustls::ConfigBuilderExt as _;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _};
use thiserror::Error;

use crate::{
    bounded::{self, PEM_MAX},
    settings::TlsFiles,
};

/// Says why TLS cannot be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file holds no certificate.
    #[error("{} holds no certificate in PEM", file.display())]
    NoCertificate {
        /// The file.
        file: PathBuf,
    },
    /// A file holds no private key.
    #[error("{} holds no private key in PEM", file.display())]
    NoKey {
        /// The file.
        file: PathBuf,
    },
    /// A file cannot be read, or is no PEM.
    #[error("{} cannot be read: {reason}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The certificate and the key do not go together, or are of a kind that cannot be used.
    #[error("{} cannot be used: {reason}", file.display())]
    Unusable {
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// Makes a listener's TLS of its files. HTTP/1.1 is the one protocol offered.
///
/// # Errors
///
/// Says which file cannot be used, and why.
pub fn server(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates(&files.certificate)?;
    let pem = whole(&files.key)?;
    let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey { file: files.key.clone() },
        error => unreadable(&files.key, &error),
    })?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&files.certificate, &error))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| unusable(&files.certificate, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Makes the TLS towards an upstream: trusts the certificates of a file, or Mozilla's roots.
///
/// # Errors
///
/// Says that the file cannot be used, and why.
pub fn client(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let place = ca_file.unwrap_or_else(|| Path::new("TLS"));
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(place, &error))?;
    let builder = match ca_file {
        None => builder.with_webpki_roots(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|error| unusable(file, &error))?;
            }
            builder.with_root_certificates(roots)
        }
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = whole(file)?;
    let read = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unreadable(file, &error))?;
    if read.is_empty() {
        return Err(TlsError::NoCertificate { file: file.to_path_buf() });
    }
    Ok(read)
}

fn whole(file: &Path) -> Result<Vec<u8>, TlsError> {
    bounded::read(file, PEM_MAX).map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &Path, error: &impl ToString) -> TlsError {
    TlsError::Unreadable { file: file.to_path_buf(), reason: error.to_string() }
}

fn unusable(file: &Path, error: &rustls::Error) -> TlsError {
    TlsError::Unusable { file: file.to_path_buf(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(error: &TlsError, words: &str) {
        let text = error.to_string();
        assert!(text.contains(words), "{text}");
    }

    #[test]
    fn what_cannot_be_used_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = file("cert.pem", &made.cert.pem());
        let key = file("key.pem", &made.signing_key.serialize_pem());
        let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let empty = file("empty.pem", "");
        let absent = folder.path().join("absent.pem");
        let files = |certificate: &PathBuf, key: &PathBuf| TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
        };
        assert!(server(&files(&certificate, &key)).is_ok());
        assert!(client(Some(&certificate)).is_ok());
        assert!(client(None).is_ok());
        says(&server(&files(&absent, &key)).unwrap_err(), "absent.pem cannot be read");
        says(&server(&files(&empty, &key)).unwrap_err(), "empty.pem holds no certificate");
        says(&server(&files(&certificate, &empty)).unwrap_err(), "empty.pem holds no private key");
        says(&server(&files(&certificate, &file("b.pem", &other))).unwrap_err(), "cannot be used");
        says(&client(Some(&absent)).unwrap_err(), "absent.pem cannot be read");
    }
}
