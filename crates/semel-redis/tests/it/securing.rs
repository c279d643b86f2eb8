//! TLS to the servers: whom the store believes, and by whose word.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use semel::StoreErrorKind::Unavailable;
use semel_redis::{RedisBuilder, RedisStore};
use semel_testkit::servers::{
    Medium, Redis, RedisBuilder as ServerBuilder, RedisCluster, RedisKind, RedisTls, Scratch,
    Sentinels,
};

use crate::words::*;

/// Two authorities, and what the first vouches for.
struct Authorities {
    folder: Scratch,
}

impl Authorities {
    fn new() -> Self {
        let made = Self { folder: Scratch::new("tls", Medium::Memory) };
        let issuer = made.authority("ours");
        made.authority("theirs");
        made.certificate("server", &["localhost", "127.0.0.1"], &issuer);
        made.certificate("client", &["app"], &issuer);
        made.certificate("elsewhere", &["elsewhere"], &issuer);
        made
    }

    fn authority(&self, name: &str) -> Issuer<'static, KeyPair> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        fs::write(self.file(name), params.self_signed(&key).unwrap().pem()).unwrap();
        Issuer::new(params, key)
    }

    fn certificate(&self, name: &str, of: &[&str], issuer: &Issuer<'_, KeyPair>) {
        let names: Vec<_> = of.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let signed = params.signed_by(&key, issuer).unwrap();
        fs::write(self.file(name), signed.pem()).unwrap();
        fs::write(self.key(name), key.serialize_pem()).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.pem"))
    }

    fn key(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.key"))
    }

    fn shown(&self, name: &str, asks_clients: bool) -> RedisTls {
        let (authority, certificate) = (self.file("ours"), self.file(name));
        RedisTls { authority, certificate, key: self.key(name), asks_clients }
    }

    fn server(&self, name: &str) -> ServerBuilder {
        Redis::builder(RedisKind::Redis7).tls(self.shown(name, false))
    }
}

fn at(server: &Redis, host: &str) -> RedisBuilder {
    RedisStore::builder(&format!("rediss://{host}:{}", server.tls_address().port()))
}

async fn refused(builder: RedisBuilder, authority: &Path) {
    let error = builder.authority(authority).open().await.unwrap_err();
    assert_eq!(error.kind(), Unavailable, "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error:?}");
}

#[tokio::test]
async fn a_server_is_believed_by_its_own_authority_alone() {
    let made = Authorities::new();
    let (server, elsewhere) =
        tokio::join!(made.server("server").start(), made.server("elsewhere").start());
    for host in ["localhost", "127.0.0.1"] {
        let store = at(&server, host).authority(made.file("ours")).open().await.unwrap();
        finished(&store, &id(host)).await;
        refused(at(&server, host), &made.file("theirs")).await;
        // Vouched for, and somebody else.
        refused(at(&elsewhere, host), &made.file("ours")).await;
    }
    // The authorities of the web know nothing of it.
    let error = at(&server, "localhost").open().await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error:?}");
    // Whoever does not speak TLS is not heard.
    let plain = format!("redis://localhost:{}", server.tls_address().port());
    fails(RedisStore::builder(&plain).open().await, Unavailable, &[]);
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_is_shown_one() {
    let made = Authorities::new();
    let built = Redis::builder(RedisKind::Redis7).tls(made.shown("server", true));
    let server = built.start().await;
    let bare = || at(&server, "localhost").authority(made.file("ours"));
    fails(bare().open().await, Unavailable, &["certificate"]);
    let shown = bare().identity(made.file("client"), made.key("client"));
    finished(&shown.open().await.unwrap(), &id("k")).await;
}

#[tokio::test]
async fn sentinels_and_what_they_name_are_reached_by_tls() {
    let made = Authorities::new();
    let primary = made.server("server").start().await;
    let _replica = made.server("server").replica_of(primary.tls_address()).start().await;
    let sentinels = Sentinels::watch(RedisKind::Redis7, &primary, 1).await;
    let hosts: Vec<_> = sentinels.tls_addresses().iter().map(ToString::to_string).collect();
    let url = format!("rediss://{}/0?sentinel={}", hosts.join(","), Sentinels::NAME);
    let builder = RedisStore::builder(&url).wait_replicas(1).wait_for(Duration::from_secs(10));
    finished(&builder.clone().authority(made.file("ours")).open().await.unwrap(), &id("k")).await;
    refused(builder, &made.file("theirs")).await;
}

#[tokio::test]
async fn a_cluster_is_reached_by_tls() {
    let made = Authorities::new();
    let cluster = RedisCluster::of(made.server("server")).await;
    let hosts: Vec<_> = cluster.tls_addresses().iter().map(ToString::to_string).collect();
    let url = format!("rediss://{}?cluster=true", hosts.join(","));
    let builder = RedisStore::builder(&url).wait_replicas(1).wait_for(Duration::from_secs(10));
    let store = builder.clone().authority(made.file("ours")).open().await.unwrap();
    for number in 0..20 {
        finished(&store, &id(&format!("k{number}"))).await;
    }
    refused(builder, &made.file("theirs")).await;
}
