//! What a world is like, drawn from its seed.

use std::{sync::Arc, time::Duration};

use semel::{Policy, decide::OnLost};

use super::{chance::Chance, schedule::Order, server::Lie};
use crate::history::Promise;

/// How the holders of a world work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// The application ends the run in its own transaction.
    Bridged,
    /// The effect is outside.
    Leased,
}

/// What does not change in a world.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) form: Form,
    pub(super) on_lost: OnLost,
    pub(super) order: Order,
    pub(super) keys: usize,
    pub(super) contents: u64,
    pub(super) processes: usize,
    pub(super) callers: usize,
    pub(super) asks: u64,
    pub(super) policy: Policy,
    pub(super) wait_max: Duration,
    /// The longest way of an effect to its provider, and of the answer back.
    pub(super) flight: Duration,
    pub(super) poll_every: Duration,
    pub(super) sweep_every: Duration,
    pub(super) waiters_max: usize,
    /// Of a thousand calls, in bad weather.
    pub(super) faults: u64,
    pub(super) slowness: Duration,
    /// Of a hundred handlers, how many are dropped at some await.
    pub(super) cut: u64,
    /// How often something happens to a process or to the store.
    pub(super) trouble_every: Duration,
    pub(super) jumps: bool,
    /// For how long at most a process freezes in the middle of a call; zero if none does.
    pub(super) freezes: Duration,
    pub(super) lie: Lie,
}

impl Plan {
    pub(super) fn draw(chance: &Chance, lie: Lie) -> Self {
        let ms = Duration::from_millis;
        let secs = Duration::from_secs;
        let (form, on_lost) = chance.pick(&[
            (Form::Leased, OnLost::Hold),
            (Form::Leased, OnLost::Hold),
            (Form::Leased, OnLost::Hold),
            (Form::Leased, OnLost::Rerun),
            (Form::Leased, OnLost::Reconcile),
            (Form::Leased, OnLost::Reconcile),
            (Form::Bridged, OnLost::Rerun),
            (Form::Bridged, OnLost::Hold),
        ]);
        // Where a lost holder is asked for first, nobody must forget meanwhile that there was one.
        let brief = on_lost != OnLost::Reconcile && chance.one_in(3);
        let defaults = Policy::default();
        let lease = chance.pick(&[ms(200), secs(1), secs(5), secs(30)]);
        let policy = Policy {
            durable: false,
            on_lost,
            lease,
            claim_timeout: chance.pick(&[ms(200), secs(1), secs(5)]),
            store_for: chance.pick(&[secs(1), secs(30)]),
            settle_for: chance.pick(&[Duration::ZERO, lease, secs(60)]),
            replay_for: if brief { chance.pick(&[secs(1), secs(20)]) } else { defaults.replay_for },
            remember_for: if brief {
                chance.pick(&[secs(20), secs(90)])
            } else {
                defaults.remember_for
            },
            ..defaults
        };
        Self {
            form,
            on_lost,
            order: chance.pick(&[Order::Any, Order::Any, Order::Oldest, Order::Newest]),
            keys: 1 + chance.index(2),
            contents: chance.pick(&[1, 1, 2]),
            processes: 1 + chance.index(3),
            callers: 3 + chance.index(12),
            asks: 2 + chance.below(6),
            policy,
            wait_max: chance.pick(&[Duration::ZERO, secs(2), secs(40)]),
            flight: chance.pick(&[Duration::ZERO, ms(50), secs(2)]),
            poll_every: chance.pick(&[ms(50), ms(500), secs(2)]),
            sweep_every: chance.pick(&[secs(5), secs(60)]),
            waiters_max: chance.pick(&[1, 1_000, 1_000, 1_000]),
            faults: chance.pick(&[0, 20, 100, 300]),
            slowness: chance.pick(&[Duration::ZERO, ms(1), ms(50), ms(800)]),
            cut: chance.pick(&[0, 10, 40]),
            trouble_every: chance.pick(&[lease, lease * 4, secs(30), secs(3_600)]),
            jumps: chance.one_in(3),
            freezes: lease * chance.pick(&[0, 2, 12]),
            lie,
        }
    }

    pub(super) const fn promise(&self) -> Promise {
        match (self.form, self.on_lost) {
            (Form::Leased, OnLost::Rerun) => Promise::Keyed,
            _ => Promise::AtMostOnce,
        }
    }

    /// Returns the policy of one ask.
    pub(super) fn policy(&self, chance: &Chance) -> Arc<Policy> {
        Arc::new(Policy { wait: chance.span(self.wait_max), ..self.policy.clone() })
    }
}
