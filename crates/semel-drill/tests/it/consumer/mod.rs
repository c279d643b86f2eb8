//! Consumers under drill: Semel's inbox keeps every rule, and each fault breaks its own.

mod billing;
mod command;
mod faults;
mod inbox;
mod lost;
mod one_by_one;
mod program;
mod queue;
mod right;
mod service;

use semel_drill::{consumer::Consumer, http::Target, plan::ConsumerPlan, report::Verdict};

/// The plan that tries everything there is.
const PLAN: &str = r#"
name = "billing"
[message]
path = "/events"
event = "OrderPlaced"
body = '{"order":"{{intent}}","amount":1000}'
[variants]
changed = '{"order":"{{intent}}","amount":2000}'
poison = '{"order":"{{intent}}","amount":"a lot"}'
fails_first = '{"order":"{{intent}}","amount":1000,"fails_first":true,"pause_ms":60}'
slow = '{"order":"{{intent}}","amount":1000,"pause_ms":150}'
[batch]
path = "/batches"
item = '{"id":"{{id}}","order":"{{intent}}","amount":1000}'
[ordered]
state = { url = "/states/{{aggregate}}", pointer = "/sequence" }
[effects]
url = "/effects/{{intent}}"
pointer = "/count"
[bounds]
racers = 8
storm = 12
between = 40
later = "100ms"
deliveries = 4
answer_wait = "10s"
patience = "10s"
"#;

fn plan() -> ConsumerPlan {
    ConsumerPlan::parse(PLAN).unwrap()
}

/// Drills by a plan, and returns every verdict.
async fn drilled(plan: ConsumerPlan, url: &str, only: &[&str]) -> Vec<Verdict> {
    let target = Target::parse(url, None).unwrap();
    let only: Vec<_> = only.iter().map(|&rule| rule.to_owned()).collect();
    Consumer::open(plan, target, None, 7).unwrap().run(&only, |_| {}).await
}
