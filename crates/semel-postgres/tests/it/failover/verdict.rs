//! What was done and told, against what the last primary has.

use std::collections::HashMap;

use semel::{
    Engine, IntentId, Outcome, Store,
    decide::{Resolution, ResolveAsk, Verdict},
};
use semel_postgres::PostgresStore;
use semel_testkit::{
    history::{Broken, Promise, Told},
    servers::Postgres,
};

use super::{callers::Leased, crowd::Crowd};
use crate::words::{actor, token};

/// The rows of each key.
async fn ledger(primary: &Postgres) -> HashMap<String, usize> {
    let rows = primary.run_sql("SELECT key, count(*) FROM ledger GROUP BY key").await;
    let rows = rows.lines().map(|row| row.split_once('|').expect("two columns"));
    rows.map(|(key, count)| (key.to_owned(), count.parse().unwrap())).collect()
}

impl Crowd {
    /// Has the intents resolved of which nobody can say, and asks for them again. Says how many there
    /// were.
    pub(super) async fn resolve_unknown(&self, leased: &Leased, primary: &Postgres) -> usize {
        let unknown = self.take_unknown();
        resolve(&leased.engine, &unknown, primary).await;
        for id in &unknown {
            self.until_definite(leased, id, 0).await;
        }
        assert_eq!(self.take_unknown(), [], "what was resolved is definite");
        unknown.len()
    }
}

/// Says of each unknown intent what the ledger says: an operator's work.
async fn resolve(engine: &Engine, unknown: &[IntentId], primary: &Postgres) {
    let ledger = ledger(primary).await;
    for id in unknown {
        let record = engine.status(id.clone()).await.unwrap().record.unwrap();
        let verdict = match ledger.contains_key(id.key.as_str()) {
            true => Verdict::Done(Outcome::new(201, format!("{} is in the ledger", id.key))),
            false => Verdict::NotDone { new_incarnation: false },
        };
        let ask = ResolveAsk {
            resolve_id: *token().as_bytes(),
            token: record.token,
            fence: record.fence,
            verdict,
            settle_for: std::time::Duration::ZERO,
            force: true,
            replay_for: std::time::Duration::from_secs(3_600),
            remember_for: std::time::Duration::from_secs(7_200),
        };
        let resolved = engine.resolve(id.clone(), ask, actor()).await.unwrap();
        // Its late holder may have said so itself meanwhile.
        let said = !matches!(resolved, Resolution::Absent | Resolution::TooEarly(_));
        assert!(said, "{}: {resolved:?}", id.key);
    }
}

/// Says what is wrong: every intent has one row, and every answer that was given is replayed byte for
/// byte.
pub(super) async fn broken(crowd: &Crowd, primary: &Postgres) -> Vec<Broken> {
    let ids = crowd.history.ids();
    let ledger = ledger(primary).await;
    for id in &ids {
        let rows = ledger.get(id.key.as_str()).copied().unwrap_or_default();
        crowd.history.effects(id, rows);
    }
    let store = PostgresStore::builder(primary.url()).open().await.unwrap();
    let mut kept = HashMap::new();
    for some in ids.chunks(100) {
        let records = store.read(some.to_vec()).await.unwrap().records;
        let outcomes = records.into_iter().map(|record| record?.outcome.as_ref().map(Told::from));
        kept.extend(some.iter().cloned().zip(outcomes));
    }
    let replay = |id: &IntentId| kept.get(id).cloned().flatten();
    crowd.history.check(Promise::ExactlyOnce, replay)
}
