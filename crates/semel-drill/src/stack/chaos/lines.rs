//! The hand on the ways to the upstream and to the database: it cuts, refuses, delays, and loses a
//! request or a reply.

use semel_testkit::servers::{Moment, TcpProxy, Towards};
use tokio::time::{Duration, sleep};

use super::{Chaos, Hand};
use crate::stack::{StackError, place::Line, trouble::Trouble};

const BOTH: [Towards; 2] = [Towards::Server, Towards::Client];

pub(super) async fn hand(chaos: &Chaos, lines: &[Line]) -> Result<(), StackError> {
    let mut hand = chaos.hand(3, &[Trouble::Cut, Trouble::Delay]);
    while let Some(trouble) = hand.next().await {
        let all: Vec<_> = lines.iter().collect();
        let Some(line) = hand.one_of(&all) else { continue };
        let event = chaos.log.begin(trouble, Some(line.gateway));
        match trouble {
            Trouble::Delay => delay(chaos, &hand, &line.proxy).await,
            _ => cut(&hand, &line.proxy).await,
        }
        chaos.log.end(event);
    }
    Ok(())
}

async fn cut(hand: &Hand, line: &TcpProxy) {
    // Any piece will do: what it was shows when its reply does not come.
    let moment = Moment::nth("", usize::try_from(1 + hand.chance.below(8)).unwrap_or(1));
    match hand.chance.below(4) {
        0 => line.cut().await,
        1 => {
            line.refuse().await;
            line.cut().await;
            hand.wait(20, 600).await;
            line.accept().await;
        }
        2 => {
            drop(line.swallow_replies_after(moment));
            hand.wait(50, 200).await;
            line.disarm();
        }
        _ => {
            drop(line.cut_before(moment));
            hand.wait(50, 200).await;
            line.disarm();
        }
    }
}

async fn delay(chaos: &Chaos, hand: &Hand, line: &TcpProxy) {
    if hand.chance.below(4) == 0 {
        // Nothing passes for longer than the lease.
        let towards = hand.one_of(&BOTH).unwrap_or(Towards::Client);
        let lease = chaos.settings.lease;
        line.hold(towards);
        sleep(hand.between(lease / 2, lease * 3 / 2)).await;
        line.let_go(towards);
        return;
    }
    for towards in BOTH {
        let late = hand.between(Duration::from_millis(2), Duration::from_millis(120));
        line.delay(towards, late);
    }
    hand.wait(200, 1_200).await;
    BOTH.into_iter().for_each(|towards| line.delay(towards, Duration::ZERO));
}
