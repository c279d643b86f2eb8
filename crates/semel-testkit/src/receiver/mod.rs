//! A destination of events across a real connection, which notes what arrives and misbehaves when told.
//!
//! [`Receiver`] listens; [`ReceiverPublisher`] is its [`Publisher`](semel::outbox::Publisher), in this
//! process or another. It is not a broker: it keeps nothing but in memory, and does not know copies from
//! first deliveries.

mod publisher;
#[cfg(test)]
mod tests;
mod wire;

pub use publisher::ReceiverPublisher;
pub use wire::Arrived;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use semel::outbox::Lane;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use wire::{CONFIRMED, REFUSED_DESTINATION, REFUSED_MESSAGE};

/// How a destination misbehaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trouble {
    /// It cannot be reached: open connections end, new ones are refused.
    Away,
    /// It takes what comes, and its connection ends before it answers.
    LostAnswers,
    /// It takes what comes, and never answers.
    Mute,
    /// It answers that it takes nothing for now.
    Overloaded,
}

#[derive(Debug, Default)]
struct Inner {
    arrived: Vec<Arrived>,
    refused: BTreeSet<Lane>,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    trouble: watch::Sender<Option<Trouble>>,
    count: watch::Sender<usize>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one message, and says what is answered. A lane that is in `shut` stays refused: what
    /// follows a refused message on its connection must not come before it.
    fn take(
        &self,
        message: Arrived,
        trouble: Option<Trouble>,
        shut: &mut BTreeMap<Lane, u8>,
    ) -> u8 {
        let mut inner = self.lock();
        let refused = if trouble == Some(Trouble::Overloaded) {
            Some(REFUSED_DESTINATION)
        } else {
            inner.refused.contains(&message.lane).then_some(REFUSED_MESSAGE)
        };
        if let Some(refused) = shut.get(&message.lane).copied().or(refused) {
            shut.insert(message.lane, refused);
            return refused;
        }
        inner.arrived.push(message);
        self.count.send_replace(inner.arrived.len());
        CONFIRMED
    }
}

/// Listens for events. Dropping it ends every connection.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    ends: CancellationToken,
}

impl Receiver {
    /// Listens on a free port of the loopback address.
    pub async fn listen() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared {
            inner: Mutex::default(),
            trouble: watch::channel(None).0,
            count: watch::channel(0).0,
        });
        let ends = CancellationToken::new();
        let serving = serve(Some(listener), address, Arc::clone(&shared));
        tokio::spawn(ends.clone().run_until_cancelled_owned(serving));
        Self { address, shared, ends }
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Misbehaves from now on.
    pub fn trouble(&self, trouble: Trouble) {
        self.shared.trouble.send_replace(Some(trouble));
    }

    /// Behaves from now on: returns when it can be reached.
    pub async fn mend(&self) {
        self.shared.trouble.send_replace(None);
        while TcpStream::connect(self.address).await.is_err() {
            tokio::task::yield_now().await;
        }
    }

    /// Refuses the messages of a lane from now on, or takes them again.
    pub fn refuse(&self, lane: &Lane, refuse: bool) {
        let mut inner = self.shared.lock();
        if refuse {
            inner.refused.insert(lane.clone());
        } else {
            inner.refused.remove(lane);
        }
    }

    /// What arrived so far, in the order of arrival.
    #[must_use]
    pub fn arrived(&self) -> Vec<Arrived> {
        self.shared.lock().arrived.clone()
    }

    /// How many copies arrived so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.lock().arrived.len()
    }

    /// Waits until `done` says so of what arrived.
    pub async fn until(&self, mut done: impl FnMut(&[Arrived]) -> bool) {
        let mut count = self.shared.count.subscribe();
        while !done(&self.shared.lock().arrived) {
            count.changed().await.expect("the receiver lives");
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.ends.cancel();
    }
}

async fn serve(mut listener: Option<TcpListener>, address: SocketAddr, shared: Arc<Shared>) {
    let mut trouble = shared.trouble.subscribe();
    // Dropped with this future, and so with the receiver.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let away = *trouble.borrow_and_update() == Some(Trouble::Away);
        if away {
            listener = None;
            connections.shutdown().await;
        } else if listener.is_none() {
            listener = TcpListener::bind(address).await.ok();
        }
        let accept = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None if away => std::future::pending().await,
                // The port is not free yet: it is asked for again.
                None => Err(std::io::Error::from(std::io::ErrorKind::AddrInUse)),
            }
        };
        tokio::select! {
            accepted = accept => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, Arc::clone(&shared)));
                }
                Err(_) => tokio::task::yield_now().await,
            },
            changed = trouble.changed() => if changed.is_err() { return },
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Takes messages of one connection, and answers each with one byte.
async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    drop(stream.set_nodelay(true));
    let mut stream = BufReader::new(stream);
    let mut trouble = shared.trouble.subscribe();
    let mut shut = BTreeMap::new();
    while let Ok(len) = stream.read_u32().await {
        let mut frame = vec![0; len as usize];
        if stream.read_exact(&mut frame).await.is_err() {
            return;
        }
        let Some(message) = Arrived::read(&frame) else { return };
        let now = *trouble.borrow_and_update();
        if now == Some(Trouble::Away) {
            return;
        }
        let answer = shared.take(message, now, &mut shut);
        match now {
            Some(Trouble::LostAnswers | Trouble::Away) => return,
            Some(Trouble::Mute) => {
                // A connection that was mute never speaks again.
                drop(trouble.wait_for(|trouble| *trouble != Some(Trouble::Mute)).await);
                return;
            }
            Some(Trouble::Overloaded) | None => {}
        }
        if stream.write_u8(answer).await.is_err() {
            return;
        }
    }
}
