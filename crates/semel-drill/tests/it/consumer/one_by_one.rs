//! A server that serves one connection after the other, and lets few wait.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{Router, serve::Listener};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};

/// How many may wait for their turn, as in Python's `HTTPServer`.
const BACKLOG: u32 = 5;

/// Accepts nobody while somebody is served.
struct OneByOne {
    listener: TcpListener,
    turn: Arc<Semaphore>,
}

/// A connection whose turn it is until it is closed.
struct Turn {
    stream: TcpStream,
    _turn: OwnedSemaphorePermit,
}

/// Serves until it is dropped; returns where.
pub(super) fn serve(router: Router) -> (String, JoinSet<()>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let listener = socket.listen(BACKLOG).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let listener = OneByOne { listener, turn: Arc::new(Semaphore::new(1)) };
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, server)
}

impl Listener for OneByOne {
    type Io = Turn;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Turn, SocketAddr) {
        let turn = self.turn.clone().acquire_owned().await.unwrap();
        let (stream, address) = self.listener.accept().await.unwrap();
        (Turn { stream, _turn: turn }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl AsyncRead for Turn {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Turn {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
