//! What every outbox promises, stamped into this one in every way to a server.

use std::{error::Error, sync::Arc};

use async_trait::async_trait;
use semel::outbox::{Event, OutboxStore};
use semel_postgres::{
    PostgresBuilder,
    transact::{Guard, Started, Transact},
};
use semel_testkit::{
    conformance::{
        Later,
        outbox::{FreshOutbox, OutboxUnderTest, Producer, Producing},
    },
    servers::Major,
};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Client;

use crate::{
    fixture::{Fixture, major_of_way},
    transact::shop::{call, paid},
};

/// Begins transactions by tokio-postgres.
struct Applications {
    fixture: Fixture,
    transact: Transact,
}

type Word = (Ask, oneshot::Sender<Result<(), String>>);

enum Ask {
    Append(Vec<Event>),
    Commit,
    RollBack,
}

/// A transaction in a task of its own, which owns the connection that it borrows.
struct Application(mpsc::UnboundedSender<Word>);

#[async_trait]
impl Producer for Applications {
    async fn begin(&self) -> Box<dyn Producing> {
        let (words, heard) = mpsc::unbounded_channel();
        let (begun, begins) = oneshot::channel();
        let client = self.fixture.connect().await;
        tokio::spawn(application(client, self.transact.clone(), heard, begun));
        begins.await.unwrap();
        Box::new(Application(words))
    }
}

async fn application(
    mut client: Client,
    transact: Transact,
    mut heard: mpsc::UnboundedReceiver<Word>,
    begun: oneshot::Sender<()>,
) {
    let mut tx = client.transaction().await.unwrap();
    begun.send(()).unwrap();
    while let Some((ask, answer)) = heard.recv().await {
        match ask {
            Ask::Append(events) => {
                let said = transact.publish(&mut tx, events).await;
                drop(answer.send(said.map_err(|error| error.to_string())));
            }
            Ask::Commit => {
                let said = tx.commit().await.map_err(|error| error.to_string());
                drop(answer.send(said));
                return;
            }
            Ask::RollBack => {
                let said = tx.rollback().await.map_err(|error| error.to_string());
                drop(answer.send(said));
                return;
            }
        }
    }
}

impl Application {
    async fn say(&self, ask: Ask) -> Result<(), String> {
        let (answer, said) = oneshot::channel();
        self.0.send((ask, answer)).map_err(|_| "the transaction is over".to_owned())?;
        said.await.map_err(|error| error.to_string())?
    }
}

#[async_trait]
impl Producing for Application {
    async fn append(&mut self, events: Vec<Event>) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(self.say(Ask::Append(events)).await?)
    }

    async fn commit(self: Box<Self>) {
        self.say(Ask::Commit).await.unwrap();
    }

    async fn roll_back(self: Box<Self>) {
        self.say(Ask::RollBack).await.unwrap();
    }
}

/// Publishes by a run: the store hears of its commit, and of no other.
async fn run(fixture: Fixture, transact: Transact, event: Event) {
    let mut client = fixture.connect().await;
    let intent = call(&event.id.to_string());
    let ran = transact.run(&mut client, &intent, async |mut guard: Guard<Started<_>>| {
        guard.publish(event.clone()).unwrap();
        Ok::<_, tokio_postgres::Error>(guard.done(paid(), ()))
    });
    drop(ran.await.unwrap());
}

/// Makes an empty outbox in a schema; `set` chooses how it is opened.
async fn fresh(fixture: Fixture, set: fn(PostgresBuilder) -> PostgresBuilder) -> FreshOutbox {
    let time = fixture.moved_time().await;
    let builder = set(fixture.builder());
    let again = {
        let builder = builder.clone();
        move || -> Later<Arc<dyn OutboxStore>> {
            let opened = builder.clone().open();
            Box::pin(async move {
                let store: Arc<dyn OutboxStore> = Arc::new(opened.await.unwrap());
                store
            })
        }
    };
    let store = Arc::new(builder.open().await.unwrap());
    let (other, transact) = (fixture.clone(), store.transact());
    let hinted =
        move |event| -> Later<()> { Box::pin(run(other.clone(), transact.clone(), event)) };
    let producer = Applications { fixture: fixture.clone(), transact: store.transact() };
    // What a relay writes is a row of the cursor each, and copies of what it parks.
    let writes = move || -> Later<u64> {
        let fixture = fixture.clone();
        Box::pin(async move {
            let rows = "SELECT coalesce(sum(seq), 0)::bigint FROM semel.outbox_lasts()";
            let row = fixture.connect().await.query_one(&fixture.sql(rows), &[]).await.unwrap();
            u64::try_from(row.get::<_, i64>(0)).unwrap()
        })
    };
    FreshOutbox::new(store.clone(), store.clone(), Arc::new(producer), time)
        .with_open_at_once()
        .with_hints_of(store.clone(), hinted)
        .with_retain(store)
        .with_writes(writes)
        .with_second(again.clone())
        .with_reopen(again)
}

macro_rules! on {
    ($($way:ident: $fixture:expr, $major:expr, $set:expr;)*) => {
        $(mod $way {
            use super::*;

            struct Outbox;

            #[async_trait]
            impl OutboxUnderTest for Outbox {
                async fn fresh() -> FreshOutbox {
                    fresh($fixture(major_of_way($major)).await, $set).await
                }
            }

            semel_testkit::outbox_conformance!(Outbox);
        })*
    };
}

on! {
    plain: Fixture::new, Major::V15, |builder| builder;
    pooled: Fixture::pooled, Major::V17, |builder| builder;
    serializable: Fixture::serializable, Major::V17, |builder| builder;
    single: Fixture::new, Major::V18, |builder| builder.connections(1).prepared(true);
}
