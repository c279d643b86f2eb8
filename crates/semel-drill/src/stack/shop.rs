//! The upstream: it does what it is asked, writes it down, and often tells it badly.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

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

use super::{
    application::{Application, Wrote},
    intent,
    ledger::Ledger,
    settings::Settings,
};

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

/// Where the upstream acts.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    settings: Arc<Settings>,
    ledger: Arc<Ledger>,
    /// Writes each effect with its event, where there are events.
    application: Option<Arc<Application>>,
    /// Whether it answers everything at once.
    is_calm: Arc<AtomicBool>,
}

/// Why an effect is not there, or not for certain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Unacted {
    Nothing,
    Unknown,
}

/// The running upstream. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Shop {
    pub(super) address: SocketAddr,
    is_calm: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shop {
    pub(super) async fn open(
        settings: &Settings,
        ledger: &Arc<Ledger>,
        application: Option<Arc<Application>>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (settings, ledger) = (Arc::new(settings.clone()), Arc::clone(ledger));
        let is_calm = Arc::new(AtomicBool::new(settings.calm_upstream));
        let desk = Desk { settings, ledger, application, is_calm: Arc::clone(&is_calm) };
        let task = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                // What is over is forgotten.
                while open.try_join_next().is_some() {}
                let desk = desk.clone();
                open.spawn(async move {
                    // An end that breaks is what this is about.
                    drop(desk.serve(tcp).await);
                });
            }
        });
        Ok(Self { address, is_calm, task })
    }

    /// Answers everything at once from now on.
    pub(super) fn calm_down(&self) {
        self.is_calm.store(true, Ordering::SeqCst);
    }
}

impl Desk {
    async fn serve(&self, tcp: TcpStream) -> io::Result<()> {
        tcp.set_nodelay(true)?;
        let mut wire = Wire::new(tcp);
        while let Some(request) = wire.request().await.filter(|request| request.whole) {
            let Some(number) = request.header(IDEMPOTENCY_KEY).and_then(intent::number) else {
                wire.io.write_all(&answer(400, &[], "no key")).await?;
                continue;
            };
            let nth = self.ledger.asked(number);
            let deed = match self.is_calm.load(Ordering::SeqCst) {
                true => Deed::Answer(Duration::ZERO),
                false => Deed::drawn(&self.settings, number, nth),
            };
            if deed.leaves_open() {
                self.ledger.unanswered(number);
            }
            if !self.does(deed, &mut wire, (number, nth)).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Does a deed for the nth request of an intent, and says whether the connection goes on.
    async fn does(
        &self,
        deed: Deed,
        wire: &mut Wire<TcpStream>,
        (number, nth): (u64, u64),
    ) -> io::Result<bool> {
        let acts = match deed {
            Deed::Answer(_) | Deed::Half => true,
            Deed::Hang { acted } | Deed::Reset { acted } => acted,
            Deed::Fault | Deed::NoEffect | Deed::Refuse => false,
        };
        let acted = match acts {
            true => Some(self.act(number, nth).await),
            false => None,
        };
        match (deed, acted) {
            (Deed::Answer(_) | Deed::Half, Some(Err(Unacted::Nothing))) => {
                wire.io.write_all(&answer(503, &[(SEMEL_EFFECT, "none")], "come back")).await?;
            }
            (Deed::Answer(_) | Deed::Half, Some(Err(Unacted::Unknown))) => {
                wire.io.write_all(&answer(500, &[], "nobody knows")).await?;
            }
            (Deed::Answer(after), Some(Ok(told))) => {
                if !after.is_zero() {
                    sleep(after).await;
                }
                wire.io.write_all(&written(&told)).await?;
            }
            (Deed::Half, Some(Ok(told))) => {
                self.ledger.breaks_off(number);
                let whole = written(&told);
                wire.io.write_all(&whole[..whole.len() - 9]).await?;
                return Ok(false);
            }
            (Deed::Fault, _) => wire.io.write_all(&answer(500, &[], "a fault")).await?,
            (Deed::Refuse, _) => wire.io.write_all(&written(&self.ledger.refuse(number))).await?,
            (Deed::Hang { .. }, _) => {
                while wire.some().await.is_some() {}
                return Ok(false);
            }
            (Deed::Reset { .. }, _) => {
                wire.io.set_zero_linger()?;
                return Ok(false);
            }
            (Deed::NoEffect | Deed::Answer(_) | Deed::Half, _) => {
                wire.io.write_all(&answer(503, &[(SEMEL_EFFECT, "none")], "come back")).await?;
            }
        }
        Ok(true)
    }

    /// Acts, in the application's transaction where there is one, and returns what to answer.
    async fn act(&self, number: u64, nth: u64) -> Result<Told, Unacted> {
        let Some(application) = &self.application else { return Ok(self.ledger.act(number)) };
        if let Some(settled) = self.ledger.known(number) {
            return Ok(settled);
        }
        match application.act(number, nth).await {
            Wrote::Committed | Wrote::Known => Ok(self.ledger.done(number)),
            Wrote::Nothing => Err(Unacted::Nothing),
            Wrote::Unknown => {
                self.ledger.unanswered(number);
                Err(Unacted::Unknown)
            }
        }
    }
}

fn written(told: &Told) -> Vec<u8> {
    let body = String::from_utf8_lossy(&told.body);
    answer(told.status, &[("content-type", "application/json")], &body)
}
