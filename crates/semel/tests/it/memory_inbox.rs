//! The reference inbox keeps every promise of the suite.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use semel::inbox::{Delivery, Failed, Handled, InboxPolicy, memory::MemoryInbox};
use semel_testkit::{
    FreshInbox, InboxUnderTest, ManualClock, Work, Worker, conformance::inbox::effect,
};

struct Memory;

#[async_trait]
impl InboxUnderTest for Memory {
    async fn fresh() -> FreshInbox {
        let clock = ManualClock::new();
        let inbox = Arc::new(MemoryInbox::new(clock.clone()));
        let worker = Billing { inbox: Arc::clone(&inbox), effects: Mutex::default() };
        FreshInbox::new(inbox, Arc::new(worker), clock)
    }
}

struct Billing {
    inbox: Arc<MemoryInbox>,
    effects: Mutex<Vec<String>>,
}

fn done(work: &Work) -> Result<(), Failed> {
    if work.fails { Err(Failed::message("as the promise says")) } else { Ok(()) }
}

#[async_trait]
impl Worker for Billing {
    async fn handle(
        &self,
        policy: InboxPolicy,
        delivery: Delivery,
        work: Work,
    ) -> Result<Handled, Failed> {
        let handled = self.inbox.handle(&policy, &delivery, || {
            done(&work)?;
            Ok(work.answer)
        })?;
        if matches!(handled, Handled::First(_)) {
            self.effects.lock().unwrap().push(effect(&delivery.message));
        }
        Ok(handled)
    }

    async fn batch(
        &self,
        policy: InboxPolicy,
        deliveries: Vec<Delivery>,
        work: Vec<Work>,
    ) -> Result<Vec<Handled>, Failed> {
        let mut effects = Vec::new();
        let handled = self.inbox.batch(&policy, &deliveries, |new| {
            let mut answers = BTreeMap::new();
            for at in new {
                done(&work[*at])?;
                effects.push(effect(&deliveries[*at].message));
                answers.extend(work[*at].answer.clone().map(|answer| (*at, answer)));
            }
            Ok(answers)
        })?;
        self.effects.lock().unwrap().extend(effects);
        Ok(handled)
    }

    async fn effects(&self) -> Vec<String> {
        self.effects.lock().unwrap().clone()
    }
}

semel_testkit::inbox_conformance!(Memory);
