//! The gateway of this build, a process that is killed and started again, before an API that looks at no
//! key, or keeps its keys itself.

use std::{net::SocketAddr, path::Path};

use super::{LEASE, OPERATIONS, Store, address, keeps_every_rule, plan_of, replay_for};
use crate::api::{Api, Fault};

/// The configuration of a gateway before the orders.
pub(super) fn config(listen: SocketAddr, store: &str, upstream: &str, on_lost: &str) -> String {
    let lease = LEASE.as_secs();
    let mut text = format!(
        "listen = \"{listen}\"\nstore = \"{store}\"\nreplay_auth = \"none\"\n\
         [tenant]\nsource = \"header\"\nheader = \"x-tenant\"\n\
         [[upstream]]\nname = \"orders\"\nurl = \"{upstream}\"\n"
    );
    for name in OPERATIONS {
        let replay_for = replay_for(&format!("{name}.create")).as_secs();
        text += &format!(
            "[[operation]]\nname = \"{name}.create\"\nmethod = \"POST\"\npath = \"/{name}\"\n\
             lease = \"{lease}s\"\nreplay_for = \"{replay_for}s\"\non_lost = \"{on_lost}\"\n"
        );
    }
    text
}

/// The command of the gateway of this build.
pub(super) fn command(config: &Path) -> Vec<String> {
    let program = env!("CARGO_BIN_EXE_semel-drill");
    let start = [program, "gateway", "serve", "--config", config.to_str().unwrap()];
    start.map(str::to_owned).into()
}

async fn holds(store: Store, upstream: Option<Fault>, on_lost: &str) {
    let (folder, listen, api) =
        (tempfile::tempdir().unwrap(), address(), Api::start(upstream).await);
    let file = folder.path().join("semel.toml");
    let store = store.url(folder.path()).await;
    std::fs::write(&file, config(listen, &store, &api.url(), on_lost)).unwrap();
    let plan = plan_of(command(&file), Some(api.address()));
    keeps_every_rule(plan, listen).await;
}

#[tokio::test]
async fn a_gateway_over_sqlite_keeps_every_rule() {
    holds(Store::Sqlite, Some(Fault::IgnoresKeys), "hold").await;
}

#[tokio::test]
async fn a_gateway_over_postgresql_keeps_every_rule() {
    holds(Store::Postgres, Some(Fault::IgnoresKeys), "hold").await;
}

#[tokio::test]
async fn a_gateway_that_reruns_over_sqlite_keeps_every_rule() {
    holds(Store::Sqlite, None, "rerun").await;
}

#[tokio::test]
async fn a_gateway_that_reruns_over_postgresql_keeps_every_rule() {
    holds(Store::Postgres, None, "rerun").await;
}
