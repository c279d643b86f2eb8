//! Time that moves only by hand.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use async_trait::async_trait;
use semel::{Clock, Monotonic, Timestamp};
use tokio::sync::watch;

use crate::sleepers::{Place, Sleepers};

/// How often [`ManualClock::run`] lets other tasks go on between two steps.
const TURNS: usize = 64;

/// A clock that stands still until a test moves it, and that tells who sleeps on it.
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use semel::Clock;
/// # use semel_testkit::ManualClock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let clock = ManualClock::new();
/// let sleeper = Arc::clone(&clock);
/// let until = clock.monotonic().after(Duration::from_secs(60));
/// let slept = tokio::spawn(async move { sleeper.sleep_until(until).await });
/// clock.wait_for_sleepers(1).await;
/// clock.advance(Duration::from_secs(60));
/// slept.await.unwrap();
/// # }
/// ```
#[derive(Debug)]
pub struct ManualClock {
    hands: Mutex<Hands>,
    sleeping: watch::Sender<usize>,
}

#[derive(Debug)]
struct Hands {
    wall: Timestamp,
    since_start: Duration,
    sleepers: Sleepers,
}

impl ManualClock {
    /// Where the wall clock of [`ManualClock::new`] starts: 2030-01-01, in microseconds.
    pub const START_US: u64 = 1_893_456_000_000_000;

    /// Makes a clock whose wall stands at [`ManualClock::START_US`].
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::at(Timestamp::from_micros(Self::START_US))
    }

    /// Makes a clock whose wall stands at a given time.
    #[must_use]
    pub fn at(wall: Timestamp) -> Arc<Self> {
        let since_start = Duration::from_secs(1_000);
        let hands = Hands { wall, since_start, sleepers: Sleepers::default() };
        Arc::new(Self { hands: Mutex::new(hands), sleeping: watch::Sender::new(0) })
    }

    /// Moves both hands forward, and wakes whoever slept until then, the earliest first.
    pub fn advance(&self, by: Duration) {
        let mut hands = self.lock();
        hands.wall = hands.wall.after(by);
        hands.since_start += by;
        let now = hands.since_start;
        let woken = hands.sleepers.take_due(now);
        let left = hands.sleepers.count();
        drop(hands);
        self.sleeping.send_replace(left);
        woken.for_each(Waker::wake);
    }

    /// Moves forward sleeper by sleeper, and lets every woken task go on before the next step, so
    /// that what is due at an instant happens at that instant. For runtimes of one thread.
    pub async fn run(&self, span: Duration) {
        let until = self.lock().since_start + span;
        loop {
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            let (now, next) = {
                let hands = self.lock();
                (hands.since_start, hands.sleepers.next_due())
            };
            match next {
                Some(next) if next <= until => self.advance(next.saturating_sub(now)),
                _ if now < until => self.advance(until - now),
                _ => return,
            }
        }
    }

    /// Sets the wall clock alone, as an operator or a time server does.
    pub fn set_wall(&self, wall: Timestamp) {
        self.lock().wall = wall;
    }

    /// Returns how many sleep on this clock now.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.lock().sleepers.count()
    }

    /// Waits until at least `count` sleep on this clock.
    pub async fn wait_for_sleepers(&self, count: usize) {
        let mut sleeping = self.sleeping.subscribe();
        sleeping.wait_for(|now| *now >= count).await.expect("the clock outlives its borrow");
    }

    fn lock(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        self.lock().wall
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic::from_start(self.lock().since_start)
    }

    async fn sleep_until(&self, instant: Monotonic) {
        let until = instant.since(Monotonic::default());
        Sleep { clock: self, until, place: None }.await;
    }
}

struct Sleep<'a> {
    clock: &'a ManualClock,
    until: Duration,
    place: Option<Place>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (clock, until) = (self.clock, self.until);
        let mut hands = clock.lock();
        if hands.since_start >= until {
            hands.sleepers.leave(&mut self.place);
            return Poll::Ready(());
        }
        hands.sleepers.enter(&mut self.place, until, cx.waker());
        let count = hands.sleepers.count();
        drop(hands);
        clock.sleeping.send_replace(count);
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        let clock = self.clock;
        let mut hands = clock.lock();
        hands.sleepers.leave(&mut self.place);
        let count = hands.sleepers.count();
        drop(hands);
        clock.sleeping.send_replace(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleepers_wake_at_their_instant_and_in_order() {
        let clock = ManualClock::new();
        let (told, mut woken) = tokio::sync::mpsc::unbounded_channel();
        for secs in [3, 1, 2] {
            let (clock, told) = (Arc::clone(&clock), told.clone());
            let until = clock.monotonic().after(Duration::from_secs(secs));
            tokio::spawn(async move {
                clock.sleep_until(until).await;
                told.send((secs, clock.wall())).unwrap();
            });
        }
        clock.wait_for_sleepers(3).await;
        let start = clock.wall();
        clock.run(Duration::from_secs(2)).await;
        assert_eq!(clock.sleepers(), 1);
        assert_eq!(woken.try_recv(), Ok((1, start.after(Duration::from_secs(1)))));
        assert_eq!(woken.try_recv(), Ok((2, start.after(Duration::from_secs(2)))));
        assert!(woken.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_wall_that_is_set_moves_no_sleeper() {
        let clock = ManualClock::new();
        let before = clock.monotonic();
        clock.set_wall(Timestamp::from_micros(5));
        assert_eq!((clock.wall().as_micros(), clock.monotonic()), (5, before));
    }
}
