//! Gathering the body of an answer, as far as it is kept. What had been gathered of a body that turns
//! out to be more is sent on with the rest.

use std::{
    collections::VecDeque,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::body::{Budget, FREE_BYTES, Gathered, Share, within};

/// What was gathered of a body.
#[derive(Debug)]
pub(crate) enum Gathering {
    /// It broke off.
    Broken,
    /// It is more than is kept: what was gathered, with the rest.
    More(Body),
    /// It ended.
    Whole(Bytes, Option<Share>),
}

/// Gathers a body within bounds.
pub(crate) async fn gather(
    mut body: Body,
    max: usize,
    span: Duration,
    budget: &Budget,
) -> Gathering {
    if body.is_end_stream() {
        return Gathering::Whole(Bytes::new(), None);
    }
    let hint = body.size_hint();
    if usize::try_from(hint.lower()).map_or(true, |lower| lower > max) {
        return Gathering::More(body);
    }
    let mut gatherer = Gatherer { whole: Gathered::default(), max, share: None };
    let most = hint.upper().and_then(|upper| usize::try_from(upper).ok()).unwrap_or(max).min(max);
    let ended = within(span, pin!(gatherer.run(&mut body, most, budget))).await;
    match ended {
        Some(End::Broken) => Gathering::Broken,
        Some(End::Frame(frame)) => gatherer.spliced(Some(frame), body),
        Some(End::Whole) => Gathering::Whole(gatherer.whole.into_bytes(), gatherer.share),
        None => gatherer.spliced(None, body),
    }
}

struct Gatherer {
    whole: Gathered,
    max: usize,
    share: Option<Share>,
}

enum End {
    Broken,
    Frame(Frame<Bytes>),
    Whole,
}

impl Gatherer {
    async fn run(&mut self, body: &mut Body, most: usize, budget: &Budget) -> End {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return End::Broken;
            };
            match frame.into_data() {
                Ok(data) if data.len() > self.max - self.whole.len() => {
                    return End::Frame(Frame::data(data));
                }
                Ok(data) => {
                    // Kept before the wait for memory, so that a time-out loses nothing.
                    self.whole.push(data);
                    if self.share.is_none() && self.whole.len() > FREE_BYTES {
                        self.share = Some(budget.acquire(most).await);
                    }
                }
                Err(trailers) => return End::Frame(trailers),
            }
        }
        End::Whole
    }

    fn spliced(self, frame: Option<Frame<Bytes>>, rest: Body) -> Gathering {
        let mut front = VecDeque::new();
        if self.whole.len() > 0 {
            front.push_back(Frame::data(self.whole.into_bytes()));
        }
        front.extend(frame);
        Gathering::More(Body::new(Spliced { front, rest, _share: self.share }))
    }
}

/// Makes a body of gathered bytes, which gives back its share of the memory when it was sent.
pub(crate) fn body(bytes: Bytes, share: Option<Share>) -> Body {
    if share.is_none() {
        return Body::from(bytes);
    }
    let front = VecDeque::from([Frame::data(bytes)]);
    Body::new(Spliced { front, rest: Body::empty(), _share: share })
}

/// Frames that were taken off a body, before the rest of it.
#[derive(Debug)]
struct Spliced {
    front: VecDeque<Frame<Bytes>>,
    rest: Body,
    _share: Option<Share>,
}

impl http_body::Body for Spliced {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(frame) = self.front.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        Poll::Ready(ready!(Pin::new(&mut self.rest).poll_frame(cx)))
    }

    fn is_end_stream(&self) -> bool {
        self.front.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let front: usize = self.front.iter().filter_map(Frame::data_ref).map(Bytes::len).sum();
        let front = u64::try_from(front).unwrap_or(u64::MAX);
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(front));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(front));
        }
        hint
    }
}
