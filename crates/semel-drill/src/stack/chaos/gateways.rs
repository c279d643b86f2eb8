//! The hand on the gateways: it kills them, lets them stand still, shuts them down, and cuts the power
//! of the file that they share.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{Chaos, Hand};
use crate::stack::{StackError, gateway::Gateway, place::FilePlace, trouble::Trouble};

/// How often it is looked whether a gateway ended by itself.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) async fn hand(
    chaos: &Chaos,
    gateways: &mut [Gateway],
    file: Option<&mut FilePlace>,
) -> Result<(), StackError> {
    let mut able = vec![Trouble::Kill, Trouble::Stop, Trouble::Restart];
    if file.is_some() {
        able.extend([Trouble::Power, Trouble::Skew]);
    }
    let mut hand = chaos.hand(1, &able);
    let mut file = file;
    loop {
        let next = {
            let mut next = std::pin::pin!(hand.next());
            loop {
                match timeout(LOOK_EVERY, &mut next).await {
                    Ok(next) => break next,
                    Err(_) => supervise(chaos, gateways).await?,
                }
            }
        };
        let Some(trouble) = next else {
            // Whoever has no trouble to make looks after the gateways all the same.
            if *chaos.over.borrow() {
                return supervise(chaos, gateways).await;
            }
            continue;
        };
        match (trouble, &mut file) {
            (Trouble::Power, Some(file)) => power(chaos, &hand, gateways, file).await?,
            (trouble, _) => one(chaos, &hand, gateways, trouble).await?,
        }
    }
}

/// Starts whatever ended by itself, which none may.
async fn supervise(chaos: &Chaos, gateways: &mut [Gateway]) -> Result<(), StackError> {
    for gateway in gateways {
        if let Some(status) = gateway.ended() {
            let words = gateway.last_words();
            let says = format!("gateway {} ended by itself: {status}: {words}", gateway.number);
            chaos.crowd.watch.wrong(says);
            gateway.start().await?;
        }
    }
    Ok(())
}

/// Does something to one gateway.
async fn one(
    chaos: &Chaos,
    hand: &Hand,
    gateways: &mut [Gateway],
    trouble: Trouble,
) -> Result<(), StackError> {
    let all: Vec<_> = (0..gateways.len()).collect();
    let Some(chosen) = hand.one_of(&all) else { return Ok(()) };
    let gateway = &mut gateways[chosen];
    let event = chaos.log.begin(trouble, Some(chosen));
    match trouble {
        Trouble::Stop => {
            let lease = chaos.settings.lease;
            gateway.signal("STOP");
            sleep(hand.between(lease * 11 / 10, lease * 2)).await;
            gateway.signal("CONT");
        }
        Trouble::Restart => {
            gateway.terminate().await?;
            gateway.start().await?;
        }
        Trouble::Skew => {
            if let Some(skew) = gateway.skew() {
                skew.set(hand.jump())?;
            }
        }
        _ => {
            gateway.kill();
            hand.wait(0, 300).await;
            gateway.start().await?;
        }
    }
    chaos.log.end(event);
    Ok(())
}

/// Cuts the power of the disk under all gateways, and starts them on what is left.
async fn power(
    chaos: &Chaos,
    hand: &Hand,
    gateways: &mut [Gateway],
    file: &mut FilePlace,
) -> Result<(), StackError> {
    let Some(disk) = &mut file.disk else { return Ok(()) };
    let event = chaos.log.begin(Trouble::Power, None);
    // A file that somebody here holds open would keep its disk: the application lets go of it first.
    let resting = match &chaos.application {
        Some(application) => application.rests().await,
        None => None,
    };
    if chaos.application.is_some() && resting.is_none() {
        chaos.log.end(event);
        return Ok(());
    }
    // All at once: nobody has time to tidy up, or to tell of a flush that met the cut half-way.
    tokio::task::block_in_place(|| {
        gateways.iter().for_each(Gateway::freeze);
        disk.cut();
    });
    gateways.iter_mut().for_each(Gateway::kill);
    tokio::task::block_in_place(|| disk.back());
    drop(resting);
    hand.wait(0, 200).await;
    for gateway in gateways {
        gateway.start().await?;
    }
    chaos.log.end(event);
    Ok(())
}
