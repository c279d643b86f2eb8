//! The rules that hold in the modelled world: the production functions, and what engine and store do
//! around them. A test takes one out by replacing it.

use semel::{
    Fence, Record, Timestamp, Token,
    decide::{
        self, Ask, Decision, Finish, Grant, OnLost, ReleaseAsk, ResolveAsk, ResolveDecision,
        Settle, Sweep,
    },
};

type Write = (Token, Fence);

/// All rules.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub asks_first: fn(Option<Grant>, OnLost) -> bool,
    pub claim: fn(Option<&Record>, &Ask, Timestamp) -> Decision,
    pub complete: fn(Option<&Record>, Write, &Finish, Timestamp) -> Settle,
    pub release: fn(Option<&Record>, &ReleaseAsk, Timestamp) -> Settle,
    pub renew: fn(Option<&Record>, Write, std::time::Duration, Timestamp) -> Settle,
    pub resolve: fn(Option<&Record>, &ResolveAsk, Timestamp) -> ResolveDecision,
    pub rewind: fn(&Record, Timestamp) -> Record,
    pub sweep: fn(&Record, Timestamp) -> Sweep,
    pub engine: Engine,
    pub store: Store,
}

/// What the engine does, and whoever uses it.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    pub deadline: Deadline,
    /// Past its deadline a holder acts only after a renewal that succeeded.
    pub renewal: Renewal,
    /// When the client is told of success.
    pub tells: Tells,
    /// What a caller does whose claim cannot be asked for.
    pub store_away: StoreAway,
    /// When the release of an abandoned claim is the last word.
    pub given_back: GivenBack,
    /// A reconciler waits as long as an earlier effect may land before it believes in none.
    pub reconciler_waits: bool,
    /// What an operator gives back.
    pub operator: Gives,
}

/// From when a holder counts its own deadline.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Deadline {
    FromAnswer,
    FromAsking,
    Ignored,
    /// Not looked at again once a renewal was answered.
    Once,
}

/// Which renewal is believed in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Renewal {
    Answered,
    Sent,
}

/// When a client is told that its intent is done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tells {
    BeforeCommit,
    Durable,
    /// Also when the store could not be asked for too long.
    GivingUp,
}

/// What is done if the store cannot be asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StoreAway {
    Refuse,
    Run,
}

/// When nothing can be granted to an abandoned token any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GivenBack {
    AtOnce,
    /// As soon as one copy was given back, although another may be on its way.
    OneCopy,
    PastNotAfter,
}

/// Which records an operator gives back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Gives {
    /// Also one that was seen running past its lease.
    Running,
    Unknown,
}

/// What the store does around the decision.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// Its time never falls below what it has written.
    pub persists_time: bool,
    pub time: Time,
    /// The sweep raises the floor of the fences.
    pub raises_floor: bool,
    /// A completion that came too late is kept as a conflict.
    pub keeps_conflicts: bool,
}

/// Which time a claim is judged by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Time {
    /// The store's, read when it decides.
    Deciding,
    /// The caller's, which is ahead by a lease.
    Caller,
    /// The store's, read when the transaction began.
    Began,
}

impl Rules {
    /// The rules as they are.
    pub const REAL: Self = Self {
        asks_first: decide::asks_first,
        claim: decide::claim,
        complete: |seen, (token, fence), finish, now| {
            decide::complete(seen, token, fence, finish, now)
        },
        release: decide::release,
        renew: |seen, (token, fence), length, now| decide::renew(seen, token, fence, length, now),
        resolve: decide::resolve,
        rewind: decide::rewind,
        sweep: decide::sweep,
        engine: Engine {
            deadline: Deadline::FromAsking,
            renewal: Renewal::Answered,
            tells: Tells::Durable,
            store_away: StoreAway::Refuse,
            given_back: GivenBack::PastNotAfter,
            reconciler_waits: true,
            operator: Gives::Unknown,
        },
        store: Store {
            persists_time: true,
            time: Time::Deciding,
            raises_floor: true,
            keeps_conflicts: true,
        },
    };
}
