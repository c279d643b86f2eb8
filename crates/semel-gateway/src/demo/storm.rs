//! The last step: clients that retry until they know, and a gateway that is killed again and again.

use std::{collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, mpsc},
    task::JoinSet,
};

use super::{
    client::Payment,
    crash::resolve,
    stage::{Stage, StageError, Tally, told},
    verdict::{Intent, Row},
};

pub(super) const STORM: &str = "5 × kill -9 under 12 clients that retry";

const INTENTS: usize = 60;
const CLIENTS: usize = 12;
/// The gateway is killed each time that so many more intents were answered.
const KILL_EVERY: usize = 10;
const KILLS: usize = 5;
/// How often a client sends one request until it gives up.
const TRIES_MAX: usize = 1_000;

/// What one client learnt of one intent.
enum Learnt {
    /// It was sent so often and is paid, as this payment.
    Paid(usize, Option<String>),
    /// Nobody can say.
    Unknown(usize, Payment),
    /// What came back made no sense.
    Fault(usize, String),
}

pub(super) async fn storm(stage: &mut Stage) -> Result<Row, StageError> {
    let mut tally = Tally::of(STORM);
    let intents: VecDeque<_> = (0..INTENTS)
        .map(|n| {
            let path = if n % 2 == 0 { "/payments" } else { "/payouts" };
            stage.payment(path, &format!("storm-{n}"))
        })
        .collect();
    let all: Vec<_> = intents.iter().cloned().collect();
    let unknown = rage(stage, intents, &mut tally).await?;
    let count = unknown.len();
    for payment in unknown {
        if let Err(why) = resolve(stage, &payment).await? {
            tally.fault(why);
        }
    }
    let mut judged = Vec::new();
    for payment in all {
        tally.sent(1);
        let answer = payment.send(stage.to()).await?;
        if answer.status != 201 {
            tally.fault(format!("{} ended as {}", payment.order, answer.status));
        }
        judged.push(Intent::once(&payment.order, told(&answer)));
    }
    tally.say(format!(
        "{} × 201; {count} unknown, resolved by the operator from the ledger",
        INTENTS - count
    ));
    Ok(tally.row(judged))
}

/// Lets the clients send and the gateway die, and returns what is unknown in the end.
async fn rage(
    stage: &mut Stage,
    intents: VecDeque<Payment>,
    tally: &mut Tally,
) -> Result<Vec<Payment>, StageError> {
    let intents = Arc::new(Mutex::new(intents));
    let (tell, mut learnt) = mpsc::channel(INTENTS);
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(client(Arc::clone(&intents), stage.to(), tell.clone()));
    }
    drop(tell);
    let (mut unknown, mut answered, mut kills) = (Vec::new(), 0, 0);
    while let Some(learnt) = learnt.recv().await {
        answered += 1;
        match learnt {
            Learnt::Paid(tries, told) => {
                tally.sent(tries);
                if told.is_none() {
                    tally.fault("an answer named no payment");
                }
            }
            Learnt::Unknown(tries, payment) => {
                tally.sent(tries);
                unknown.push(payment);
            }
            Learnt::Fault(tries, why) => {
                tally.sent(tries);
                tally.fault(why);
            }
        }
        if kills < KILLS && answered >= (kills + 1) * KILL_EVERY {
            kills += 1;
            stage.gateway.kill().await?;
            stage.gateway.restart().await?;
        }
    }
    if kills < KILLS {
        tally.fault(format!("the gateway was killed {kills} times only"));
    }
    Ok(unknown)
}

/// Takes one intent after the other, and sends each until it knows.
async fn client(
    intents: Arc<Mutex<VecDeque<Payment>>>,
    to: SocketAddr,
    tell: mpsc::Sender<Learnt>,
) {
    loop {
        let Some(payment) = intents.lock().await.pop_front() else {
            return;
        };
        if tell.send(until_known(payment, to).await).await.is_err() {
            return;
        }
    }
}

async fn until_known(payment: Payment, to: SocketAddr) -> Learnt {
    for tries in 1..=TRIES_MAX {
        if let Ok(answer) = payment.send(to).await {
            let problem = answer.problem();
            match (answer.status, problem.as_deref()) {
                (201, _) => return Learnt::Paid(tries, told(&answer)),
                (_, Some("unknown")) => return Learnt::Unknown(tries, payment),
                // In progress elsewhere, or the gateway is closing: the same key, a little later.
                (409 | 429 | 503, _) => {}
                (status, _) => {
                    return Learnt::Fault(tries, format!("{} met {status}", payment.order));
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Learnt::Fault(TRIES_MAX, format!("{} was never answered", payment.order))
}
