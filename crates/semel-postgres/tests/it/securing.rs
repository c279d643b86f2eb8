//! TLS to the server: what each mode checks.

#![cfg(feature = "rustls")]

use std::{fs, os::unix::fs::MetadataExt, path::PathBuf};

use semel::StoreErrorKind;
use semel_postgres::{PostgresBuilder, PostgresStore};
use semel_testkit::servers::{Major, Postgres};

use crate::words::{PATIENCE, hold, id};

/// A server that speaks TLS as `localhost`, and refuses whoever does not.
struct Secured {
    server: Postgres,
    authority: PathBuf,
}

impl Secured {
    async fn start() -> Self {
        // The servers of the other majors are built without TLS.
        let server = Postgres::start(Major::V15).await;
        let folder = server.socket_folder().to_owned();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (authority, key) = (folder.join("server.pem"), folder.join("server.key"));
        fs::write(&authority, made.cert.pem()).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let owner = fs::metadata(folder.join("data")).unwrap();
        for file in [&authority, &key] {
            std::os::unix::fs::chown(file, Some(owner.uid()), Some(owner.gid())).unwrap();
            fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        }
        let only_tls = "local all all trust\nhostssl all all all trust\n";
        fs::write(folder.join("data/pg_hba.conf"), only_tls).unwrap();
        let set = format!(
            "ALTER SYSTEM SET ssl_cert_file = '{}'; ALTER SYSTEM SET ssl_key_file = '{}';
             ALTER SYSTEM SET ssl = on; SELECT pg_reload_conf()",
            authority.display(),
            key.display(),
        );
        server.run_sql(&set).await;
        let secured = Self { server, authority };
        secured.until_it_speaks_tls().await;
        secured
    }

    /// A store at a host name of the server.
    fn at(&self, host: &str, options: &str) -> PostgresBuilder {
        let port = self.server.address().port();
        PostgresStore::builder(format!("postgres://postgres@{host}:{port}/postgres?{options}"))
    }

    /// The server takes its settings when it gets to it.
    async fn until_it_speaks_tls(&self) {
        let deadline = std::time::Instant::now() + PATIENCE;
        while let Err(error) = self.at("localhost", "sslmode=prefer").open().await {
            assert!(std::time::Instant::now() < deadline, "{error:?}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    async fn refused(&self, host: &str, options: &str) {
        let error = self.at(host, options).open().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{host} {options}: {error}");
    }
}

#[tokio::test]
async fn a_certificate_is_checked_where_it_must_be() {
    let secured = Secured::start().await;
    let authority = secured.authority.display();
    // Nobody vouches for it but its own file.
    for mode in ["require", "verify-full"] {
        secured.refused("localhost", &format!("sslmode={mode}")).await;
        let trusted = format!("sslmode={mode}&sslrootcert={authority}");
        let store = secured.at("localhost", &trusted).open().await.unwrap();
        hold(&store, &id(mode)).await;
        secured.refused("127.0.0.1", &trusted).await;
    }
    let store = secured.at("localhost", "").authority(&secured.authority).open().await.unwrap();
    hold(&store, &id("by the builder".replace(' ', "-").as_str())).await;
    // Whoever checks nothing is let in; whoever wants no TLS is not.
    hold(&secured.at("127.0.0.1", "").open().await.unwrap(), &id("unchecked")).await;
    secured.refused("localhost", "sslmode=disable").await;
}
