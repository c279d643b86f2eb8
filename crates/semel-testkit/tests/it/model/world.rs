//! What one moment of the modelled world is: small, comparable, and free of absolute time.
//!
//! Instants are ticks relative to now. Those of the store (`not_after`, leases, retention) move with the
//! store's time, those of a holder (its own deadline, how long its effect may still land) with real time.

use std::fmt;

use semel::State;

use super::bounds::Bounds;

/// Ticks from now; negative is past.
pub type Ticks = i8;

/// An instant that never comes.
pub const NEVER: Ticks = Ticks::MAX;

/// The most holders a world has room for.
pub const ROOM: usize = 3;

/// No holder's name: what a token that was dropped belongs to.
pub const NOBODY: u8 = u8::MAX;

/// What is kept when an operator said that the effect happened.
pub const BY_OPERATOR: u8 = u8::MAX - 1;

/// One moment.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct World {
    pub holders: [Holder; ROOM],
    pub operator: Operator,
    pub record: Option<Kept>,
    /// The largest fence that was swept.
    pub floor: u8,
    pub truth: Truth,
    /// Ticks since the store last wrote, which is what it has persisted of its time.
    pub since_write: Ticks,
    pub lost: u8,
    pub restarts: u8,
    pub resolutions: u8,
}

/// One claim, under a token of its own, and whoever makes it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Holder {
    pub stage: Stage,
    pub effect: Effect,
    /// How the run ended, while that may still be sent or arrive.
    pub end: End,
    /// The content it asks for.
    pub content: u8,
    /// How often the claim was sent.
    pub sent: u8,
    /// The claim that was sent last has not arrived yet.
    pub flying: bool,
    /// One that was sent before, and is no longer waited for, has not arrived yet.
    pub late: bool,
    /// The end of the run, sent and no longer waited for, has not arrived yet.
    pub echo: bool,
    /// In the store's time.
    pub not_after: Ticks,
    /// When it was asked, and so until when the holder may believe in its lease; in real time.
    pub deadline: Ticks,
    pub fence: u8,
    pub incarnation: u8,
    /// How long it must wait before it believes that an earlier holder's effect did not happen.
    pub asks_first: Option<u8>,
}

/// Where a holder stands.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Stage {
    /// Gives back by token whatever its claim may hold.
    Abandoning,
    Asking,
    /// The end was sent at least once, and not heard of.
    Ending,
    /// Given back for certain: no copy of its claim may ever be granted.
    Gone,
    /// Has the permit; no effect was sent.
    Holding,
    Idle,
    Over,
    /// Past its deadline it has renewed, and the answer lies there unread.
    Renewed,
    /// The effect was sent.
    Started,
}

/// How a run ends.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum End {
    /// Without any effect.
    Clean,
    Done,
    /// Nobody can tell; `on_lost` decides.
    Doubt,
    /// In a final failure without an effect.
    Failed,
    /// By having nothing to end.
    None,
}

/// What became of a holder's effect.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Effect {
    /// Sent; it may land within so many ticks, or never.
    Flying(u8),
    Landed,
    None,
}

impl Effect {
    /// Says whether it happened or still may.
    pub fn may_be(self) -> bool {
        self != Self::None
    }
}

/// An operator or reconciler, who looks at what has landed and tells the store.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Operator {
    Idle,
    /// Has looked, and its resolution is on its way, or was not heard of.
    Tells {
        id: u8,
        token: u8,
        fence: u8,
        verdict: Said,
    },
}

/// What an operator found out.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Said {
    Done,
    NotDone,
    /// Not done, and derived keys change.
    NotDoneAnew,
    /// Gives the intent back, as `semel records release` does.
    Release,
}

/// What matters of a record. What is for tracing alone is left out.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Kept {
    pub state: State,
    pub token: u8,
    pub fence: u8,
    pub content: u8,
    pub renewed: Ticks,
    pub length: u8,
    pub taken_over: bool,
    pub compare: bool,
    pub incarnation: u8,
    pub resolved_by: u8,
    /// The outcome is still kept.
    pub outcome: bool,
    /// Whose outcome it is; survives in the tombstone.
    pub pointer: Option<u8>,
    pub replay_until: Ticks,
    pub remember_until: Ticks,
}

