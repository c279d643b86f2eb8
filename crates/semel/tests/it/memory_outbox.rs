//! The reference outbox keeps every promise of the suite.

use std::{error, sync::Arc};

use semel::outbox::{
    Event,
    memory::{MemoryOutbox, MemoryTransaction},
};
use semel_testkit::{FreshOutbox, ManualClock, OutboxUnderTest, Producer, Producing};

struct Memory;

#[async_trait::async_trait]
impl OutboxUnderTest for Memory {
    async fn fresh() -> FreshOutbox {
        let clock = ManualClock::new();
        let outbox = Arc::new(MemoryOutbox::with_clock(clock.clone()));
        let producer = Arc::new(Begin(outbox.clone()));
        let fresh = FreshOutbox::new(outbox.clone(), outbox.clone(), producer, clock);
        fresh.with_open_at_once().with_hints(outbox.clone()).with_retain(outbox)
    }
}

struct Begin(Arc<MemoryOutbox>);

#[async_trait::async_trait]
impl Producer for Begin {
    async fn begin(&self) -> Box<dyn Producing> {
        Box::new(Open(self.0.begin()))
    }
}

struct Open(MemoryTransaction);

#[async_trait::async_trait]
impl Producing for Open {
    async fn append(
        &mut self,
        events: Vec<Event>,
    ) -> Result<(), Box<dyn error::Error + Send + Sync>> {
        for event in events {
            self.0.append(event)?;
        }
        Ok(())
    }

    async fn commit(self: Box<Self>) {
        self.0.commit().unwrap();
    }

    async fn roll_back(self: Box<Self>) {
        self.0.rollback();
    }
}

semel_testkit::outbox_conformance!(Memory);
