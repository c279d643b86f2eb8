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
