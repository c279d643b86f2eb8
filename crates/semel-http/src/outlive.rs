//! Work that outlives whoever waits for it.
//!
//! While its caller waits, the work goes on inside the caller's own task: a task of its own for every
//! request would cost more than everything else this crate does. If the caller goes away, the work
//! moves to a task of its own and goes on there.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::runtime::Handle;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};
use tracing::{Instrument, Span};

use crate::BoxFuture;

/// Begins work that goes on if the returned future is dropped. The tracker waits for it.
pub(crate) fn outliving<T: Send + 'static>(
    tasks: &TaskTracker,
    work: BoxFuture<'static, T>,
) -> Outliving<T> {
    Outliving { work: Some(work), span: Span::current(), tracked: tasks.token() }
}

pub(crate) struct Outliving<T: Send + 'static> {
    work: Option<BoxFuture<'static, T>>,
    span: Span,
    tracked: TaskTrackerToken,
}

impl<T: Send + 'static> Future for Outliving<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Taken out while it is polled, so that what panicked is not polled again.
        let mut work = self.work.take().expect("a future is not polled after it was ready");
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Outliving<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else {
            return;
        };
        // Without a runtime nothing can go on: the work is dropped, and its holder says what that means.
        if let Ok(runtime) = Handle::try_current() {
            let span = std::mem::replace(&mut self.span, Span::none());
            self.tracked.task_tracker().spawn_on(work.instrument(span), &runtime);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_whose_caller_went_away_goes_on_and_is_waited_for() {
        let tasks = TaskTracker::new();
        let (go, gone) = oneshot::channel::<()>();
        let (done, ended) = oneshot::channel();
        let work = Box::pin(async move {
            gone.await.unwrap();
            done.send(7).unwrap();
        });
        let mut waited = Box::pin(outliving(&tasks, work));
        let first = std::future::poll_fn(|cx| Poll::Ready(waited.as_mut().poll(cx))).await;
        assert!(first.is_pending());
        drop(waited);
        assert_eq!(tasks.len(), 1);
        go.send(()).unwrap();
        assert_eq!(ended.await.unwrap(), 7);
        tasks.close();
        tasks.wait().await;
        assert_eq!(outliving(&tasks, Box::pin(async { 8 })).await, 8);
    }
}
