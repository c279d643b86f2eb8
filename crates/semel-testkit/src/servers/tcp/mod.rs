//! A way to any server that is slow, breaks, and loses requests and replies when told to.

mod connection;
mod line;
mod sleeper;
#[cfg(test)]
mod tests;
mod trap;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};

pub use self::trap::{Moment, Trap};
use self::{
    connection::Way,
    line::Line,
    trap::{Loss, Traps},
};
use super::free_port;

/// A direction through the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Towards {
    /// From the client to the server.
    Server,
    /// From the server to the client.
    Client,
}

/// A proxy between clients and one server. Dropping it cuts all connections.
///
/// It runs on the runtime that it was started on. It knows no protocol: requests are known by bytes
/// that they contain.
#[derive(Debug)]
pub struct TcpProxy {
    address: SocketAddr,
    /// Where it led first.
    origin: SocketAddr,
    upstream: watch::Sender<SocketAddr>,
    way: Way,
    connections: Arc<Connections>,
    doors: mpsc::Sender<Door>,
    accepting: JoinHandle<()>,
}

/// Whether new connections are wanted, and whom to tell that it is so.
type Door = (bool, oneshot::Sender<()>);

impl TcpProxy {
    /// Starts a proxy before the server at `upstream`, which need not be there yet.
    ///
    /// # Panics
    ///
    /// Panics if it cannot listen.
    pub async fn start(upstream: SocketAddr) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let listener = listen(address).await;
        let way = Way { to_server: Line::new(), to_client: Line::new(), traps: Traps::default() };
        let connections = Arc::new(Connections::default());
        let (doors, told) = mpsc::channel(1);
        let origin = upstream;
        let (upstream, leads_to) = watch::channel(origin);
        let accepting = Accepting {
            address,
            upstream: leads_to,
            way: way.clone(),
            connections: connections.clone(),
            doors: told,
        };
        let accepting = tokio::spawn(accepting.run(listener));
        Self { address, origin, upstream, way, connections, doors, accepting }
    }

    /// Returns where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a URL of the server that the proxy was started before, with the proxy's address in it.
    ///
    /// # Panics
    ///
    /// Panics if that server's address is not in it.
    #[must_use]
    pub fn through(&self, url: &str) -> String {
        let (server, own) = (self.origin.to_string(), self.address.to_string());
        assert!(url.contains(&server), "{url} does not name {server}");
        url.replacen(&server, &own, 1)
    }

    /// Makes everything take this much longer in one direction. What is on its way does not hold up
    /// what follows: this is latency, not a narrow pipe.
    pub fn delay(&self, towards: Towards, delay: Duration) {
        self.line(towards).set_delay(delay);
    }

    /// Holds back what goes in one direction; connections stay open, and nothing is lost.
    pub fn hold(&self, towards: Towards) {
        self.line(towards).set_open(false);
    }

    /// Lets pass what was held back.
    pub fn let_go(&self, towards: Towards) {
        self.line(towards).set_open(true);
    }

    /// Cuts all connections at once, with what is on its way, and waits until they are cut.
    pub async fn cut(&self) {
        self.connections.cut().await;
    }

    /// Refuses new connections from now on. Those that are open stay.
    pub async fn refuse(&self) {
        self.open_door(false).await;
    }

    /// Accepts new connections again.
    pub async fn accept(&self) {
        self.open_door(true).await;
    }

    /// Leads new connections to another server, as an address that moves on failover does. Those
    /// that are open stay where they are.
    pub fn lead_to(&self, upstream: SocketAddr) {
        self.upstream.send_replace(upstream);
    }

    /// Loses a request: what a client sends from the matching bytes on does not reach the server, and
    /// the connection is cut.
    pub fn cut_before(&self, request: impl Into<Moment>) -> Trap {
        self.way.traps.arm(request.into(), Loss::Request)
    }

    /// Loses an acknowledgement: the request reaches the server, its reply does not come back, and the
    /// connection is cut once the server has done all that reached it.
    ///
    /// The reply is what the server says next: if the client does not wait for the replies to what
    /// it sent before, these are lost as well.
    pub fn swallow_replies_after(&self, request: impl Into<Moment>) -> Trap {
        self.way.traps.arm(request.into(), Loss::Reply)
    }

    /// Holds back what goes to the server, as [`hold`](Self::hold) does, from a request on: it is on its
    /// way until it is let go. Nothing is lost and no connection is cut.
    pub fn hold_from(&self, request: impl Into<Moment>) -> Trap {
        self.way.traps.arm(request.into(), Loss::Hold)
    }

    /// Takes away all traps that have not sprung.
    pub fn disarm(&self) {
        self.way.traps.disarm();
    }

    fn line(&self, towards: Towards) -> &Line {
        match towards {
            Towards::Server => &self.way.to_server,
            Towards::Client => &self.way.to_client,
        }
    }

    async fn open_door(&self, open: bool) {
        let (done, is_done) = oneshot::channel();
        let sent = self.doors.send((open, done)).await;
        sent.expect("the proxy accepts as long as it lives");
        is_done.await.expect("the proxy answers every order");
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.accepting.abort();
        drop(self.connections.replace());
    }
}

