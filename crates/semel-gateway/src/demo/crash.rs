//! The steps in which the gateway dies by `kill -9` in the middle of a request.

use std::{io, process::Output, time::Duration};

use serde_json::json;
use tokio::task::JoinSet;

use super::{
    api::{At, payment_id},
    client::{Answer, Payment},
    stage::{Stage, StageError, Tally, told},
    verdict::{Intent, Row},
};

pub(super) const AFTER: &str = "kill -9 after the charge, before the answer";
pub(super) const BEFORE: &str = "kill -9 before the charge";
pub(super) const RERUN: &str = "kill -9, the API honours the forwarded key";

/// How often an operator asks again until "not done" may be said, 100 ms apart.
const ASKS_MAX: usize = 100;

/// The charge is made and its answer is lost with the gateway: nobody may run it again by guess.
pub(super) async fn after_charge(stage: &mut Stage) -> Result<Row, StageError> {
    let payment = stage.payment("/payments", "crash-after");
    let mut tally = Tally::of(AFTER);
    crash(stage, &payment, At::AfterCharge, &mut tally).await?;
    let answer = unknown_then_resolved(stage, &payment, &mut tally).await?;
    tally.wants(&answer, 201, true);
    tally.say(format!("the operator says that it is in the ledger, {answer}"));
    Ok(tally.row(vec![Intent::once(&payment.order, told(&answer))]))
}

/// The gateway dies while nothing is charged, which it cannot know either.
pub(super) async fn before_charge(stage: &mut Stage) -> Result<Row, StageError> {
    let payment = stage.payment("/payments", "crash-before");
    let mut tally = Tally::of(BEFORE);
    crash(stage, &payment, At::BeforeCharge, &mut tally).await?;
    let answer = unknown_then_resolved(stage, &payment, &mut tally).await?;
    tally.wants(&answer, 201, false);
    tally.say(format!("the operator says that it is not in the ledger, {answer}"));
    Ok(tally.row(vec![Intent::once(&payment.order, told(&answer))]))
}

/// Where the API honours the key, the retry alone settles it.
pub(super) async fn rerun(stage: &mut Stage) -> Result<Row, StageError> {
    let payment = stage.payment("/payouts", "crash-rerun");
    let mut tally = Tally::of(RERUN);
    crash(stage, &payment, At::AfterCharge, &mut tally).await?;
    tally.sent(1);
    let answer = payment.send(stage.to()).await?;
    tally.wants(&answer, 201, false);
    tally.say(format!("the retry is sent on with the same key, {answer}"));
    Ok(tally.row(vec![Intent::once(&payment.order, told(&answer))]))
}

/// Kills the gateway when the request stands at a gate in the API, and starts it again.
async fn crash(
    stage: &mut Stage,
    payment: &Payment,
    at: At,
    tally: &mut Tally,
) -> Result<(), StageError> {
    let gate = stage.api.gates.put(&payment.order, at);
    let mut caller = JoinSet::new();
    let (sent, to) = (payment.clone(), stage.to());
    caller.spawn(async move { sent.send(to).await });
    tally.sent(1);
    tokio::select! {
        () = gate.reached() => {}
        ended = caller.join_next() => {
            tally.fault(format!("the request ended before the API saw it: {ended:?}"));
            return Ok(());
        }
    }
    stage.gateway.kill().await?;
    if let Some(Ok(Ok(answer))) = caller.join_next().await {
        tally.fault(format!("a dead gateway answered {}", answer.status));
    }
    tally.say("no answer");
    stage.gateway.restart().await?;
    Ok(())
}

/// A retry learns that nobody can say. An operator looks into the ledger and says what is true there.
async fn unknown_then_resolved(
    stage: &Stage,
    payment: &Payment,
    tally: &mut Tally,
) -> Result<Answer, StageError> {
    tally.sent(1);
    let retry = payment.send(stage.to()).await?;
    if retry.problem().as_deref() != Some("unknown") {
        tally.fault(format!("the retry met {} and not \"unknown\"", retry.status));
    }
    tally.say(format!("retry: {retry}"));
    if let Err(why) = resolve(stage, payment).await? {
        tally.fault(why);
    }
    tally.sent(1);
    Ok(payment.send(stage.to()).await?)
}

/// Does what an operator would: looks into the ledger, and resolves on the command line. Whoever
/// finds no charge looks again each time until nobody can still be sending.
pub(super) async fn resolve(
    stage: &Stage,
    payment: &Payment,
) -> Result<Result<(), String>, StageError> {
    for _ in 0..ASKS_MAX {
        let id = stage.charged(&payment.order)?.map(payment_id);
        let output = resolve_as(stage, payment, id.as_deref()).await?;
        match output.status.code() {
            Some(0) => return Ok(Ok(())),
            Some(1) if id.is_none() => tokio::time::sleep(Duration::from_millis(100)).await,
            _ => return Ok(Err(said(&output))),
        }
    }
    Err(io::Error::other("an unknown intent could not be resolved in time").into())
}

async fn resolve_as(stage: &Stage, payment: &Payment, id: Option<&str>) -> io::Result<Output> {
    let mut arguments = vec!["records", "resolve", "payments.create", &payment.key];
    arguments.extend(["--yes", "--json", "--actor", "the demo", "--note"]);
    let Some(id) = id else {
        arguments.extend(["the ledger has no charge", "--not-done"]);
        return stage.gateway.command(&arguments).await;
    };
    let paid = json!({ "id": id, "order": payment.order, "amount": payment.amount }).to_string();
    let pointer = format!("payment/{id}");
    arguments.extend(["the charge is in the ledger", "--done", "--status", "201"]);
    arguments.extend(["--body", &paid, "--pointer", &pointer]);
    stage.gateway.command(&arguments).await
}

fn said(output: &Output) -> String {
    format!("the operator could not resolve it: {}", String::from_utf8_lossy(&output.stderr).trim())
}