/// The history beside the record: what really happened and what was said, whatever the store keeps.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Truth {
    pub standing: Standing,
    /// Whose permit is or was the last.
    pub owner: u8,
    pub fence: u8,
    pub max_fence: u8,
    pub content: u8,
    pub incarnation: u8,
    /// How much longer, in real time, the owner must be left alone.
    pub lease_left: Ticks,
    /// How much longer, in real time, anybody may be told that it is at work.
    pub busy_left: Ticks,
    /// The store's clock fell back, and no claim has met the record since.
    pub fell_back: bool,
    /// A client was told the outcome as final.
    pub told: Option<u8>,
    pub kept: Option<u8>,
    pub replay_until: Ticks,
    pub remember_until: Ticks,
    /// An operator forced "not done" in this life.
    pub forced: bool,
    /// The id of the resolution that was last stored, if an operator ended the last claim.
    pub resolved_by: u8,
}

/// How the intent really stands.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Standing {
    /// The owner is lost or has doubts.
    Doubted,
    Ended,
    /// Given back; with `compare`, some run may have had an effect.
    Free {
        compare: bool,
    },
    Held,
    Nothing,
}

impl World {
    pub fn new() -> Self {
        Self {
            holders: [Holder::IDLE; ROOM],
            operator: Operator::Idle,
            record: None,
            floor: 0,
            truth: Truth::NOTHING,
            since_write: 0,
            lost: 0,
            restarts: 0,
            resolutions: 0,
        }
    }

    /// Lets a tick pass.
    pub fn tick(&mut self, bounds: &Bounds) {
        for holder in &mut self.holders {
            holder.deadline -= 1;
            holder.effect = match holder.effect {
                Effect::Flying(0) => Effect::None,
                Effect::Flying(left) => Effect::Flying(left - 1),
                other => other,
            };
            holder.asks_first = holder.asks_first.map(|left| left.saturating_sub(1));
        }
        self.truth.lease_left -= 1;
        self.truth.busy_left -= 1;
        self.since_write = (self.since_write + 1).min(bounds.jump_max);
        self.shift(-1);
    }

    /// Moves all that is told by the store's time.
    pub fn shift(&mut self, by: Ticks) {
        let moved = |at: Ticks| if at == NEVER { NEVER } else { at + by };
        for holder in &mut self.holders {
            holder.not_after = moved(holder.not_after);
        }
        if let Some(record) = &mut self.record {
            record.renewed = moved(record.renewed);
            record.replay_until = moved(record.replay_until);
            record.remember_until = moved(record.remember_until);
        }
        self.truth.replay_until = moved(self.truth.replay_until);
        self.truth.remember_until = moved(self.truth.remember_until);
    }

    /// Returns how many effects have landed in this life of the intent.
    pub fn landed(&self) -> usize {
        self.holders.iter().filter(|holder| holder.effect == Effect::Landed).count()
    }

    /// Begins a new life of the intent: all that was remembered of it is over.
    pub fn begin_life(&mut self) {
        for holder in &mut self.holders {
            holder.effect = Effect::None;
        }
        self.truth.told = None;
        self.truth.forced = false;
    }

    /// Drops what can make no difference any more, so that equal futures are equal worlds.
    pub fn settle(&mut self, bounds: &Bounds) {
        // A clock that falls back brings back what is past by no more than this.
        let back = bounds.jump_max * Ticks::try_from(bounds.restarts - self.restarts).unwrap_or(0);
        let past = -1 - back;
        for holder in &mut self.holders {
            holder.settle(past);
        }
        if let Some(record) = &mut self.record {
            if matches!(record.state, State::Running | State::Unknown) {
                let over = past - bounds.lease - Ticks::try_from(bounds.settle).unwrap_or(0);
                record.renewed = record.renewed.max(over);
            } else {
                (record.renewed, record.length) = (0, 0);
            }
            record.replay_until = record.replay_until.max(past);
            record.remember_until = record.remember_until.max(past);
        }
        self.truth.replay_until = self.truth.replay_until.max(past);
        self.truth.remember_until = self.truth.remember_until.max(past);
        self.truth.lease_left = self.truth.lease_left.max(0);
        self.truth.busy_left = self.truth.busy_left.max(0);
        if self.truth.standing != Standing::Held {
            (self.truth.lease_left, self.truth.busy_left) = (0, 0);
            self.truth.fell_back = false;
        }
        if self.restarts == bounds.restarts {
            self.since_write = 0;
        }
        self.rank_fences();
    }

    /// Numbers the fences anew: only which is larger, and which are equal, matters.
    fn rank_fences(&mut self) {
        let mut known = [false; 1 << 6];
        self.each_fence(|fence| known[usize::from(*fence)] = true);
        known[0] = true;
        let rank = |fence: u8| known[..usize::from(fence)].iter().filter(|known| **known).count();
        self.each_fence(|fence| *fence = u8::try_from(rank(*fence)).unwrap_or(*fence));
    }

