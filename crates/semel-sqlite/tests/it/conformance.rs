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
