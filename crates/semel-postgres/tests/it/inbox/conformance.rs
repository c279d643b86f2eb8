//! What every inbox promises, stamped into this one.

use std::sync::Arc;

use async_trait::async_trait;
use semel::inbox::{Delivery, Failed, Handled, InboxPolicy};
use semel_postgres::{PostgresBuilder, PostgresStore};
use semel_testkit::{
    FreshInbox, InboxUnderTest, Work, Worker,
    conformance::{Later, MoveTime, inbox::effect},
    servers::Major,
};
use tokio_postgres::{Error, GenericClient};

use crate::{
    fixture::{Fixture, major_of_way},
    transact::pool::Pool,
};

/// More than any promise needs at once.
const CONNECTIONS: usize = 50;

/// Has effects in the same schema, by a pool of tokio-postgres.
struct Billing {
    fixture: Fixture,
    store: Arc<PostgresStore>,
    pool: Pool,
    insert: String,
}

impl Billing {
    async fn act(
        &self,
        client: &impl GenericClient,
        delivery: &Delivery,
        work: &Work,
    ) -> Result<(), Error> {
        client.execute(&*self.insert, &[&effect(&delivery.message)]).await?;
        match work.fails {
            true => client.batch_execute("SELECT 1 / 0").await,
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Worker for Billing {
    async fn handle(
        &self,
        policy: InboxPolicy,
        delivery: Delivery,
        work: Work,
    ) -> Result<Handled, Failed> {
        let inbox = self.store.inbox(Arc::new(policy))?;
        let (sent, work) = (&delivery, &work);
        let ran = inbox.run_on(&self.pool, sent, async |mut handling| {
            self.act(&*handling, sent, work).await?;
            for event in &work.events {
                handling.publish(event.clone()).unwrap();
            }
            Ok::<_, Error>(handling.finish(work.answer.clone(), ()))
        });
        Ok(ran.await?.into())
    }

    async fn batch(
        &self,
        policy: InboxPolicy,
        deliveries: Vec<Delivery>,
        work: Vec<Work>,
    ) -> Result<Vec<Handled>, Failed> {
        let inbox = self.store.inbox(Arc::new(policy))?;
        let (sent, work) = (&deliveries, &work);
        let ran = inbox.run_all_on(&self.pool, sent, async |mut batch| {
            for at in batch.new_ones() {
                self.act(&*batch, &sent[at], &work[at]).await?;
                for event in &work[at].events {
                    batch.publish(at, event.clone()).unwrap();
                }
                if let Some(answer) = work[at].answer.clone() {
                    batch.answer(at, answer).unwrap();
                }
            }
            Ok::<_, Error>(batch.finish())
        });
        Ok(ran.await?)
    }

    async fn effects(&self) -> Vec<String> {
        let select = self.fixture.sql("SELECT message FROM semel.effect");
        let rows = self.fixture.connect().await.query(&*select, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

/// Opens the inbox of a schema; `builder` says how.
async fn on(fixture: Fixture, builder: PostgresBuilder, time: Arc<dyn MoveTime>) -> FreshInbox {
    let store = Arc::new(builder.open().await.unwrap());
    let pool = Pool::new(&fixture.url, CONNECTIONS);
    let insert = fixture.sql("INSERT INTO semel.effect VALUES ($1)");
    let worker = Billing { fixture, store: Arc::clone(&store), pool, insert };
    FreshInbox::new(store.clone(), Arc::new(worker), time)
        .with_outbox(store.clone())
        .with_hints(store)
}

/// Makes an empty inbox in a schema; `set` chooses how it is opened.
async fn fresh(fixture: Fixture, set: fn(PostgresBuilder) -> PostgresBuilder) -> FreshInbox {
    let time: Arc<dyn MoveTime> = fixture.moved_time().await;
    let table = fixture.sql("CREATE TABLE semel.effect (message text NOT NULL)");
    fixture.connect().await.batch_execute(&table).await.unwrap();
    let builder = set(fixture.builder());
    let fresh = on(fixture.clone(), builder.clone(), Arc::clone(&time)).await;
    fresh.with_reopen(move || -> Later<FreshInbox> {
        Box::pin(on(fixture.clone(), builder.clone(), Arc::clone(&time)))
    })
}

macro_rules! on {
    ($($way:ident: $fixture:expr, $major:expr, $set:expr;)*) => {
        $(mod $way {
            use super::*;

            struct Inbox;

            #[async_trait]
            impl InboxUnderTest for Inbox {
                async fn fresh() -> FreshInbox {
                    fresh($fixture(major_of_way($major)).await, $set).await
                }
            }

            semel_testkit::inbox_conformance!(Inbox);
        })*
    };
}

on! {
    pooled: Fixture::pooled, Major::V15, |builder| builder.connections(1);
    serializable: Fixture::serializable, Major::V18, |builder| builder.prepared(true);
}