    fn each_fence(&mut self, mut each: impl FnMut(&mut u8)) {
        self.holders.iter_mut().for_each(|holder| each(&mut holder.fence));
        self.record.iter_mut().for_each(|record| each(&mut record.fence));
        if let Operator::Tells { fence, .. } = &mut self.operator {
            each(fence);
        }
        each(&mut self.floor);
        each(&mut self.truth.fence);
        each(&mut self.truth.max_fence);
    }

    /// Returns the same world with its holders in a fixed order, and where each of them stood.
    pub fn canonical(&self) -> (Self, [u8; ROOM]) {
        let mut order = [0, 1, 2];
        order.sort_by_key(|index| (self.holders[usize::from(*index)], self.named(*index)));
        let mut world = *self;
        let mut place = [0; ROOM];
        for (to, from) in order.iter().enumerate() {
            world.holders[to] = self.holders[usize::from(*from)];
            place[usize::from(*from)] = u8::try_from(to).unwrap_or(NOBODY);
        }
        let rename = |name: &mut u8| {
            if let Some(place) = place.get(usize::from(*name)) {
                *name = *place;
            }
        };
        if let Some(record) = &mut world.record {
            rename(&mut record.token);
            record.pointer.iter_mut().for_each(rename);
        }
        rename(&mut world.truth.owner);
        world.truth.told.iter_mut().for_each(rename);
        world.truth.kept.iter_mut().for_each(rename);
        if let Operator::Tells { token, .. } = &mut world.operator {
            rename(token);
        }
        (world, order)
    }

    /// Says where a holder is named, so that holders which look alike are told apart by it.
    fn named(&self, index: u8) -> [bool; 6] {
        let operator = match self.operator {
            Operator::Tells { token, .. } => token == index,
            Operator::Idle => false,
        };
        [
            self.record.is_some_and(|record| record.token == index),
            self.record.is_some_and(|record| record.pointer == Some(index)),
            self.truth.owner == index,
            self.truth.told == Some(index),
            self.truth.kept == Some(index),
            operator,
        ]
    }
}

impl Holder {
    pub const IDLE: Self = Self {
        stage: Stage::Idle,
        effect: Effect::None,
        end: End::None,
        content: 0,
        sent: 0,
        flying: false,
        late: false,
        echo: false,
        not_after: 0,
        deadline: 0,
        fence: 0,
        incarnation: 0,
        asks_first: None,
    };

    /// Says whether some copy of its claim may still arrive.
    pub const fn has_copies(&self) -> bool {
        self.flying || self.late
    }

    fn settle(&mut self, past: Ticks) {
        let over = matches!(self.stage, Stage::Over | Stage::Gone);
        let holds = matches!(self.stage, Stage::Holding | Stage::Renewed);
        let told = holds || matches!(self.stage, Stage::Started | Stage::Ending);
        if over || told && self.sent < 2 {
            self.sent = 0;
        }
        if self.sent == 0 && !self.has_copies() {
            self.not_after = 0;
        }
        self.not_after = self.not_after.max(past);
        if !(holds || self.stage == Stage::Asking) {
            self.deadline = 0;
            self.asks_first = None;
        }
        self.deadline = self.deadline.max(0);
        let over = over || self.stage == Stage::Abandoning;
        if over && !self.echo {
            (self.end, self.fence) = (End::None, 0);
        }
        if over && !self.effect.may_be() {
            self.incarnation = 0;
            if !self.has_copies() {
                self.content = 0;
            }
        }
    }
}

impl Truth {
    const NOTHING: Self = Self {
        standing: Standing::Nothing,
        owner: NOBODY,
        fence: 0,
        max_fence: 0,
        content: 0,
        incarnation: 0,
        lease_left: 0,
        busy_left: 0,
        fell_back: false,
        told: None,
        kept: None,
        replay_until: 0,
        remember_until: 0,
        forced: false,
        resolved_by: 0,
    };

    /// Says whether anything is remembered of the intent now.
    pub const fn is_remembered(&self) -> bool {
        match self.standing {
            Standing::Nothing => false,
            Standing::Held | Standing::Doubted => true,
            Standing::Ended | Standing::Free { .. } => self.remember_until > 0,
        }
    }

    /// Says whether the permit of a claim may still write.
    pub fn is_alive(&self, owner: u8, fence: u8) -> bool {
        let alive = matches!(self.standing, Standing::Held | Standing::Doubted);
        alive && self.owner == owner && self.fence == fence
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::NotDone => "not done",
            Self::NotDoneAnew => "not done, new incarnation",
            Self::Release => "release",
        })
    }
}
