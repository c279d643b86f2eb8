//! The upstream: it does what it is asked, writes it down, and often tells it badly.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use semel::wire::{IDEMPOTENCY_KEY, SEMEL_EFFECT};
use semel_testkit::{
    SeededEntropy,
    history::Told,
    http::{Wire, answer},
};
use tokio::{
    io::{self, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
    time::sleep,
};

use super::{intent, ledger::Ledger, settings::Settings};

/// What it does with one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Deed {
    /// Acts and answers after a while, mostly at once.
    Answer(Duration),
    /// Answers a fault, and has not acted; nobody is told so.
    Fault,
    /// Acts, and says half of the answer.
    Half,
    /// Says nothing any more; perhaps it has acted.
    Hang { acted: bool },
    /// Says that it has not acted, and has not.
    NoEffect,
    /// Refuses for good.
    Refuse,
    /// Breaks the connection; perhaps it has acted.
    Reset { acted: bool },
}

impl Deed {
    /// Draws what is done with the nth request of an intent.
    fn drawn(settings: &Settings, number: u64, nth: u64) -> Self {
        let mixed = SeededEntropy::new(settings.seed ^ number.rotate_left(20) ^ nth);
        let chance = SeededEntropy::new(mixed.number());
        let acted = chance.below(2) == 0;
        let slow = Duration::from_millis(20 + chance.below(200));
        match chance.below(1_000) {
            _ if settings.calm_upstream => Self::Answer(Duration::ZERO),
            0 => Self::Hang { acted },
            1..=2 => Self::Answer(settings.lease * 3 / 2),
            3..=5 => Self::Reset { acted },
            6..=7 => Self::Half,
            8..=9 => Self::Fault,
            10..=19 => Self::NoEffect,
            20..=24 => Self::Refuse,
            25..=49 => Self::Answer(slow),
            _ => Self::Answer(Duration::ZERO),
        }
    }

    /// Says whether whoever asked cannot know what happened.
    const fn leaves_open(self) -> bool {
        matches!(self, Self::Fault | Self::Half | Self::Hang { .. } | Self::Reset { .. })
    }
}

/// The running upstream. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Shop {
    pub(super) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shop {
    pub(super) async fn open(settings: &Settings, ledger: &Arc<Ledger>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (settings, ledger) = (Arc::new(settings.clone()), Arc::clone(ledger));
        let task = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                // What is over is forgotten.
                while open.try_join_next().is_some() {}
                let (settings, ledger) = (Arc::clone(&settings), Arc::clone(&ledger));
                open.spawn(async move {
                    // An end that breaks is what this is about.
                    drop(serve(tcp, &settings, &ledger).await);
                });
            }
        });
        Ok(Self { address, task })
    }
}

async fn serve(tcp: TcpStream, settings: &Settings, ledger: &Ledger) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let mut wire = Wire::new(tcp);
    while let Some(request) = wire.request().await.filter(|request| request.whole) {
        let Some(number) = request.header(IDEMPOTENCY_KEY).and_then(intent::number) else {
            wire.io.write_all(&answer(400, &[], "no key")).await?;
            continue;
        };
        let deed = Deed::drawn(settings, number, ledger.asked(number));
        if deed.leaves_open() {
            ledger.unanswered(number);
        }
        if !does(deed, &mut wire, number, ledger).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// Does a deed, and says whether the connection goes on.
async fn does(
    deed: Deed,
    wire: &mut Wire<TcpStream>,
    number: u64,
    ledger: &Ledger,
) -> io::Result<bool> {
    match deed {
        Deed::Answer(after) => {
            let told = ledger.act(number);
            if !after.is_zero() {
                sleep(after).await;
            }
            wire.io.write_all(&written(&told)).await?;
        }
        Deed::Fault => wire.io.write_all(&answer(500, &[], "a fault")).await?,
        Deed::NoEffect => {
            wire.io.write_all(&answer(503, &[(SEMEL_EFFECT, "none")], "come back")).await?;
        }
        Deed::Refuse => wire.io.write_all(&written(&ledger.refuse(number))).await?,
        Deed::Half => {
            ledger.breaks_off(number);
            let whole = written(&ledger.act(number));
            wire.io.write_all(&whole[..whole.len() - 9]).await?;
            return Ok(false);
        }
        Deed::Hang { acted } => {
            act_if(acted, number, ledger);
            while wire.some().await.is_some() {}
            return Ok(false);
        }
        Deed::Reset { acted } => {
            act_if(acted, number, ledger);
            wire.io.set_zero_linger()?;
            return Ok(false);
        }
    }
    Ok(true)
}

fn act_if(acted: bool, number: u64, ledger: &Ledger) {
    if acted {
        ledger.act(number);
    }
}

fn written(told: &Told) -> Vec<u8> {
    let body = String::from_utf8_lossy(&told.body);
    answer(told.status, &[("content-type", "application/json")], &body)
}
