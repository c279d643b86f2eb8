//! The hand on the database: it shuts it down, kills it, fails it over, cuts its power and turns its
//! clock.

use super::{Chaos, Hand};
use crate::stack::{StackError, place::ServerPlace, trouble::Trouble};

const ABLE: [Trouble; 4] = [Trouble::Failover, Trouble::Power, Trouble::Restart, Trouble::Skew];

pub(super) async fn hand(
    chaos: &Chaos,
    server: Option<&mut ServerPlace>,
) -> Result<(), StackError> {
    let Some(server) = server else { return Ok(()) };
    let mut hand = chaos.hand(2, &ABLE);
    while let Some(trouble) = hand.next().await {
        let event = chaos.log.begin(trouble, None);
        match trouble {
            Trouble::Failover => server.fail_over().await,
            Trouble::Power => {
                server.primary.cut_power().await;
                server.primary.restart().await;
            }
            Trouble::Skew => {
                if let Some(skew) = &server.skew {
                    skew.set(hand.jump())?;
                }
            }
            _ => restart(&hand, server).await,
        }
        chaos.log.end(event);
    }
    Ok(())
}

/// Ends the server in one of three manners, and starts it.
async fn restart(hand: &Hand, server: &mut ServerPlace) {
    match hand.chance.below(3) {
        0 => {}
        1 => server.primary.stop_immediately().await,
        _ => server.primary.kill(),
    }
    hand.wait(0, 200).await;
    // A server that still runs is shut down first.
    server.primary.restart().await;
}
