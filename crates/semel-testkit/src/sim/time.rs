//! The one time of a world, and the clocks that its machines make of it.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use async_trait::async_trait;
use semel::{Clock, Monotonic, Timestamp};

/// Time as it really is in a world: it goes on when the world says so.
#[derive(Debug)]
pub(super) struct Time(Mutex<Hands>);

#[derive(Debug)]
struct Hands {
    now: Duration,
    sleepers: BTreeMap<(Duration, u64), Waker>,
    next: u64,
}

impl Time {
    /// Where time starts.
    pub(super) const START: Duration = Duration::from_secs(1_000);

    pub(super) fn new() -> Arc<Self> {
        let hands = Hands { now: Self::START, sleepers: BTreeMap::new(), next: 0 };
        Arc::new(Self(Mutex::new(hands)))
    }

    pub(super) fn now(&self) -> Duration {
        self.lock().now
    }

    /// Returns when the next sleeper is due.
    pub(super) fn next(&self) -> Option<Duration> {
        self.lock().sleepers.first_key_value().map(|(place, _)| place.0)
    }

    /// Goes on to an instant, and wakes whoever slept until then, the earliest first.
    pub(super) fn advance_to(&self, instant: Duration) {
        let mut hands = self.lock();
        hands.now = hands.now.max(instant);
        let now = hands.now;
        if hands.sleepers.first_key_value().is_none_or(|(place, _)| place.0 > now) {
            return;
        }
        let later = hands.sleepers.split_off(&(now + Duration::from_nanos(1), 0));
        let woken = std::mem::replace(&mut hands.sleepers, later);
        drop(hands);
        woken.into_values().for_each(Waker::wake);
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
    place: Option<(Duration, u64)>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let time = self.time;
        let mut hands = time.lock();
        if hands.now >= self.until {
            return Poll::Ready(());
        }
        let place = self.place.unwrap_or_else(|| {
            hands.next += 1;
            (self.until, hands.next)
        });
        self.place = Some(place);
        hands.sleepers.insert(place, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.time.lock().sleepers.remove(&place);
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
