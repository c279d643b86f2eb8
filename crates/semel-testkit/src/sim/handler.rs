//! What a process does for one ask: begins, and runs it in some way when it may.

use std::{panic::resume_unwind, sync::Arc, time::Duration};

use semel::{Begun, Call, Fail, Holder, IntentId, Outcome, RunError, engine::Ran};
use tokio::sync::oneshot;

use super::{
    bridged,
    guard::Guard,
    plan::Form,
    world::{Process, World},
};
use crate::history::{Said, Told};

/// What a provider answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reply {
    Done,
    Lost,
    Refused,
}

/// Makes the outcome that one run keeps, which no other run keeps.
pub(super) fn told(status: u16, ask: usize) -> Told {
    Told { status, body: format!("{status}-{ask}").into() }
}

pub(super) fn outcome(told: &Told) -> Outcome {
    Outcome::new(told.status, told.body.clone())
}

/// Asks once, and runs what is granted.
pub(super) async fn handle(world: Arc<World>, process: Process, id: IntentId, content: u64) {
    let policy = world.plan.policy(&world.chance);
    let fingerprint = World::fingerprint(content);
    let call = Call::new(id.clone(), fingerprint, policy);
    let engine = process.engine.clone();
    let typed = world.plan.form == Form::Leased && world.chance.one_in(6);
    let guard = Guard::asks(world, process, id, content);
    if typed {
        return Box::pin(run_typed(&guard, call)).await;
    }
    match engine.begin(call).await {
        Err(_) => {}
        Ok(Begun::Refused(refusal)) => guard.refused(refusal.code()),
        Ok(Begun::Replay(record)) => {
            let outcome = record.outcome.as_ref().expect("what is replayed is kept");
            guard.told(&Told::from(outcome));
        }
        Ok(Begun::Run(holder)) => {
            guard.runs(&holder);
            let runner = Runner { guard, holder };
            match runner.guard.world.plan.form {
                Form::Leased => Box::pin(runner.run()).await,
                Form::Bridged => Box::pin(bridged::run(runner)).await,
            }
        }
    }
}

/// A run. Its guard is dropped before its holder.
pub(super) struct Runner {
    pub(super) guard: Guard,
    pub(super) holder: Holder,
}

impl Runner {
    async fn run(self) {
        self.guard.pause().await;
        let chance = self.guard.world.chance.clone();
        match chance.below(12) {
            0 => return,
            1 => return self.release().await,
            _ => {}
        }
        if self.holder.ask_first() && self.guard.finds().await {
            return self.complete(200).await;
        }
        if self.holder.start().await.is_err() {
            self.guard.world.trace.note("start refused", &self.guard.ask.number());
            return;
        }
        let reply = self.guard.act(&self.holder).await;
        self.guard.pause().await;
        match (reply, chance.below(10)) {
            (Reply::Refused, 0..6) => self.release().await,
            (Reply::Refused, _) => self.fail().await,
            (Reply::Done, 2..) => self.complete(201).await,
            (_, 0) => resume_unwind(Box::new("the handler panics")),
            (_, 1) => {}
            _ => self.may_have_acted().await,
        }
    }

    async fn complete(self, status: u16) {
        let Self { guard, holder } = self;
        let told = told(status, guard.ask.number());
        guard.ends(Said::Outcome(told.clone()));
        let ended = holder.complete(outcome(&told)).await;
        guard.finished(&told, ended);
    }

    async fn fail(self) {
        let Self { guard, holder } = self;
        let told = told(402, guard.ask.number());
        guard.ends(Said::Outcome(told.clone()));
        let ended = holder.fail(outcome(&told)).await;
        guard.finished(&told, ended);
    }

    async fn release(self) {
        let Self { guard, holder } = self;
        guard.ends(Said::NoEffect);
        match holder.release("no-effect").await {
            Ok(()) => guard.over(),
            Err(error) => guard.failed(&error),
        }
    }

    async fn may_have_acted(self) {
        let Self { guard, holder } = self;
        guard.ends(Said::Perhaps);
        match holder.may_have_acted("reset").await {
            Ok(()) => guard.over(),
            Err(error) => guard.failed(&error),
        }
    }
}

