//! TLS to the server, by rustls.
//!
//! `disable`: none. `prefer`, the default: if the server offers it; its certificate is not checked,
//! since whoever can forge one can as well offer no TLS. `require` and `verify-full`: the certificate
//! must be valid for the host, by a file of authorities or the well-known ones.

use semel::StoreError;
use tokio_postgres::config::SslMode;

use crate::address::TlsFiles;

#[cfg(feature = "rustls")]
pub(crate) use self::with_rustls::Tls;
#[cfg(not(feature = "rustls"))]
pub(crate) use self::without::Tls;

#[cfg(feature = "rustls")]
mod with_rustls {
    use std::{path::Path, sync::Arc};

    use rustls::{
        ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
        client::{
            WebPkiServerVerifier,
            danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        },
        crypto::CryptoProvider,
        pki_types::{
            CertificateDer, PrivateKeyDer, ServerName, UnixTime,
            pem::{self, PemObject},
        },
    };
    use tokio_postgres_rustls::MakeRustlsConnect;

    use super::{SslMode, StoreError, TlsFiles};
    use crate::error::invalid;

    /// Makes TLS connections.
    #[derive(Clone)]
    pub(crate) struct Tls(pub(crate) MakeRustlsConnect);

    impl Tls {
        /// Reads the files.
        pub(crate) fn new(mode: SslMode, files: &TlsFiles) -> Result<Self, StoreError> {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let bad = |error| invalid("TLS cannot be set up").with_source(error);
            let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
                .with_safe_default_protocol_versions()
                .map_err(bad)?;
            let config = if mode == SslMode::Prefer && files.authority.is_none() {
                config.dangerous().with_custom_certificate_verifier(Arc::new(Unchecked(provider)))
            } else {
                let roots = Arc::new(roots(files.authority.as_deref())?);
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
                let verifier = verifier.map_err(|error| {
                    invalid("the file of certificate authorities cannot be used").with_source(error)
                })?;
                config.with_webpki_verifier(verifier)
            };
            let config = match (&files.certificate, &files.key) {
                (Some(certificate), Some(key)) => config
                    .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
                    .map_err(bad)?,
                (None, None) => config.with_no_client_auth(),
                _ => return Err(invalid("a client certificate needs sslcert and sslkey")),
            };
            Ok(Self(MakeRustlsConnect::new(config)))
        }
    }

    fn roots(authority: Option<&Path>) -> Result<RootCertStore, StoreError> {
        let Some(authority) = authority else {
            return Ok(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() });
        };
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(certificates(authority)?);
        if added == 0 {
            return Err(invalid("the file of certificate authorities holds no certificate"));
        }
        Ok(roots)
    }

    fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        read.map_err(|error| unread(path, error))
    }

    fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, StoreError> {
        PrivateKeyDer::from_pem_file(path).map_err(|error| unread(path, error))
    }

    fn unread(path: &Path, error: pem::Error) -> StoreError {
        let message = format!("{} cannot be read as PEM", path.display());
        StoreError::new(semel::StoreErrorKind::Invalid, message).with_source(error)
    }

    /// Takes any certificate, and holds its owner to it.
    #[derive(Debug)]
    struct Unchecked(Arc<CryptoProvider>);

    impl ServerCertVerifier for Unchecked {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let known = &self.0.signature_verification_algorithms;
            rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let known = &self.0.signature_verification_algorithms;
            rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.signature_verification_algorithms.supported_schemes()
        }
    }
}

#[cfg(not(feature = "rustls"))]
mod without {
    use super::{SslMode, StoreError, TlsFiles};
    use crate::error::invalid;

    /// Makes no TLS connections.
    #[derive(Clone)]
    pub(crate) struct Tls(pub(crate) tokio_postgres::NoTls);

    impl Tls {
        /// Refuses what needs TLS.
        pub(crate) fn new(mode: SslMode, files: &TlsFiles) -> Result<Self, StoreError> {
            let any =
                files.authority.is_some() || files.certificate.is_some() || files.key.is_some();
            if mode == SslMode::Require || any {
                return Err(invalid("this build has no TLS; build semel-postgres with rustls"));
            }
            Ok(Self(tokio_postgres::NoTls))
        }
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
