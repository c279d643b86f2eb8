//! Key, order and answer in one transaction: claimed there, or bridged from a gateway.

use semel_drill::plan::Other;
use semel_gateway::{config::StoreUrl, stores};

use super::{
    Store, address, gateway, keeps_every_rule,
    orders::{Form, router},
    plan_of,
    service::command,
};
use crate::api::Api;

#[tokio::test]
async fn a_key_that_is_claimed_in_the_transaction_keeps_every_rule() {
    let (folder, address) = (tempfile::tempdir().unwrap(), address());
    let url = Store::Postgres.url(folder.path()).await;
    stores::migrate(&StoreUrl::parse(&url, folder.path()).unwrap().into()).await.unwrap();
    let mut plan = plan_of(command("atomic", address, &url, folder.path()), None);
    // The functions compare byte by byte.
    plan.answers.reformatted = Some(Other::Mismatch);
    keeps_every_rule(plan, address).await;
}

#[tokio::test]
async fn a_permit_that_is_completed_in_the_transaction_keeps_every_rule() {
    let (folder, listen) = (tempfile::tempdir().unwrap(), address());
    let url = Store::Postgres.url(folder.path()).await;
    let api = Api::of(address(), router(&url, Form::Bridged).await).await;
    let file = folder.path().join("semel.toml");
    // Safe, since everything that an order does lies inside that transaction.
    let config = gateway::config(listen, &url, &api.url(), "rerun");
    let config = config.replacen("[[operation]]", "bridged = true\n[[operation]]", 1);
    let config = config.replace("on_lost", "bridged = true\non_lost");
    std::fs::write(&file, config).unwrap();
    let start = gateway::command(&file);
    keeps_every_rule(plan_of(start, Some(api.address())), listen).await;
}
