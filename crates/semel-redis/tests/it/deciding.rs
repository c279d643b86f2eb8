//! What the scripts do by themselves is what the reference store does: whatever is asked, in whatever order.

use std::{fmt::Debug, time::Duration};

use semel::{
    Fence, IntentId, Store, Timestamp, Token,
    decide::{Finish, FinishKind, OnLost, ReleaseAsk, ResolveAsk, Verdict},
    store::{
        Actor, Renew,
        capability::{Inspect, Sweep, SweepBudget},
        memory::MemoryStore,
    },
};
use semel_redis::RedisStore;
use semel_testkit::{ManualClock, conformance::MoveTime, servers::RedisKind};

use crate::{
    fixture::{Fixture, MovedTime, START},
    words::*,
};

/// How many walks, and how long.
const WALKS: u64 = 40;
const STEPS: usize = 60;

/// Two stores that are asked the same.
struct Pair {
    redis: RedisStore,
    memory: MemoryStore,
    moved: std::sync::Arc<MovedTime>,
    clock: std::sync::Arc<ManualClock>,
    chance: u64,
    /// Claims that were made: what they asked for, and the fence if one was granted.
    claims: Vec<(IntentId, Token, Fence)>,
    walk: u64,
    told: Vec<String>,
}

impl Pair {
    async fn new(walk: u64) -> Self {
        let (builder, moved) = Fixture::new(RedisKind::Valkey9).await.timed().await;
        let clock = ManualClock::at(Timestamp::from_micros(u64::try_from(START).unwrap()));
        let memory = MemoryStore::with_clock(clock.clone());
        let redis = builder.open().await.unwrap();
        let chance = walk.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let (claims, told) = (Vec::new(), Vec::new());
        Self { redis, memory, moved, clock, chance, claims, walk, told }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    fn same<T: Debug>(&mut self, asked: impl Debug, redis: T, memory: T) {
        let (redis, memory) = (format!("{redis:?}"), format!("{memory:?}"));
        self.told.push(format!("{asked:?}"));
        let (walk, told) = (self.walk, &self.told);
        assert_eq!(redis, memory, "walk {walk} differs after {told:#?}");
    }

    async fn pass(&mut self) {
        let steps = [1_000, 5_000_000, 31_000_000, 3_601_000_000, 7_300_000_000];
        let place = self.below(12).min(4).min(if self.one_in(3) { 4 } else { 1 });
        let by = Duration::from_micros(steps[usize::try_from(place).unwrap()]);
        self.moved.advance(by).await;
        self.clock.advance(by);
    }

    /// A claim that somebody made, seldom with something wrong about it.
    fn some_claim(&mut self) -> (IntentId, Token, Fence) {
        if self.claims.is_empty() || self.one_in(12) {
            return (id("k0"), token(), Fence::new(7));
        }
        let recent = self.claims.len().min(4);
        let at = self.claims.len() - 1 - usize::try_from(self.below(recent as u64)).unwrap();
        let (id, token, fence) = self.claims[at].clone();
        let fence = if self.one_in(10) { Fence::new(fence.get() + 1) } else { fence };
        // Somebody else's token, with the right fence.
        let token = if self.one_in(10) { crate::words::token() } else { token };
        (id, token, fence)
    }

    async fn claim(&mut self) {
        let mut ask = ask(&id(&format!("k{}", self.below(3))));
        if !self.claims.is_empty() && self.one_in(4) {
            (ask.id, ask.token, _) = self.some_claim();
        }
        ask.lease = Duration::from_secs(30);
        ask.on_lost = [OnLost::Hold, OnLost::Rerun, OnLost::Reconcile]
            [usize::try_from(self.below(3)).unwrap()];
        if self.one_in(5) {
            ask.fingerprint = semel::Fingerprint::of_bytes(b"pay 11");
        }
        if self.one_in(8) {
            ask.not_after = Timestamp::from_micros(1);
        }
        let redis = self.redis.claim(vec![ask.clone()]).await.unwrap();
        let memory = self.memory.claim(vec![ask.clone()]).await.unwrap();
        if let semel::store::ClaimAnswer::Granted { permit, .. } = &memory[0].answer {
            self.claims.push((permit.id.clone(), permit.token, permit.fence));
        }
        self.same(ask, redis, memory);
    }

    async fn renew(&mut self) {
        let (id, token, fence) = self.some_claim();
        let renewal = Renew { id, token, fence, lease: Duration::from_secs(30) };
        let redis = self.redis.renew(vec![renewal.clone()]).await.unwrap();
        let memory = self.memory.renew(vec![renewal.clone()]).await.unwrap();
        self.same(renewal, redis, memory);
    }

    async fn complete(&mut self) {
        let (id, token, fence) = self.some_claim();
        let kind = [FinishKind::Done, FinishKind::Failed, FinishKind::Unknown]
            [usize::try_from(self.below(3)).unwrap()];
        let mut finish = Finish { kind, ..done("paid") };
        if kind == FinishKind::Unknown || self.one_in(4) {
            finish.outcome = None;
        }
        if self.one_in(3) {
            finish.reason = Some("why".into());
        }
        if self.one_in(4) {
            finish.remember_for = Duration::from_secs(1);
        }
        let permit = semel::Permit { id, token, fence, incarnation: 0 };
        let redis = self.redis.complete(permit.clone(), finish.clone()).await.unwrap();
        let memory = self.memory.complete(permit.clone(), finish.clone()).await.unwrap();
        self.same((permit, finish), redis, memory);
    }

    async fn release(&mut self) {
        let (id, token, fence) = self.some_claim();
        let ask = ReleaseAsk {
            token,
            fence: (!self.one_in(3)).then_some(fence),
            compare: self.one_in(2),
            reason: Some("early".into()),
            remember_for: REMEMBER,
        };
        let redis = self.redis.release(id.clone(), ask.clone()).await.unwrap();
        let memory = self.memory.release(id.clone(), ask.clone()).await.unwrap();
        self.same((id, ask), redis, memory);
    }

    async fn resolve(&mut self) {
        let (id, token, fence) = self.some_claim();
        let outcome = semel::Outcome::new(200, "found");
        let verdict = match self.below(3) {
            0 => Verdict::Done(outcome),
            1 => Verdict::Failed(outcome),
            _ => Verdict::NotDone { new_incarnation: self.one_in(2) },
        };
        let ask = ResolveAsk {
            resolve_id: [u8::try_from(self.below(4)).unwrap(); 16],
            token,
            fence,
            verdict,
            settle_for: Duration::from_secs(60),
            force: self.one_in(3),
            replay_for: REPLAY,
            remember_for: REMEMBER,
        };
        let actor = Actor { name: "ada".into(), note: "looked".into() };
        let redis = self.redis.resolve(id.clone(), ask.clone(), actor.clone()).await.unwrap();
        let memory = self.memory.resolve(id.clone(), ask.clone(), actor).await.unwrap();
        self.same((id, ask), redis, memory);
    }

    async fn sweep(&mut self) {
        let budget = SweepBudget::default();
        let redis = self.redis.sweep(budget).await.unwrap();
        let memory = self.memory.sweep(budget).await.unwrap();
        self.same("sweep", redis, memory);
    }

    /// The records.
    async fn read(&mut self) {
        let ids: Vec<_> = (0..3).map(|n| id(&format!("k{n}"))).collect();
        let redis = self.redis.read(ids.clone()).await.unwrap();
        let memory = self.memory.read(ids).await.unwrap();
        self.same("read", redis, memory);
    }

    /// All that is stored, and all that was noted.
    async fn look(&mut self) {
        self.read().await;
        let redis = self.redis.counts().await.unwrap();
        let memory = self.memory.counts().await.unwrap();
        self.same("counts", redis, memory);
        let redis = self.redis.audit(None, 1_000).await.unwrap();
        let memory = self.memory.audit(None, 1_000).await.unwrap();
        self.same("audit", redis, memory);
    }
}

#[tokio::test]
async fn whatever_is_asked_is_answered_as_the_reference_store_does() {
    for walk in 1..=WALKS {
        let mut pair = Pair::new(walk).await;
        for _ in 0..STEPS {
            // No two fences are made at one instant: of those only the order is promised.
            pair.pass().await;
            match pair.below(10) {
                0..=3 => pair.claim().await,
                4 => pair.renew().await,
                5 | 6 => pair.complete().await,
                7 => pair.release().await,
                8 => pair.resolve().await,
                _ => pair.sweep().await,
            }
            if pair.one_in(4) {
                pair.read().await;
            }
        }
        pair.look().await;
    }
}
