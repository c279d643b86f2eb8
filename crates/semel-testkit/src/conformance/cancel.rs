//! Cancellation: a verb whose future is dropped at any point leaves a store in which the repeat gets
//! the right answer.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use semel::{
    Permit, Phase, State,
    decide::Verdict,
    store::{Completed, ReleaseAnswer, Renew, Renewed},
};

use super::{Fresh, verbs::*};

/// More polls than any verb needs.
pub(super) const POLLS_MAX: usize = 1_000;

/// Polls a future, as often as it is woken, `left` times at most, then drops it.
struct Cut<F> {
    future: Option<Pin<Box<F>>>,
    left: usize,
}

impl<F: Future> Future for Cut<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.left == 0 {
            self.future = None;
            return Poll::Ready(None);
        }
        self.left -= 1;
        let Some(future) = self.future.as_mut() else { return Poll::Ready(None) };
        match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if self.left == 0 => {
                self.future = None;
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Polls a future `polls` times at most, and drops it unless it is ready by then.
pub(super) async fn cut<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    Cut { future: Some(Box::pin(future)), left: polls }.await
}

/// A claim cut at any poll is recognised by its token, and holds the key alone.
pub async fn a_claim_cut_anywhere_is_recognised(on: Fresh) {
    for polls in 0..POLLS_MAX {
        let id = id(&format!("k{polls}"));
        let asked = ask(&id);
        let through = cut(polls, on.store.claim(vec![asked.clone()])).await.is_some();
        let permit = on.take(asked.clone()).await;
        assert_eq!(permit.token, asked.token, "cut at {polls}");
        in_progress(on.claim(ask(&id)).await);
        assert_eq!(on.renew(&permit).await, Renewed::Held);
        if through {
            return;
        }
    }
    panic!("a claim is never ready");
}

/// A completion cut at any poll is stored once by its repeat.
pub async fn a_completion_cut_anywhere_is_stored_once(on: Fresh) {
    for polls in 0..POLLS_MAX {
        let id = id(&format!("k{polls}"));
        let permit = on.hold(&id).await;
        let cut = cut(polls, on.store.complete(permit.clone(), done(created()))).await;
        match on.complete(&permit, done(created())).await {
            Completed::Stored => assert!(cut.is_none(), "stored twice"),
            Completed::Already(record) => assert_eq!(record.outcome, Some(created())),
            Completed::Stale => panic!("a permit that has not ended is not stale"),
        }
        assert_eq!(replayed(on.claim(ask(&id)).await), created());
        if cut.is_some() {
            return;
        }
    }
    panic!("a completion is never ready");
}

/// A release cut at any poll is done once by its repeat.
pub async fn a_release_cut_anywhere_is_done_once(on: Fresh) {
    for polls in 0..POLLS_MAX {
        let id = id(&format!("k{polls}"));
        let permit = on.hold(&id).await;
        let cut = cut(polls, on.store.release(id.clone(), clean(&permit))).await;
        let again = on.release(&id, clean(&permit)).await;
        assert_ne!(again, ReleaseAnswer::NotHeld, "cut at {polls}");
        assert!(cut.is_none() || again == ReleaseAnswer::Already);
        assert_eq!(on.phase(&id).await, Phase::Stored(State::Open));
        if cut.is_some() {
            return;
        }
    }
    panic!("a release is never ready");
}

/// A renewal cut at any poll leaves the holder its lease.
pub async fn a_renewal_cut_anywhere_leaves_the_holder(on: Fresh) {
    let permit: Permit = on.hold(&id("k")).await;
    for polls in 0..POLLS_MAX {
        let cut = cut(polls, on.store.renew(vec![Renew::of(&permit, LEASE)])).await;
        assert_eq!(on.renew(&permit).await, Renewed::Held, "cut at {polls}");
        if cut.is_some() {
            return;
        }
    }
    panic!("a renewal is never ready");
}

/// A resolution cut at any poll is stored once by its repeat, with one row in the audit.
pub async fn a_resolution_cut_anywhere_is_stored_once(on: Fresh) {
    for polls in 0..POLLS_MAX {
        let id = id(&format!("k{polls}"));
        let permit = on.lost(&id).await;
        let said = verdict(&permit, Verdict::Done(created()));
        let cut = cut(polls, on.store.resolve(id.clone(), said.clone(), actor())).await;
        on.resolve(&id, said).await;
        assert_eq!(replayed(on.claim(ask(&id)).await), created());
        assert_eq!(on.audit(&id).await.len(), 1, "cut at {polls}");
        if cut.is_some() {
            return;
        }
    }
    panic!("a resolution is never ready");
}

/// A read or a sweep cut at any poll leaves a store that goes on.
pub async fn a_read_cut_anywhere_leaves_a_store_that_goes_on(on: Fresh) {
    on.finished(&id("k")).await;
    on.after(REPLAY).await;
    for polls in 0..POLLS_MAX {
        let read = cut(polls, on.store.read(vec![id("k")])).await;
        if let Some(sweep) = &on.sweep {
            drop(cut(polls, sweep.sweep(Default::default())).await);
        }
        assert_eq!(refused(on.claim(ask(&id("k"))).await).code(), "forgotten");
        on.hold(&id(&format!("k{polls}"))).await;
        if read.is_some() {
            return;
        }
    }
    panic!("a read is never ready");
}
