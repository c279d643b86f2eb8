//! The hand on the servers of Redis: it shuts one down, kills it, freezes it, lets another take over, cuts
//! its power and turns its clock.

use tokio::time::sleep;

use super::{Chaos, Hand};
use crate::stack::{StackError, place::RedisPlace, trouble::Trouble};

const ABLE: [Trouble; 5] =
    [Trouble::Failover, Trouble::Power, Trouble::Restart, Trouble::Skew, Trouble::Stop];

pub(super) async fn hand(
    chaos: &Chaos,
    servers: Option<&mut RedisPlace>,
) -> Result<(), StackError> {
    let Some(servers) = servers else { return Ok(()) };
    let mut hand = chaos.hand(2, &ABLE);
    while let Some(trouble) = hand.next().await {
        let choices = match trouble {
            Trouble::Failover => servers.leaders().await,
            _ => servers.all(),
        };
        let Some(chosen) = hand.one_of(&choices) else { continue };
        let event = chaos.log.begin(trouble, None);
        match trouble {
            Trouble::Failover => {
                servers.fail_over(chosen).await;
                hand.wait(0, 1_000).await;
                // It takes itself for a primary still, until somebody tells it otherwise.
                servers.server(chosen).restart().await;
            }
            Trouble::Power => {
                servers.server(chosen).cut_power().await;
                hand.wait(0, 200).await;
                servers.server(chosen).restart().await;
            }
            Trouble::Skew => {
                if let Some(skew) = &servers.skew {
                    skew.set(hand.jump())?;
                }
            }
            Trouble::Stop => {
                // Long enough for another to take over; then it goes on as if nothing had been.
                let lease = chaos.settings.lease;
                servers.server(chosen).pause();
                sleep(hand.between(lease * 11 / 10, lease * 2)).await;
                servers.server(chosen).resume();
            }
            _ => restart(&hand, servers, chosen).await,
        }
        servers.settle().await?;
        chaos.log.end(event);
    }
    Ok(())
}

/// Ends a server in one of two manners, and starts it.
async fn restart(hand: &Hand, servers: &mut RedisPlace, chosen: usize) {
    let server = servers.server(chosen);
    match hand.chance.below(2) {
        0 => server.shut_down().await,
        _ => server.kill(),
    }
    hand.wait(0, 200).await;
    server.restart().await;
}
