//! What every store promises, stamped into this one.

use std::{path::PathBuf, sync::Arc};

use semel::Store;
use semel_sqlite::SqliteStore;
use semel_testkit::{Fresh, ManualClock, StoreUnderTest, conformance::Later};

use crate::bench::Bench;

struct Sqlite;

fn open(path: PathBuf, clock: &Arc<ManualClock>) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::builder(path).clock(clock.clone()).open().unwrap())
}

#[async_trait::async_trait]
impl StoreUnderTest for Sqlite {
    async fn fresh() -> Fresh {
        let bench = Bench::new();
        let clock = ManualClock::new();
        let again = {
            let (path, clock) = (bench.path(), Arc::clone(&clock));
            move || -> Later<Arc<dyn Store>> {
                let store: Arc<dyn Store> = open(path.clone(), &clock);
                Box::pin(async move { store })
            }
        };
        let store = open(bench.path(), &clock);
        Fresh::new(store.clone(), store.clone(), clock)
            .with_move(store.clone())
            .with_sweep(store)
            .with_second(again.clone())
            .with_reopen(again)
            .with_guard(bench)
    }
}

semel_testkit::conformance!(Sqlite);

mod outbox {
    //! What every outbox promises, stamped into this one.

    use std::{error, path::PathBuf, sync::Arc};

    use rusqlite::Connection;
    use semel::outbox::{Event, OutboxStore};
    use semel_sqlite::transact::Transact;
    use semel_testkit::{
        FreshOutbox, ManualClock, OutboxUnderTest, Producer, Producing, conformance::Later,
    };

    use super::open;
    use crate::bench::Bench;

    struct Sqlite;

    #[async_trait::async_trait]
    impl OutboxUnderTest for Sqlite {
        async fn fresh() -> FreshOutbox {
            let (bench, clock) = (Bench::new(), ManualClock::new());
            let path = bench.path();
            let again = {
                let (path, clock) = (path.clone(), Arc::clone(&clock));
                move || -> Later<Arc<dyn OutboxStore>> {
                    let store: Arc<dyn OutboxStore> = open(path.clone(), &clock);
                    Box::pin(async move { store })
                }
            };
            let store = open(path.clone(), &clock);
            let writes = {
                let conn = std::sync::Mutex::new(Connection::open(&path).unwrap());
                move || -> Later<u64> {
                    let conn = conn.lock().unwrap();
                    let read = conn.query_row("PRAGMA data_version", [], |row| row.get(0));
                    let version: i64 = read.unwrap();
                    Box::pin(async move { u64::try_from(version).unwrap() })
                }
            };
            let producer = Arc::new(Shop { path, transact: store.transact() });
            FreshOutbox::new(store.clone(), store.clone(), producer, clock)
                .with_hints(store.clone())
                .with_retain(store)
                .with_writes(writes)
                .with_second(again.clone())
                .with_reopen(again)
                .with_guard(bench)
        }
    }

    struct Shop {
        path: PathBuf,
        transact: Transact,
    }

    #[async_trait::async_trait]
    impl Producer for Shop {
        async fn begin(&self) -> Box<dyn Producing> {
            let conn = Connection::open(&self.path).unwrap();
            loop {
                // Whoever waits for another transaction leaves the thread to it.
                conn.busy_timeout(std::time::Duration::ZERO).unwrap();
                if conn.execute_batch("BEGIN IMMEDIATE").is_ok() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            Box::new(Open { conn, transact: self.transact.clone() })
        }
    }

    struct Open {
        conn: Connection,
        transact: Transact,
    }

    #[async_trait::async_trait]
    impl Producing for Open {
        async fn append(
            &mut self,
            events: Vec<Event>,
        ) -> Result<(), Box<dyn error::Error + Send + Sync>> {
            Ok(self.transact.publish(&self.conn, &events)?)
        }

        async fn commit(self: Box<Self>) {
            self.conn.execute_batch("COMMIT").unwrap();
        }