impl Guard {
    /// Works for a while: mostly a moment, sometimes some leases.
    pub(super) async fn pause(&self) {
        let Self { world, .. } = self;
        let most = match world.chance.below(5) {
            0 => world.plan.policy.lease * 2,
            1 => world.plan.policy.lease * 8,
            2 => Duration::from_secs(1),
            _ => return,
        };
        world.time.passes(world.chance.span(most)).await;
    }

    /// Finds out whether an earlier holder acted: whatever it sent has arrived by then, and it sends no
    /// more once its own deadline is over.
    async fn finds(&self) -> bool {
        let Self { world, .. } = self;
        let sends = if world.plan.jumps { world.plan.policy.lease * 2 } else { Duration::ZERO };
        world.time.passes(world.plan.flight * 2 + Duration::from_secs(1) + sends).await;
        let found = world.is_acted_on(&self.id);
        world.trace.note(if found { "asked first: done" } else { "asked first: not done" }, &"");
        found
    }

    /// Sends the effect, at once, and hears of it.
    async fn act(&self, holder: &Holder) -> Reply {
        self.starts();
        let (world, ask, id) = (Arc::clone(&self.world), self.ask, self.id.clone());
        let key = holder.permit().incarnation.into();
        let (acts, reply) = match world.chance.below(12) {
            0 => (true, Reply::Lost),
            1 => (false, Reply::Lost),
            2 | 3 => (false, Reply::Refused),
            _ => (true, Reply::Done),
        };
        let flight = world.plan.flight;
        if flight.is_zero() {
            if acts {
                world.acts(ask, &id, key);
            }
            return reply;
        }
        let (tell, told) = oneshot::channel();
        self.world.outside(async move {
            world.time.passes(world.chance.span(flight)).await;
            if acts {
                world.acts(ask, &id, key);
            }
            world.time.passes(world.chance.span(flight)).await;
            _ = tell.send(reply);
        });
        told.await.unwrap_or(Reply::Lost)
    }
}

/// Asks and runs by the form for plain functions.
async fn run_typed(guard: &Guard, call: Call) {
    let engine = guard.process.engine.clone();
    let kept = told(0, guard.ask.number());
    let value = String::from_utf8_lossy(&kept.body).into_owned();
    let ran = engine
        .run(call, async |holder: &Holder| {
            guard.runs(holder);
            guard.starts();
            guard.pause().await;
            if holder.ask_first() && guard.finds().await {
                guard.ends(Said::Outcome(kept.clone()));
                return Ok(value.clone());
            }
            // The form has started the run already; each further effect asks again.
            if holder.start().await.is_err() {
                guard.ends(Said::NoEffect);
                return Err(Fail::NoEffect(value.clone()));
            }
            let reply = guard.act(holder).await;
            match reply {
                Reply::Done => guard.ends(Said::Outcome(kept.clone())),
                Reply::Lost => guard.ends(Said::Perhaps),
                Reply::Refused => guard.ends(Said::Outcome(kept.clone())),
            }
            match reply {
                Reply::Done => Ok(value.clone()),
                Reply::Lost => Err(Fail::MayHaveActed(value.clone())),
                Reply::Refused => Err(Fail::Final(value.clone())),
            }
        })
        .await;
    guard.ran(ran);
}

impl Guard {
    fn ran(&self, ran: Result<Ran<String>, RunError<String>>) {
        let told = |body: String| {
            let status = body.split('-').next().and_then(|status| status.parse().ok());
            Told { status: status.unwrap_or_default(), body: body.into() }
        };
        match ran {
            Ok(Ran { value, .. }) => self.told(&told(value)),
            Err(RunError::Failed { fail: Fail::Final(body), .. }) => self.told(&told(body)),
            Err(RunError::Failed { .. }) => self.over(),
            Err(RunError::Refused(refusal)) => self.refused(refusal.code()),
            Err(RunError::Engine(error)) => self.failed(&error),
            Err(_) => {}
        }
    }
}
