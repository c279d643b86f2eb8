//! A run whose application ends it in a transaction of its own, on a machine of its own.

use std::{sync::Arc, time::Duration};

use semel::{
    IntentId, Permit,
    decide::{Finish, FinishKind},
    engine::{Otherwise, Settled},
    store::Completed,
};
use tokio::sync::oneshot;

use super::{
    guard::Guard,
    handler::{Runner, outcome, told},
    world::World,
};
use crate::history::{Ask, Said, Told};

/// What the application answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Answer {
    Done,
    Failed,
    Lost,
    Refused,
}

/// Runs what was granted: asks the application, and ends the run by what it answered.
pub(super) async fn run(runner: Runner) {
    let Runner { guard, holder } = runner;
    let chance = guard.world.chance.clone();
    if chance.one_in(12) {
        drop(guard);
        return;
    }
    guard.pause().await;
    if holder.start().await.is_err() {
        guard.world.trace.note("start refused", &guard.ask.number());
        drop(guard);
        return;
    }
    guard.starts();
    let answer = guard.calls(holder.permit().clone()).await;
    guard.pause().await;
    let refusal = told(402, guard.ask.number());
    let otherwise = match (answer, chance.below(4)) {
        (Answer::Done, _) => Otherwise::Breach,
        (Answer::Refused, _) => Otherwise::Fail(outcome(&refusal)),
        (_, 0) => Otherwise::Doubt,
        _ => Otherwise::Release,
    };
    // What the application has said before holds, and this will find it.
    guard.says(&otherwise, &refusal);
    let settled = holder.settle(otherwise.clone(), "settled").await;
    match settled {
        Ok(Settled::Ended(record)) => match &record.outcome {
            Some(outcome) => guard.told(&Told::from(outcome)),
            None => guard.over(),
        },
        Ok(Settled::Otherwise) if matches!(otherwise, Otherwise::Fail(_)) => guard.told(&refusal),
        Ok(Settled::GivenBack | Settled::Otherwise) => {
            if otherwise == Otherwise::Breach {
                guard.world.trace.note("bridge: breach", &guard.ask.number());
            }
            guard.over();
        }
        Err(error) => guard.failed(&error),
    }
}

impl Guard {
    fn says(&self, otherwise: &Otherwise, refusal: &Told) {
        if self.world.has_acted(self.ask) {
            return;
        }
        self.ends(match otherwise {
            Otherwise::Breach | Otherwise::Doubt => Said::Perhaps,
            Otherwise::Fail(_) => Said::Outcome(refusal.clone()),
            Otherwise::Release => Said::NoEffect,
        });
    }

    /// Calls the application, and hears its answer.
    async fn calls(&self, permit: Permit) -> Answer {
        let application =
            Application { world: Arc::clone(&self.world), ask: self.ask, id: self.id.clone() };
        let (tell, told) = oneshot::channel();
        self.world.outside(async move {
            let answer = application.serves(permit).await;
            _ = tell.send(answer);
        });
        let patience = self.world.chance.span(Duration::from_secs(30));
        tokio::select! {
            biased;
            answer = told => answer.unwrap_or(Answer::Lost),
            () = self.world.time.passes(patience) => Answer::Lost,
        }
    }
}

struct Application {
    world: Arc<World>,
    ask: Ask,
    id: IntentId,
}

impl Application {
    async fn serves(&self, permit: Permit) -> Answer {
        let Self { world, id, .. } = self;
        let chance = &world.chance;
        world.time.passes(chance.span(world.plan.flight)).await;
        if chance.one_in(20) {
            // Against the contract.
            return Answer::Done;
        }
        if !world.server.locks(id) {
            return Answer::Failed;
        }
        let works = chance.pick(&[Duration::from_secs(1), world.plan.policy.lease * 2]);
        world.time.passes(chance.span(works)).await;
        let answer = match chance.below(8) {
            0 => Answer::Failed,
            1 => Answer::Refused,
            _ => self.commits(permit).await,
        };
        world.server.unlocks(id);
        world.time.passes(chance.span(world.plan.flight)).await;
        if chance.one_in(8) { Answer::Lost } else { answer }
    }

    /// Completes and commits: the effect is there if and only if the permit had not ended.
    async fn commits(&self, permit: Permit) -> Answer {
        let Self { world, ask, id } = self;
        let (told, policy) = (told(201, ask.number()), &world.plan.policy);
        let mut finish = Finish {
            kind: FinishKind::Done,
            outcome: Some(outcome(&told)),
            reason: None,
            replay_for: policy.replay_for,
            remember_for: policy.remember_for,
        };
        match world.server.completes(permit, &mut finish).await {
            Ok(Completed::Stored) => {
                world.trace.note("bridge: committed", &ask.number());
                world.history.ends(*ask, Said::Outcome(told), world.now());
                world.acts(*ask, id, 0);
                Answer::Done
            }
            _ => {
                world.trace.note("bridge: rolled back", &ask.number());
                Answer::Failed
            }
        }
    }
}
