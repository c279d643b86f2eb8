//! How much of the world is searched, and how long things last in it.

use std::fmt;

use semel::decide::OnLost;

use super::world::{ROOM, Ticks};

/// What the store's time is made of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Clock {
    /// An embedded store's: after a restart it falls back at most to what was last written.
    Persisted,
    /// A server's: a promoted standby's clock may be behind by anything.
    Server,
}

/// The bounds of one search. Nothing else bounds it: time goes on for ever, so leases end any number of
/// times, renewals and sweeps happen at any time, and whoever takes no step is frozen.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub name: &'static str,
    pub on_lost: OnLost,
    pub clock: Clock,
    /// How many claims are made, each under a token of its own.
    pub holders: usize,
    /// How many different contents they ask for.
    pub contents: u8,
    /// How many answers are lost, or requests overtaken by their own repetition.
    pub lost: u8,
    /// How often the store is restarted, or a standby promoted.
    pub restarts: u8,
    /// How far its time may fall back then.
    pub jump_max: Ticks,
    /// How many resolutions an operator makes.
    pub resolutions: u8,
    /// Whether it says "not done" by force too; nobody promises one effect then.
    pub forces: bool,
    /// Whether the sweep runs.
    pub sweeps: bool,
    /// A lease, in ticks.
    pub lease: Ticks,
    /// How long after it was first sent a claim may be granted.
    pub not_after: Ticks,
    /// An effect lands within fewer ticks after it was sent; the policy's `settle_for`.
    pub settle: u8,
    pub replay_for: u8,
    pub remember_for: u8,
}

impl Bounds {
    /// What the issue asks for at least: three holders, three ends of leases, two lost replies.
    pub const fn full(name: &'static str, on_lost: OnLost) -> Self {
        Self {
            name,
            on_lost,
            clock: Clock::Persisted,
            holders: 3,
            contents: 1,
            lost: 2,
            restarts: 0,
            jump_max: 0,
            resolutions: 2,
            forces: false,
            sweeps: true,
            lease: 2,
            not_after: 2,
            settle: 2,
            replay_for: 1,
            remember_for: 2,
        }
    }

    /// The same with two holders, one resolution, at most one lost answer and one tick that time falls back, for
    /// every run of the tests.
    pub fn small(self) -> Self {
        let wide = self.restarts > 0 || self.contents > 1;
        let (lost, jump_max) = (if wide { 0 } else { 1 }, self.jump_max.min(1));
        Self { holders: 2, lost, resolutions: 1, jump_max, ..self }
    }

    /// The same with so many holders and lost answers, as in `3,1`.
    pub fn of(self, wanted: &str) -> Self {
        let (holders, lost) = wanted.split_once(',').expect("two numbers with a comma between");
        Self { holders: holders.parse().unwrap(), lost: lost.parse().unwrap(), ..self }
    }

    /// Checks that the model has room for them.
    pub fn check(&self) {
        assert!(self.holders <= ROOM, "a world has room for {ROOM} holders");
        assert!(self.restarts == 0 || self.jump_max > 0, "a restart must be able to do something");
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, holders, lost, restarts, resolutions, .. } = self;
        write!(
            f,
            "{name} ({holders} holders, {lost} lost, {restarts} restarts, {resolutions} resolutions)"
        )
    }
}
