//! The reference store keeps every promise of the suite.

use std::sync::Arc;

use semel::{Store, store::memory::MemoryStore};
use semel_testkit::{Fresh, ManualClock, StoreUnderTest};

/// The reference store. What another handle opens is another store: its records are its own, and
/// gone with it.
struct Memory;

#[async_trait::async_trait]
impl StoreUnderTest for Memory {
    async fn fresh() -> Fresh {
        let clock = ManualClock::new();
        let open = {
            let clock = Arc::clone(&clock);
            move || -> semel_testkit::conformance::Later<Arc<dyn Store>> {
                let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(clock.clone()));
                Box::pin(async move { store })
            }
        };
        let store = Arc::new(MemoryStore::with_clock(clock.clone()));
        Fresh::new(store.clone(), store.clone(), clock)
            .with_bridge(store.clone())
            .with_move(store.clone())
            .with_notify(store.clone())
            .with_sweep(store)
            .with_second(open.clone())
            .with_reopen(open)
    }
}

semel_testkit::conformance!(Memory);
