//! Reading a request body whole, within bounds of size, time and memory, before anything is claimed.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header::CONTENT_LENGTH};
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::problem::{Code, Problem};

/// Bodies up to this size are not counted: the constant beside the bound.
pub(crate) const FREE_BYTES: usize = 4 * 1024;
const UNIT_BYTES: usize = 1024;

/// The memory that all bodies together may take.
#[derive(Debug)]
pub(crate) struct Budget {
    units: Arc<Semaphore>,
    units_max: u32,
    wait: Duration,
}

/// One body's share of the memory, given back when dropped.
#[derive(Debug)]
pub(crate) struct Share(
    #[expect(dead_code, reason = "held to be dropped")] Option<OwnedSemaphorePermit>,
);

impl Budget {
    pub(crate) fn new(bytes_max: usize, wait: Duration) -> Self {
        let units_max = u32::try_from(bytes_max / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        let units = Arc::new(Semaphore::new(usize::try_from(units_max).unwrap_or(1)));
        Self { units, units_max, wait }
    }

    /// Takes a share, and waits for it no longer than the bound.
    pub(crate) async fn take(&self, bytes: usize) -> Result<Share, Problem> {
        if bytes <= FREE_BYTES {
            return Ok(Share(None));
        }
        match within(self.wait, pin!(self.acquire(bytes))).await {
            Some(share) => Ok(share),
            None => Err(Problem::new(Code::Overloaded)
                .detail("nothing ran; send the same request again later")),
        }
    }

    /// Takes a share however long that takes; the caller bounds it.
    pub(crate) async fn acquire(&self, bytes: usize) -> Share {
        // One body larger than the whole budget gets all of it, so that it is served alone.
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let units = units.min(self.units_max);
        Share(Arc::clone(&self.units).acquire_many_owned(units).await.ok())
    }
}

/// How large a body says it is, and may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) declared: Option<u64>,
    pub(crate) max: usize,
}

impl Expected {
    /// Looks at what a request says of its body.
    pub(crate) fn of(headers: &HeaderMap, body: &Body, max: usize) -> Result<Self, Problem> {
        let said = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let declared = said.or_else(|| body.size_hint().exact());
        let expected = Self { declared, max };
        match declared {
            Some(bytes) if usize::try_from(bytes).map_or(true, |bytes| bytes > max) => {
                Err(expected.too_large())
            }
            _ => Ok(expected),
        }
    }

    /// Returns how many bytes may have to be held.
    pub(crate) fn bytes_max(&self) -> usize {
        self.declared.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(self.max)
    }

    fn too_large(&self) -> Problem {
        Problem::new(Code::BodyTooLarge)
            .detail(format!("the body may have at most {} bytes", self.max))
            .member("max_bytes", self.max)
    }
}

/// Reads a body whole.
pub(crate) async fn read(body: Body, expected: Expected, span: Duration) -> Result<Bytes, Problem> {
    if body.is_end_stream() && expected.declared.unwrap_or(0) == 0 {
        return Ok(Bytes::new());
    }
    match within(span, pin!(collect(body, expected))).await {
        Some(result) => result,
        None => Err(Problem::new(Code::BodyTooSlow).detail("nothing ran")),
    }
}

/// Waits for a future no longer than `span`. What is ready at once needs no timer.
pub(crate) async fn within<F: Future>(
    span: Duration,
    mut future: Pin<&mut F>,
) -> Option<F::Output> {
    let first = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
    match first {
        Poll::Ready(output) => Some(output),
        Poll::Pending => timeout(span, future).await.ok(),
    }
}

async fn collect(mut body: Body, expected: Expected) -> Result<Bytes, Problem> {
    let incomplete = || Problem::new(Code::BodyIncomplete).detail("nothing ran");
    let mut whole = Gathered::default();
    while let Some(frame) = body.frame().await {
        // Trailers of a request say nothing about what is asked; they are dropped.
        if let Ok(data) = frame.map_err(|_| incomplete())?.into_data() {
            if data.len() > expected.max - whole.len() {
                return Err(expected.too_large());
            }
            whole.push(data);
        }
    }
    let whole = whole.into_bytes();
    match expected.declared {
        Some(declared) if u64::try_from(whole.len()) != Ok(declared) => Err(incomplete()),
        _ => Ok(whole),
    }
}

/// Bytes that arrive in pieces; a single piece is never copied.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    first: Bytes,
    more: BytesMut,
}

impl Gathered {
    pub(crate) fn len(&self) -> usize {
        self.first.len().max(self.more.len())
    }

    pub(crate) fn push(&mut self, data: Bytes) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        if self.more.is_empty() {
            self.more.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.more.extend_from_slice(&data);
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        if self.more.is_empty() { self.first } else { self.more.freeze() }
    }
}
