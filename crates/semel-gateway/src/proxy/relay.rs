//! The body of an upstream's answer on its way to the client, with the connection it comes from.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use axum::BoxError;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::{link::Link, upstream::Upstream};
use crate::stall::Stall;

/// A body that moves its connection on, and gives it back when the body is over.
#[derive(Debug)]
pub(super) struct Relay {
    body: Incoming,
    link: Option<Box<Link>>,
    upstream: Arc<Upstream>,
    stall: Stall,
}

impl Relay {
    /// Relays a body. A body that is over at once leaves nothing to relay.
    pub(super) fn new(body: Incoming, link: Box<Link>, upstream: &Arc<Upstream>) -> Option<Self> {
        let over = body.is_end_stream();
        let upstream = Arc::clone(upstream);
        let stall = Stall::new(upstream.settings.body_wait);
        let mut relay = Self { body, link: Some(link), upstream, stall };
        if over {
            relay.give_back();
            return None;
        }
        Some(relay)
    }

    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // Asking the body first tells the connection that a piece is wanted.
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        let Some(link) = &mut self.link else { return Poll::Pending };
        link.drive(cx);
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        link.give_up_if_ended();
        Pin::new(&mut self.body).poll_frame(cx)
    }

    /// Keeps the connection if the exchange is over, else closes it.
    fn give_back(&mut self) {
        if let Some(mut link) = self.link.take()
            && link.is_ready()
        {
            self.upstream.put(link);
        }
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.next(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.stall.moved();
                if self.body.is_end_stream() {
                    self.give_back();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                self.link = None;
                self.upstream.counters.broken_body();
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Ready(None) => {
                self.give_back();
                Poll::Ready(None)
            }
            Poll::Pending => self.stall.poll(cx).map(|()| {
                self.link = None;
                self.upstream.counters.broken_body();
                Some(Err("the upstream stopped in the middle of a body".into()))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // A reader may stop after the trailers, without asking for the end.
        if self.link.is_some() {
            let mut cx = Context::from_waker(Waker::noop());
            let over = match Pin::new(&mut self.body).poll_frame(&mut cx) {
                Poll::Ready(None) => true,
                Poll::Ready(Some(_)) | Poll::Pending => self.body.is_end_stream(),
            };
            if over {
                self.give_back();
            }
        }
    }
}
