//! A consumer with a table of effects in the same database, and short ways to use it.

use std::sync::Arc;

use bytes::Bytes;
use semel::inbox::{Consumer, Delivery, InboxPolicy, MessageId, Receipt, SourceName};
use semel_postgres::{
    PostgresStore,
    inbox::{Finished, Handling, Inbox, Ran, RunError},
    transact::{Lent, Started},
};
use semel_testkit::servers::Major;
use tokio_postgres::{Client, Error, GenericClient};

use crate::fixture::Fixture;

pub(crate) struct Desk {
    pub(crate) fixture: Fixture,
    pub(crate) store: PostgresStore,
    pub(crate) inbox: Inbox,
}

pub(crate) fn consumer() -> Consumer {
    Consumer::new("billing").unwrap()
}

pub(crate) fn policy() -> InboxPolicy {
    InboxPolicy::new(consumer())
}

pub(crate) fn message(id: &str) -> MessageId {
    MessageId::new(SourceName::new("queue:orders").unwrap(), id).unwrap()
}

/// A copy of a message whose payload is its id.
pub(crate) fn delivery(id: &str) -> Delivery {
    telling(id, id)
}

pub(crate) fn telling(id: &str, payload: &str) -> Delivery {
    Delivery::new(message(id), Receipt(1), Some(Bytes::copy_from_slice(payload.as_bytes())))
}

impl Desk {
    pub(crate) async fn new(major: Major) -> Self {
        Self::with(major, policy()).await
    }

    pub(crate) async fn with(major: Major, policy: InboxPolicy) -> Self {
        let fixture = Fixture::new(major).await;
        let table = fixture.sql("CREATE TABLE semel.effect (message text NOT NULL, who text)");
        fixture.connect().await.batch_execute(&table).await.unwrap();
        let store = fixture.open().await;
        let inbox = store.inbox(Arc::new(policy)).unwrap();
        Self { fixture, store, inbox }
    }

    /// Has an effect inside a transaction.
    pub(crate) async fn act(&self, client: &impl GenericClient, id: &str) -> Result<(), Error> {
        let insert = self.fixture.sql("INSERT INTO semel.effect VALUES ($1)");
        client.execute(&*insert, &[&id]).await.map(drop)
    }

    /// Handles a delivery in a transaction of its own.
    pub(crate) async fn handle<L: Lent>(
        &self,
        client: L,
        delivery: &Delivery,
        answer: Option<&'static str>,
    ) -> Result<Ran<()>, RunError<Error>> {
        let work = async |handling: Handling<Started<L>>| -> Result<Finished<_, ()>, Error> {
            self.act(&*handling, handling.message().id()).await?;
            Ok(handling.finish(answer.map(|answer| Bytes::from_static(answer.as_bytes())), ()))
        };
        self.inbox.run(client, delivery, work).await
    }

    /// How many effects are committed of a message, or of all.
    pub(crate) async fn effects(&self, id: Option<&str>) -> i64 {
        let count = "SELECT count(*) FROM semel.effect WHERE message = $1 OR $1 IS NULL";
        let client = self.fixture.connect().await;
        client.query_one(&*self.fixture.sql(count), &[&id]).await.unwrap().get(0)
    }

    /// The one number that a query returns, on a connection of its own.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        let client = self.fixture.connect().await;
        client.query_one(&*self.fixture.sql(query), &[]).await.unwrap().get(0)
    }

    pub(crate) async fn connect(&self) -> Client {
        self.fixture.connect().await
    }
}

#[track_caller]
pub(crate) fn is_first<V>(ran: &Ran<V>) -> bool {
    matches!(ran, Ran::First(..))
}