        async fn roll_back(self: Box<Self>) {
            self.conn.execute_batch("ROLLBACK").unwrap();
        }
    }

    semel_testkit::outbox_conformance!(Sqlite);
}

mod inbox {
    //! What every inbox promises, stamped into this one.

    use std::{
        path::{Path, PathBuf},
        sync::Arc,
        time::Duration,
    };

    use async_trait::async_trait;
    use rusqlite::Connection;
    use semel::inbox::{Delivery, Failed, Handled, InboxPolicy};
    use semel_sqlite::SqliteStore;
    use semel_testkit::{
        FreshInbox, InboxUnderTest, ManualClock, Work, Worker,
        conformance::{Later, inbox::effect},
    };

    use super::open;
    use crate::bench::Bench;

    struct Sqlite;

    #[async_trait]
    impl InboxUnderTest for Sqlite {
        async fn fresh() -> FreshInbox {
            let (bench, clock) = (Bench::new(), ManualClock::new());
            let path = bench.path();
            let fresh = on(&path, &clock).with_guard(bench);
            let made = "CREATE TABLE effect (message TEXT NOT NULL) STRICT";
            connect(&path).execute_batch(made).unwrap();
            fresh.with_reopen(move || -> Later<FreshInbox> {
                let fresh = on(&path, &clock);
                Box::pin(async move { fresh })
            })
        }
    }

    fn on(path: &Path, clock: &Arc<ManualClock>) -> FreshInbox {
        let store = open(path.to_owned(), clock);
        let worker = Billing { path: path.to_owned(), store: Arc::clone(&store) };
        FreshInbox::new(store.clone(), Arc::new(worker), clock.clone())
            .with_outbox(store.clone())
            .with_hints(store)
    }

    fn connect(path: &Path) -> Connection {
        let conn = Connection::open(path).unwrap();
        conn.busy_timeout(Duration::from_secs(60)).unwrap();
        conn
    }

    struct Billing {
        path: PathBuf,
        store: Arc<SqliteStore>,
    }

    fn act(conn: &Connection, delivery: &Delivery, work: &Work) -> rusqlite::Result<()> {
        conn.execute("INSERT INTO effect VALUES (?1)", [effect(&delivery.message)])?;
        match work.fails {
            true => conn.execute_batch("INSERT INTO missing VALUES (1)"),
            false => Ok(()),
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
            let path = self.path.clone();
            let ran = tokio::task::spawn_blocking(move || {
                inbox.run(&mut connect(&path), &delivery, |handling| {
                    act(handling, &delivery, &work)?;
                    for event in &work.events {
                        handling.publish(event.clone()).unwrap();
                    }
                    Ok::<_, rusqlite::Error>((work.answer.clone(), ()))
                })
            });
            Ok(ran.await.unwrap()?.into())
        }

        async fn batch(
            &self,
            policy: InboxPolicy,
            deliveries: Vec<Delivery>,
            work: Vec<Work>,
        ) -> Result<Vec<Handled>, Failed> {
            let inbox = self.store.inbox(Arc::new(policy))?;
            let path = self.path.clone();
            let ran = tokio::task::spawn_blocking(move || {
                inbox.run_all(&mut connect(&path), &deliveries, |batch| {
                    for at in batch.new_ones() {
                        act(batch, &deliveries[at], &work[at])?;
                        for event in &work[at].events {
                            batch.publish(at, event.clone()).unwrap();
                        }
                        if let Some(answer) = work[at].answer.clone() {
                            batch.answer(at, answer).unwrap();
                        }
                    }
                    Ok::<_, rusqlite::Error>(())
                })
            });
            Ok(ran.await.unwrap()?)
        }

        async fn effects(&self) -> Vec<String> {
            let conn = connect(&self.path);
            let mut effects = conn.prepare("SELECT message FROM effect").unwrap();
            effects.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        }
    }

    semel_testkit::inbox_conformance!(Sqlite);
}
