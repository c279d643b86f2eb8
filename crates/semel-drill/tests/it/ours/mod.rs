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
use semel_testkit::servers::{Major, Postgres, free_port};

use crate::{
    api::plan,
    faults::{drilled, rules, told},
};

/// How long an outcome is replayed: longer than a killed process takes until it is back.
const REPLAY_FOR: Duration = Duration::from_secs(6);

/// How long a lost holder is believed alive.
const LEASE: Duration = Duration::from_secs(1);

/// The URL of a store of its own.
enum Store {
    Postgres,
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
        }
    }
}

fn address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// The plan for Semel in front of the orders: with a tenant, a life of outcomes, and a process.
fn plan_of(start: Vec<String>, effects: Option<SocketAddr>) -> Plan {
    let mut plan = plan();
    plan.request.headers.insert("x-tenant".into(), "a".into());
    plan.other.as_mut().unwrap().headers.insert("x-tenant".into(), "a".into());
    if let Some(address) = effects {
        plan.effects.url = Some(format!("http://{address}/effects/{{{{intent}}}}"));
    }
    plan.lifetime.replay_for = Some(REPLAY_FOR);
    plan.bounds.patience = Duration::from_secs(20);
    plan.process = Some(ProcessSpec { start, folder: None, ready: "/effects/none".into() });
    plan
}

/// Every rule there is holds.
async fn keeps_every_rule(plan: Plan, address: SocketAddr) {
    let verdicts = drilled(plan, &format!("http://{address}"), &[]).await;
    let kept = rules(&verdicts, |ended| *ended == Ended::Kept);
    assert_eq!(kept.len(), 20, "{}", told(&verdicts));
}
