//! Ends what does not move: a body whose next piece does not come, a client that takes nothing.

use std::{
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::BoxError;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

/// Runs while something is waited for.
#[derive(Debug)]
pub(crate) struct Stall {
    wait: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Stall {
    pub(crate) const fn new(wait: Duration) -> Self {
        Self { wait, sleep: None }
    }

    /// Says that it moved.
    pub(crate) fn moved(&mut self) {
        self.sleep = None;
    }

    /// Becomes ready when nothing has moved for too long.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let wait = self.wait;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
        sleep.as_mut().poll(cx)
    }
}

/// A request's body that fails when its next piece takes too long.
#[derive(Debug)]
pub(crate) struct StallingBody {
    body: Incoming,
    stall: Stall,
}

impl StallingBody {
    pub(crate) const fn new(body: Incoming, wait: Duration) -> Self {
        Self { body, stall: Stall::new(wait) }
    }
}

impl Body for StallingBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                self.stall.moved();
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => self
                .stall
                .poll(cx)
                .map(|()| Some(Err("the client stopped in the middle of a body".into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection whose writes fail when its other side takes nothing for too long.
#[derive(Debug)]
pub(crate) struct StallingWrites<IO> {
    io: IO,
    stall: Stall,
}

impl<IO> StallingWrites<IO> {
    pub(crate) const fn new(io: IO, wait: Duration) -> Self {
        Self { io, stall: Stall::new(wait) }
    }

    fn check<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stall.moved();
            return written;
        }
        self.stall.poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for StallingWrites<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for StallingWrites<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.check(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.check(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.check(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.io).poll_shutdown(cx);
        self.check(ended, cx)
    }
}
