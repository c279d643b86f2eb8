//! Semel under its own drill: the gateway and the layer, over each store, keep every rule.

mod gateway;
mod layer;
mod orders;
mod service;
mod transact;

use std::{net::SocketAddr, path::Path, time::Duration};

use semel_drill::{
    plan::{Plan, ProcessSpec},
    report::Ended,
};
use semel_testkit::servers::{Major, Postgres, Redis, RedisKind, free_port};

use crate::{
    api::plan,
    faults::{drilled, rules, told},
};

/// The operations, by their paths.
const OPERATIONS: [&str; 3] = ["orders", "refunds", "tips"];

/// How long a lost holder is believed alive.
const LEASE: Duration = Duration::from_secs(2);

/// How long an operation's outcome is replayed: that of a tip is soon forgotten, that of an order
/// however long the machine is busy.
fn replay_for(operation: &str) -> Duration {
    Duration::from_secs(if operation == "tips.create" { 2 } else { 86_400 })
}

/// The URL of a store of its own.
enum Store {
    Postgres,
    Redis,
    Sqlite,
}

impl Store {
    async fn url(&self, folder: &Path) -> String {
        match self {
            Self::Sqlite => format!("sqlite:{}", folder.join("semel.db").display()),
            Self::Postgres => {
                let server = Postgres::shared(Major::V18).await;
                let database = format!("drill_{}_{}", std::process::id(), free_port());
                server.database(&database).await
            }
            // Intents have fresh names: drills can share one.
            Self::Redis => Redis::shared(RedisKind::Redis7).await.url(),
        }
    }
}

fn address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// The plan for Semel in front of the orders: with a tenant, and a process.
fn plan_of(start: Vec<String>, effects: Option<SocketAddr>) -> Plan {
    let mut plan = plan();
    plan.request.headers.insert("x-tenant".into(), "a".into());
    plan.other.as_mut().unwrap().headers.insert("x-tenant".into(), "a".into());
    if let Some(address) = effects {
        plan.effects.url = Some(format!("http://{address}/effects/{{{{intent}}}}"));
    }
    plan.bounds.patience = Duration::from_secs(30);
    plan.process = Some(ProcessSpec { start, folder: None, ready: "/effects/none".into() });
    plan
}

/// Every rule there is holds: of the orders all but one, and that one of the tips.
async fn keeps_every_rule(plan: Plan, address: SocketAddr) {
    let url = format!("http://{address}");
    let mut late = plan.clone();
    let verdicts = drilled(plan, &url, &[]).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    let not_tried = rules(&verdicts, |ended| matches!(ended, Ended::NotTried(_)));
    assert_eq!((kept.len(), not_tried), (20, vec!["late"]), "{}", told(&verdicts));
    late.request.path = "/tips".into();
    late.lifetime.replay_for = Some(replay_for("tips.create"));
    let verdicts = drilled(late, &url, &["late"]).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    assert_eq!(kept, ["control", "late"], "{}", told(&verdicts));
}
