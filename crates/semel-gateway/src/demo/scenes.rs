//! The steps in which nothing breaks but the client.

use std::net::SocketAddr;

use tokio::task::JoinSet;

use super::{
    api::At,
    client::{Answer, Payment},
    stage::{Stage, StageError, Tally, told},
    verdict::{Expect, Intent, Row},
};

pub(super) const BARE: &str = "without Semel: 20 requests at once";
pub(super) const FIRST: &str = "first request";
const REPLAY: &str = "the same request again";
const CHANGED: &str = "the same key, another amount";
pub(super) const AT_ONCE: &str = "20 at once with one key";
pub(super) const HANG_UP: &str = "client hangs up, then retries";

const CALLERS: usize = 20;

/// The same race with nobody between: it shows what the gateway is for, and that the ledger counts.
pub(super) async fn bare(stage: &Stage) -> Result<Row, StageError> {
    let payment = stage.payment("/payments", "bare");
    let mut tally = Tally::of(BARE);
    let answers = send_at_once(&payment, stage.api.address, &mut tally).await;
    let paid = answers.iter().filter(|answer| answer.status == 201).count();
    tally.say(format!("{paid} × 201"));
    let intent = Intent { order: payment.order, expect: Expect::Several, told: None };
    Ok(tally.row(vec![intent]))
}

/// One intent: its first request, its replay, and other content under its key.
pub(super) async fn one_intent(stage: &Stage) -> Result<Vec<Row>, StageError> {
    let payment = stage.payment("/payments", "order");
    let to = stage.to();

    let mut tally = Tally::of(FIRST);
    tally.sent(1);
    let first = payment.send(to).await?;
    tally.wants(&first, 201, false);
    tally.say(first.to_string());
    let intent = Intent::once(&payment.order, told(&first));
    let row_first = tally.row(vec![intent.clone()]);

    let mut tally = Tally::of(REPLAY);
    tally.sent(1);
    let again = payment.send(to).await?;
    tally.wants(&again, 201, true);
    same_bytes(&first, &again, &mut tally);
    tally.say(format!("{again}, byte for byte"));
    let row_replay = tally.row(vec![intent.clone()]);

    let mut tally = Tally::of(CHANGED);
    tally.sent(1);
    let changed = Payment { amount: "99.00", ..payment }.send(to).await?;
    tally.wants(&changed, 422, false);
    tally.say(changed.to_string());
    Ok(vec![row_first, row_replay, tally.row(vec![intent])])
}

/// Twenty callers race with one key.
pub(super) async fn at_once(stage: &Stage) -> Result<Row, StageError> {
    let payment = stage.payment("/payments", "race");
    let mut tally = Tally::of(AT_ONCE);
    let answers = send_at_once(&payment, stage.to(), &mut tally).await;
    let fresh = answers.iter().filter(|answer| answer.status == 201 && !answer.replayed).count();
    let replayed = answers.iter().filter(|answer| answer.status == 201 && answer.replayed).count();
    if (fresh, replayed) != (1, CALLERS - 1) {
        tally.fault(format!("{fresh} ran and {replayed} were replayed, not 1 and {}", CALLERS - 1));
    }
    if let Some(first) = answers.first() {
        answers.iter().for_each(|answer| same_bytes(first, answer, &mut tally));
    }
    tally.say(format!("{fresh} × 201, {replayed} × 201 replayed"));
    let told = answers.first().and_then(told);
    Ok(tally.row(vec![Intent::once(&payment.order, told)]))
}

/// A client goes away while its request runs; its retry gets the answer it missed.
pub(super) async fn hang_up(stage: &Stage) -> Result<Row, StageError> {
    let payment = stage.payment("/payments", "hang-up");
    let mut tally = Tally::of(HANG_UP);
    let gate = stage.api.gates.put(&payment.order, At::AfterCharge);
    tally.sent(1);
    let connection = payment.send_only(stage.to()).await?;
    gate.reached().await;
    drop(connection);
    gate.open();
    tally.say("no answer");
    tally.sent(1);
    let retry = payment.send(stage.to()).await?;
    tally.wants(&retry, 201, true);
    tally.say(retry.to_string());
    Ok(tally.row(vec![Intent::once(&payment.order, told(&retry))]))
}

async fn send_at_once(payment: &Payment, to: SocketAddr, tally: &mut Tally) -> Vec<Answer> {
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let payment = payment.clone();
        callers.spawn(async move { payment.send(to).await });
    }
    tally.sent(CALLERS);
    let mut answers = Vec::new();
    while let Some(sent) = callers.join_next().await {
        match sent {
            Ok(Ok(answer)) => answers.push(answer),
            Ok(Err(error)) => tally.fault(format!("a caller got no answer: {error}")),
            Err(error) => tally.fault(format!("a caller was lost: {error}")),
        }
    }
    answers
}

fn same_bytes(first: &Answer, again: &Answer, tally: &mut Tally) {
    if first.body != again.body {
        tally.fault("two answers to one intent differ");
    }
}
