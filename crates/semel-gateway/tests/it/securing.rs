//! TLS on both sides.

use std::{path::PathBuf, sync::Arc};

use rcgen::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use semel_gateway::{Gateway, ServeError, settings::TlsFiles};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::{
    gateway::{Served, settings},
    message::{Wire, answer, request},
    upstream::Upstream,
};

struct Files {
    _folder: tempfile::TempDir,
    made: CertifiedKey<rcgen::KeyPair>,
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        Self { _folder: folder, made, certificate, key }
    }

    fn tls(&self) -> TlsFiles {
        TlsFiles { certificate: self.certificate.clone(), key: self.key.clone() }
    }

    fn certificate(&self) -> CertificateDer<'static> {
        self.made.cert.der().clone()
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A server that answers every request on a TLS connection.
async fn secure_upstream(files: &Files) -> u16 {
    let key = PrivateKeyDer::try_from(files.made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![files.certificate()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(tls) = acceptor.accept(tcp).await else { return };
                let mut wire = Wire::new(tls);
                while wire.request().await.is_some() {
                    wire.write(answer(201, &[], "secured")).await;
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn an_upstream_is_spoken_to_over_tls_if_its_certificate_is_trusted() {
    let files = Files::new();
    let port = secure_upstream(&files).await;
    let mut settings = settings(&[("api", &format!("https://localhost:{port}"))]);
    settings.upstreams[0].ca_file = Some(files.certificate.clone());
    let gateway = Served::new(&settings).await;
    for key in ["tls-1", "tls-1", "tls-2"] {
        let got = gateway.pay(key).await;
        assert_eq!((got.status(), got.text()), (201, "secured"));
    }
    settings.upstreams[0].ca_file = None;
    let stranger = Served::new(&settings).await;
    let got = stranger.pay("tls-3").await;
    assert_eq!((got.status(), got.code().as_str()), (502, "upstream-unreachable"));
}

#[tokio::test]
async fn the_listener_speaks_tls() {
    let files = Files::new();
    let upstream = Upstream::counting().await;
    let mut settings = settings(&[("api", &upstream.url())]);
    settings.tls = Some(files.tls());
    let gateway = Served::new(&settings).await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(files.certificate()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(gateway.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
    let mut wire = Wire::new(tls);
    for _ in 0..2 {
        wire.write(request("POST /pay", &[("idempotency-key", "listener-tls-1")], "{}")).await;
        assert_eq!(wire.answer("POST").await.unwrap().text(), "{\"id\":1}");
    }
    assert_eq!(upstream.seen.requests()[0].header("x-forwarded-proto"), Some("https"));
    // Whoever speaks plain HTTP to it gets nothing, and harms nobody.
    let mut plain = Wire::to(gateway.address).await;
    plain.write(request("GET /", &[], "")).await;
    while plain.some().await.is_some() {}
    assert_eq!(upstream.seen.requests().len(), 1);
}

#[tokio::test]
async fn files_that_cannot_be_used_are_refused_by_name() {
    let files = Files::new();
    let mut settings = settings(&[("api", "http://127.0.0.1:1")]);
    settings.tls = Some(TlsFiles { key: PathBuf::from("/absent/key.pem"), ..files.tls() });
    let refused = Gateway::new(&settings).await.unwrap_err();
    let ServeError::Tls(error) = refused else { panic!("{refused}") };
    assert!(error.to_string().contains("/absent/key.pem cannot be read"), "{error}");
}
