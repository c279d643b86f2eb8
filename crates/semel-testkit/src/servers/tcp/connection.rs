//! One connection through the proxy: what is read is written later, and what goes wrong in between.

use std::{
    future::{Future, pending},
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Notify, mpsc, watch},
};

use super::{
    line::Line,
    sleeper::sleep_until,
    trap::{Loss, Met, Seen, Traps},
};

/// How much is read at once.
const PIECE: usize = 16 << 10;
/// How many pieces are on their way before the reader waits.
const ON_THE_WAY: usize = 1024;
/// How long a server may take to see that its client has gone.
const SETTLE: Duration = Duration::from_secs(10);

/// When a piece arrives, and its bytes.
type Piece = (Instant, Vec<u8>);

/// Both ways between the ends, and what may go wrong there.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) to_server: Line,
    pub(super) to_client: Line,
    pub(super) traps: Traps,
}

/// What a trap has made of the connection.
#[derive(Debug, Default)]
struct Trouble {
    /// Replies are dropped.
    swallow: AtomicBool,
    /// The first of them was.
    swallowed: Notify,
    /// The server is told that its client has gone.
    closing: Notify,
    /// Whoever set the trap.
    told: Mutex<Option<watch::Sender<bool>>>,
}

impl Trouble {
    /// The next piece for the server, until a reply was dropped.
    async fn next(&self, arrive: &mut mpsc::Receiver<Piece>) -> Option<Piece> {
        tokio::select! {
            biased;
            () = self.swallowed.notified() => None,
            piece = arrive.recv() => piece,
        }
    }

    /// Begins what the trap asks for, and says how much of the piece that met it still passes.
    fn begin(&self, trap: Met, piece: usize) -> usize {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(trap.sprung);
        match trap.loss {
            Loss::Request => trap.at,
            Loss::Hold => piece,
            Loss::Reply => {
                self.swallow.store(true, Ordering::Release);
                piece
            }
        }
    }
}

/// Carries bytes both ways until both ends have said all, an end breaks, or a trap has sprung.
///
/// # Errors
///
/// Fails if an end breaks, or a server does not close after its client has gone.
pub(super) async fn carry(client: TcpStream, server: TcpStream, way: &Way) -> io::Result<()> {
    let trouble = Trouble::default();
    let carried = both_ways(client, server, way, &trouble).await;
    // Both sockets are closed: now is the time to tell.
    if let Some(told) = trouble.told.lock().unwrap_or_else(PoisonError::into_inner).take() {
        told.send_replace(true);
    }
    carried
}

async fn both_ways(
    client: TcpStream,
    server: TcpStream,
    way: &Way,
    trouble: &Trouble,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (requests, requests_arrive) = mpsc::channel(ON_THE_WAY);
    let (replies, replies_arrive) = mpsc::channel(ON_THE_WAY);
    let requests = while_reading(
        read(from_client, requests, &way.to_server, || false),
        send_requests(requests_arrive, to_server, way, trouble),
    );
    let is_swallowed = || {
        let swallow = trouble.swallow.load(Ordering::Acquire);
        if swallow {
            trouble.swallowed.notify_one();
        }
        swallow
    };
    let replies = while_reading(
        read(from_server, replies, &way.to_client, is_swallowed),
        send_replies(replies_arrive, to_client, &way.to_client, trouble),
    );
    let late = async {
        trouble.closing.notified().await;
        sleep_until(Instant::now() + SETTLE).await;
        Err(io::Error::from(io::ErrorKind::TimedOut))
    };
    tokio::select! {
        carried = async { tokio::try_join!(requests, replies).map(drop) } => carried,
        late = late => late,
    }
}

/// A direction is done when the last piece is written, not when it is read.
async fn while_reading(
    read: impl Future<Output = ()>,
    write: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let reads = async {
        read.await;
        pending().await
    };
    tokio::select! {
        written = write => written,
        never = reads => never,
    }
}

/// Reads pieces onto the line, so that one never waits for the one before it to arrive.
async fn read(
    mut from: OwnedReadHalf,
    onto: mpsc::Sender<Piece>,
    line: &Line,
    is_dropped: impl Fn() -> bool,
) {
    let mut piece = vec![0; PIECE];
    // A broken end has no more to say, like one that has said all.
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        let sent = (line.arrival(), piece[..read].to_vec());
        if !is_dropped() && onto.send(sent).await.is_err() {
            return;
        }
    }
}

async fn send_requests(
    mut arrive: mpsc::Receiver<Piece>,
    mut to: OwnedWriteHalf,
    way: &Way,
    trouble: &Trouble,
) -> io::Result<()> {
    let mut seen = Seen::default();
    let mut met = None;
    while let Some((due, piece)) = trouble.next(&mut arrive).await {
        way.to_server.pass(due).await;
        let mut end = piece.len();
        if let (None, Some(trap)) = (met, way.traps.meet(&mut seen, &piece)) {
            if trap.loss == Loss::Hold {
                way.to_server.set_open(false);
                trap.sprung.send_replace(true);
                way.to_server.pass(due).await;
            } else {
                met = Some(trap.loss);
                end = trouble.begin(trap, end);
            }
        }
        to.write_all(&piece[..end]).await?;
        if met == Some(Loss::Request) {
            break;
        }
    }
    if met == Some(Loss::Reply) {
        // The server may be in the middle of what follows the request: it gets all there is.
        while let Ok((_, piece)) = arrive.try_recv() {
            to.write_all(&piece).await?;
        }
    }
    if met.is_some() {
        trouble.closing.notify_one();
    }
    // A server reads to the end what its client had sent before it went: nothing is reset.
    to.shutdown().await
}

async fn send_replies(
    mut arrive: mpsc::Receiver<Piece>,
    mut to: OwnedWriteHalf,
    line: &Line,
    trouble: &Trouble,
) -> io::Result<()> {
    while let Some((due, piece)) = arrive.recv().await {
        line.pass(due).await;
        // Those that are still on their way are lost with the one that was waited for.
        if !trouble.swallow.load(Ordering::Acquire) {
            to.write_all(&piece).await?;
        }
    }
    match trouble.swallow.load(Ordering::Acquire) {
        true => Ok(()),
        false => to.shutdown().await,
    }
}
