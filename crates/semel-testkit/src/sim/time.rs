//! The one time of a world, and the clocks that its machines make of it.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use async_trait::async_trait;
use semel::{Clock, Monotonic, Timestamp};

use crate::sleepers::{Place, Sleepers};

/// Time as it really is in a world: it goes on when the world says so.
#[derive(Debug)]
pub(super) struct Time(Mutex<Hands>);

#[derive(Debug)]
struct Hands {
    now: Duration,
    sleepers: Sleepers,
}

impl Time {
    /// Where time starts.
    pub(super) const START: Duration = Duration::from_secs(1_000);

    pub(super) fn new() -> Arc<Self> {
        let hands = Hands { now: Self::START, sleepers: Sleepers::default() };
        Arc::new(Self(Mutex::new(hands)))
    }

    pub(super) fn now(&self) -> Duration {
        self.lock().now
    }

    /// Returns when the next sleeper is due.
    pub(super) fn next(&self) -> Option<Duration> {
        self.lock().sleepers.next_due()
    }

    /// Goes on to an instant, and wakes whoever slept until then, the earliest first.
    pub(super) fn advance_to(&self, instant: Duration) {
        let mut hands = self.lock();
        hands.now = hands.now.max(instant);
        let now = hands.now;
        if hands.sleepers.next_due().is_none_or(|due| due > now) {
            return;
        }
        let woken = hands.sleepers.take_due(now);
        drop(hands);
        woken.for_each(Waker::wake);
    }

    pub(super) fn passes(&self, span: Duration) -> Sleep<'_> {
        self.sleep_until(self.now().saturating_add(span))
    }

    pub(super) fn sleep_until(&self, until: Duration) -> Sleep<'_> {
        Sleep { time: self, until, place: None }
    }

    fn lock(&self) -> MutexGuard<'_, Hands> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Sleep<'a> {
    time: &'a Time,
    until: Duration,
    place: Option<Place>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (time, until) = (self.time, self.until);
        let mut hands = time.lock();
        if hands.now >= until {
            return Poll::Ready(());
        }
        hands.sleepers.enter(&mut self.place, until, cx.waker());
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if self.place.is_some() {
            self.time.lock().sleepers.leave(&mut self.place);
        }
    }
}

/// The clocks of one machine: its count starts anywhere and goes a little too fast or too slow, and its
/// wall shows anything.
#[derive(Debug)]
pub(super) struct MachineClock {
    time: Arc<Time>,
    ahead: Duration,
    /// How far the count goes in a million real steps.
    rate: u128,
    wall: Timestamp,
}

const MILLION: u128 = 1_000_000;

impl MachineClock {
    pub(super) fn new(time: Arc<Time>, ahead: Duration, rate: u64, wall: Timestamp) -> Arc<Self> {
        Arc::new(Self { time, ahead, rate: rate.into(), wall })
    }

    /// Returns the real instant at which the count shows `instant`, rounded up.
    fn real(&self, instant: Monotonic) -> Duration {
        let count = instant.since(Monotonic::from_start(self.ahead)).as_nanos();
        nanos((count * MILLION).div_ceil(self.rate))
    }
}

fn nanos(count: u128) -> Duration {
    Duration::from_nanos(u64::try_from(count).unwrap_or(u64::MAX))
}

#[async_trait]
impl Clock for MachineClock {
    fn wall(&self) -> Timestamp {
        self.wall.after(self.time.now())
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic::from_start(self.ahead + nanos(self.time.now().as_nanos() * self.rate / MILLION))
    }

    async fn sleep_until(&self, instant: Monotonic) {
        self.time.sleep_until(self.real(instant)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_never_wakes_before_its_own_clock_says_so() {
        let time = Time::new();
        for rate in [999_900, 999_999, 1_000_000, 1_000_001, 1_000_100] {
            let clock =
                MachineClock::new(time.clone(), Duration::from_nanos(17), rate, Timestamp::MAX);
            for step in 1..1_000 {
                let until = clock.monotonic().after(Duration::from_nanos(step * 7_919));
                let real = clock.real(until);
                time.advance_to(real - Duration::from_nanos(1));
                assert!(clock.monotonic() < until, "{rate} {step}");
                time.advance_to(real);
                assert!(clock.monotonic() >= until, "{rate} {step}");
            }
        }
    }
}
