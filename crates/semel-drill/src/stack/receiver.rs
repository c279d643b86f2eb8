//! The receiver of the events: it writes down what arrives, in the order of arrival, and often tells it
//! badly.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use semel::{
    outbox::{EventId, Lane},
    wire::{CE_ID, CE_SOURCE, CE_SUBJECT},
};
use semel_testkit::{
    Deliveries, SeededEntropy,
    http::{Message, Wire, answer},
};
use tokio::{
    io::{self, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
    time::sleep,
};

use super::settings::Settings;

/// What it does with one delivery.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Deed {
    /// It is away for a second, and says so.
    Away,
    /// Breaks the connection; perhaps it has taken the event.
    Cut { taken: bool },
    /// It fails, and has not taken the event.
    Fault,
    /// It says that it has taken the event, and has not.
    Forget,
    /// Says nothing any more; perhaps it has taken the event.
    Hang { taken: bool },
    /// Takes the event and says so after a while, mostly at once.
    Take(Duration),
}

impl Deed {
    fn drawn(desk: &Desk, nth: u64) -> Self {
        let mixed = SeededEntropy::new(desk.seed.rotate_left(11) ^ nth);
        let chance = SeededEntropy::new(mixed.number());
        let taken = chance.below(2) == 0;
        let slow = Duration::from_millis(20 + chance.below(200));
        match chance.below(1_000) {
            950.. if desk.is_forgetful => Self::Forget,
            _ if desk.is_calm => Self::Take(Duration::ZERO),
            0 => Self::Away,
            1..=3 => Self::Hang { taken },
            4..=13 => Self::Cut { taken },
            14..=23 => Self::Fault,
            24..=49 => Self::Take(slow),
            _ => Self::Take(Duration::ZERO),
        }
    }
}

/// The running receiver. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What all connections share.
#[derive(Debug)]
struct Desk {
    seed: u64,
    is_calm: bool,
    is_forgetful: bool,
    deliveries: Arc<Deliveries>,
    count: AtomicU64,
}

impl Receiver {
    pub(super) async fn open(
        settings: &Settings,
        deliveries: &Arc<Deliveries>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let desk = Arc::new(Desk {
            seed: settings.seed,
            is_calm: settings.calm_upstream,
            is_forgetful: settings.forgetful_receiver,
            deliveries: Arc::clone(deliveries),
            count: AtomicU64::new(0),
        });
        let task = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                // What is over is forgotten.
                while open.try_join_next().is_some() {}
                let desk = Arc::clone(&desk);
                open.spawn(async move {
                    // An end that breaks is what this is about.
                    drop(desk.serve(tcp).await);
                });
            }
        });
        Ok(Self { address, task })
    }
}

impl Desk {
    async fn serve(&self, tcp: TcpStream) -> io::Result<()> {
        tcp.set_nodelay(true)?;
        let mut wire = Wire::new(tcp);
        while let Some(event) = wire.request().await.filter(|request| request.whole) {
            let nth = self.count.fetch_add(1, Ordering::Relaxed);
            match Deed::drawn(self, nth) {
                Deed::Take(after) => {
                    let status = if self.take(&event) { 204 } else { 400 };
                    sleep(after).await;
                    wire.io.write_all(&answer(status, &[], "")).await?;
                }
                Deed::Away => {
                    wire.io.write_all(&answer(503, &[("retry-after", "1")], "away")).await?;
                }
                Deed::Forget => wire.io.write_all(&answer(204, &[], "")).await?,
                Deed::Fault => wire.io.write_all(&answer(500, &[], "a fault")).await?,
                Deed::Cut { taken } => {
                    if taken {
                        self.take(&event);
                    }
                    return wire.io.set_zero_linger();
                }
                Deed::Hang { taken } => {
                    if taken {
                        self.take(&event);
                    }
                    while wire.some().await.is_some() {}
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Writes down that a copy arrived; says whether it is an event at all.
    fn take(&self, event: &Message) -> bool {
        let Some((id, lane, number)) = read(event) else { return false };
        self.deliveries.delivered(id, &lane, number);
        true
    }
}

/// Reads the name of an event, whose it is, and which of its aggregate's events it says it is.
fn read(event: &Message) -> Option<(EventId, Lane, u64)> {
    let id = event.header(CE_ID)?.parse().ok()?;
    let lane = Lane::new(event.header(CE_SOURCE)?, event.header(CE_SUBJECT)?).ok()?;
    let told: serde_json::Value = serde_json::from_slice(&event.body).ok()?;
    Some((id, lane, told["number"].as_u64()?))
}
