//! What is said of servers that cannot be connected to.

use std::net::SocketAddr;

use semel_postgres::PostgresStore;
use semel_testkit::servers::{Major, Postgres, free_port};

async fn told(url: &str) -> String {
    PostgresStore::builder(url).open().await.unwrap_err().to_string()
}

#[tokio::test]
async fn of_two_hosts_the_one_that_answered_is_told_of() {
    let server = Postgres::shared(Major::V18).await.address();
    let nobody = SocketAddr::from(([127, 0, 0, 1], free_port()));
    for hosts in [format!("{server},{nobody}"), format!("{nobody},{server}")] {
        let told = told(&format!("postgresql://postgres@{hosts}/no_such")).await;
        assert!(told.contains("no such database"), "{told}");
    }
    let told = told(&format!("postgresql://postgres@{nobody}/no_such")).await;
    assert!(told.contains("look whether it runs"), "{told}");
}

#[cfg(feature = "rustls")]
#[tokio::test]
async fn a_server_without_tls_is_not_said_to_be_away() {
    let server = Postgres::shared(Major::V15).await.address();
    let told = told(&format!("postgresql://postgres@{server}/postgres?sslmode=require")).await;
    assert!(told.contains("TLS"), "{told}");
}