/// The task that takes new connections.
#[derive(Debug)]
struct Accepting {
    address: SocketAddr,
    upstream: watch::Receiver<SocketAddr>,
    way: Way,
    connections: Arc<Connections>,
    doors: mpsc::Receiver<Door>,
}

impl Accepting {
    async fn run(mut self, listener: TcpListener) {
        let mut listener = Some(listener);
        loop {
            let accept = async {
                match &listener {
                    Some(listener) => listener.accept().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                door = self.doors.recv() => {
                    let Some((open, done)) = door else { return };
                    match open {
                        true if listener.is_none() => listener = Some(listen(self.address).await),
                        true => {}
                        false => listener.take().into_iter().for_each(|old| self.close(old)),
                    }
                    // Whoever asked may have given up.
                    let _ = done.send(());
                }
                Ok((client, _)) = accept => self.carry(client),
            }
        }
    }

    /// Leaves a port without a listener, as a dead server does; who was connected already is let in.
    fn close(&self, listener: TcpListener) {
        let listener = listener.into_std().expect("a listener has no tasks of its own");
        while let Ok((client, _)) = listener.accept() {
            client.set_nonblocking(true).expect("a socket can be told not to block");
            self.carry(TcpStream::from_std(client).expect("a runtime takes sockets"));
        }
    }

    fn carry(&self, client: TcpStream) {
        let (upstream, way) = (*self.upstream.borrow(), self.way.clone());
        self.connections.add(async move {
            // A server that is not there, or an end that breaks: the client sees a closed connection.
            if let Ok(server) = TcpStream::connect(upstream).await {
                drop(connection::carry(client, server, &way).await);
            }
        });
    }
}

async fn listen(address: SocketAddr) -> TcpListener {
    let listener = TcpListener::bind(address).await;
    listener.unwrap_or_else(|error| panic!("{address} cannot be listened on: {error}"))
}

/// The connections since the last cut.
#[derive(Debug, Default)]
struct Connections {
    now: Mutex<Generation>,
}

#[derive(Debug)]
struct Generation {
    /// Gone when the connections are cut.
    uncut: watch::Sender<()>,
    /// Held by every connection.
    alive: mpsc::Sender<()>,
    gone: mpsc::Receiver<()>,
}

impl Default for Generation {
    fn default() -> Self {
        let (alive, gone) = mpsc::channel(1);
        Self { uncut: watch::Sender::new(()), alive, gone }
    }
}

impl Connections {
    fn add(&self, carry: impl Future<Output = ()> + Send + 'static) {
        let (mut uncut, alive) = {
            let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
            (now.uncut.subscribe(), now.alive.clone())
        };
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = uncut.changed() => {}
                () = carry => {}
            }
            drop(alive);
        });
    }

    async fn cut(&self) {
        let Generation { uncut, alive, mut gone } = self.replace();
        drop((uncut, alive));
        let none = gone.recv().await;
        debug_assert!(none.is_none(), "nobody says anything here");
    }

    fn replace(&self) -> Generation {
        std::mem::take(&mut *self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
