//! Any values in any columns of what an inbox keeps, as somebody might put them there: every verb answers or says that
//! the store is damaged, no message has a second effect, and no other message is harmed.
//!
//! Again and again: a column, a type, a length and the value's bytes.

use std::{cell::RefCell, sync::Arc, time::Duration};

use rusqlite::Connection;
use semel::{
    StoreError,
    inbox::{
        Consumer, Delivery, Handled, InboxInspect, InboxPolicy, InboxStore, InboxSweep, LogId,
        Mark, MessageId, MessageState, Mismatch, Park, ParkedFilter, Position, Receipt, SourceName,
        Uncount,
    },
    store::Actor,
};
use semel_sqlite::{
    SqliteStore,
    inbox::{Inbox, RunError},
};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::{
    kept::{folder, loosen, sound, tamper},
    runtime,
};

const NOT_GOOD: &str = "message_id IS NOT 'good' AND message_id IS NOT 'good parked'";
const PLACES: [(&str, &str, &str); 36] = [
    ("semel_inbox", "consumer", NOT_GOOD),
    ("semel_inbox", "source", NOT_GOOD),
    ("semel_inbox", "message_id", NOT_GOOD),
    ("semel_inbox", "fingerprint", NOT_GOOD),
    ("semel_inbox", "standing", NOT_GOOD),
    ("semel_inbox", "received_at_us", NOT_GOOD),
    ("semel_inbox", "remember_until_us", NOT_GOOD),
    ("semel_inbox", "events", NOT_GOOD),
    ("semel_inbox", "answer", NOT_GOOD),
    ("semel_inbox_attempt", "consumer", NOT_GOOD),
    ("semel_inbox_attempt", "message_id", NOT_GOOD),
    ("semel_inbox_attempt", "count", NOT_GOOD),
    ("semel_inbox_attempt", "first_at_us", NOT_GOOD),
    ("semel_inbox_attempt", "last_at_us", NOT_GOOD),
    ("semel_inbox_parked", "consumer", NOT_GOOD),
    ("semel_inbox_parked", "source", NOT_GOOD),
    ("semel_inbox_parked", "message_id", NOT_GOOD),
    ("semel_inbox_parked", "state", NOT_GOOD),
    ("semel_inbox_parked", "attempts", NOT_GOOD),
    ("semel_inbox_parked", "why", NOT_GOOD),
    ("semel_inbox_parked", "parked_at_us", NOT_GOOD),
    ("semel_inbox_parked", "log", NOT_GOOD),
    ("semel_inbox_parked", "log_offset", NOT_GOOD),
    ("semel_inbox_parked", "sent_at_us", NOT_GOOD),
    ("semel_inbox_parked", "\"key\"", NOT_GOOD),
    ("semel_inbox_parked", "payload", NOT_GOOD),
    ("semel_inbox_header", "place", OF_BAD),
    ("semel_inbox_header", "name", OF_BAD),
    ("semel_inbox_header", "value", OF_BAD),
    ("semel_inbox_position", "consumer", "log IS NOT 'good'"),
    ("semel_inbox_position", "log", "log IS NOT 'good'"),
    ("semel_inbox_position", "next", "log IS NOT 'good'"),
    ("semel_inbox_position", "moved_at_us", "log IS NOT 'good'"),
    ("semel_inbox_audit", "kind", "true"),
    ("semel_inbox_audit", "message_id", "true"),
    ("semel_inbox_audit", "at_us", "true"),
];
const OF_BAD: &str =
    "parked IN (SELECT row_id FROM semel_inbox_parked WHERE message_id IS NOT 'good parked')";
const PATIENCE: Duration = Duration::from_secs(5);

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    thread_local! {
        static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
    }
    runtime(async {
        let mut kept = match KEPT.take() {
            Some(kept) => kept,
            None => Kept::new().await,
        };
        timeout(PATIENCE, kept.check(data)).await.expect("every verb ends");
        KEPT.set(Some(kept));
    });
}

struct Kept {
    store: SqliteStore,
    inbox: Inbox,
    /// The consumer's connection.
    conn: Connection,
    other: Connection,
    good: [MessageState; 2],
    _folder: TempDir,
}

impl Kept {
    async fn new() -> Self {
        let folder = folder();
        let path = folder.path().join("semel.db");
        drop(SqliteStore::builder(&path).open().expect("a new file"));
        let other = Connection::open(&path).expect("the file");
        loosen(&other);
        other.execute_batch("CREATE TABLE effect (message TEXT)").expect("a table");
        let store = SqliteStore::builder(&path).open().expect("the same file");
        let inbox = store.inbox(Arc::new(InboxPolicy::new(consumer()))).expect("an inbox");
        let conn = Connection::open(&path).expect("the file");
        let good = [MessageState::default(), MessageState::default()];
        let mut kept = Self { store, inbox, conn, other, good, _folder: folder };
        kept.handle(&delivery("good")).expect("it is new");
        kept.store.park(park("good parked")).await.expect("it is parked");
        kept.good = kept.goods().await;
        kept
    }

    /// What is known of the messages that nobody touches.
    async fn goods(&self) -> [MessageState; 2] {
        let state = async |id| self.store.message(consumer(), message(id)).await.expect("unharmed");
        [state("good").await, state("good parked").await]
    }

    async fn check(&mut self, changes: &[u8]) {
        self.begin().await;
        tamper(&self.other, &PLACES, changes);
        self.every_verb().await;
        // Positions of another log, and messages that nobody touched, are what they were.
        let next = self.store.positions(consumer(), vec![log("good")]).await.expect("unharmed");
        assert_eq!((next, self.goods().await), (vec![Some(8)], self.good.clone()));
        let again = self.handle(&delivery("good")).expect("unharmed");
        assert_eq!(again, Handled::Duplicate(self.good[0].recorded.clone()));
    }

    /// Makes a message of each kind, and forgets those of before.
    async fn begin(&mut self) {
        let gone = format!(
            "DELETE FROM effect; DELETE FROM semel_inbox WHERE {NOT_GOOD};
            DELETE FROM semel_inbox_parked WHERE {NOT_GOOD}; DELETE FROM semel_inbox_attempt;
            DELETE FROM semel_inbox_position; DELETE FROM semel_inbox_audit;
            INSERT INTO semel_inbox_position VALUES ('c', 'good', 8, 0), ('c', 'bad', 8, 0);"
        );
        self.other.execute_batch(&gone).expect("rows");
        self.handle(&delivery("bad")).expect("it is new");
        self.store.park(park("bad parked")).await.expect("it is parked");
        self.store.count(consumer(), vec![message("counted")]).await.expect("it is counted");
        let retry = self.store.mark(consumer(), message("bad parked"), Mark::Retry, actor());
        assert!(retry.await.expect("it is parked"));
    }

    fn handle(&mut self, delivery: &Delivery) -> Result<Handled, StoreError> {
        let ran = self.inbox.run(&mut self.conn, delivery, |handling| {
            handling.execute("INSERT INTO effect VALUES (?1)", [delivery.message.id()])?;
            Ok::<_, rusqlite::Error>((Some("paid".into()), ()))
        });
        match ran {
            Ok(ran) => Ok(ran.into()),
            Err(RunError::Store(error)) => Err(error),
            Err(error) => panic!("nothing of it was tampered with: {error}"),
        }
    }

    async fn every_verb(&mut self) {
        let names = || vec![message("bad"), message("bad parked"), message("counted")];
        sound(self.store.attempts(consumer(), names()).await);
        sound(self.store.count(consumer(), names()).await);
        if let Some(due) = sound(self.store.due(consumer(), 10).await) {
            for parked in due {
                // Whoever is run again has one effect.
                for _ in 0..2 {
                    sound(self.handle(&parked.delivery()));
                }
            }
        }
        for id in ["bad", "bad parked", "counted"] {
            sound(self.handle(&delivery(id)));
            sound(self.handle(&delivery(id)));
            sound(self.store.park(park(id)).await);
            sound(self.store.message(consumer(), message(id)).await);
            sound(self.store.chain(id.into()).await);
            for mark in [Mark::Skip, Mark::Retry, Mark::Drop] {
                sound(self.store.mark(consumer(), message(id), mark, actor()).await);
            }
        }
        self.once_each();
        sound(self.store.positions(consumer(), vec![log("bad")]).await);
        sound(self.store.consumers().await);
        sound(self.store.had(consumer(), None, 10).await);
        sound(self.store.parked(ParkedFilter { limit: 10, ..ParkedFilter::default() }).await);
        let digest = delivery("bad").fingerprint();
        let (consumer, message) = (consumer(), message("bad"));
        let report =
            Mismatch { consumer: consumer.clone(), message, recorded: digest, came: digest };
        sound(self.store.report(report).await);
        sound(self.store.inbox_audit(Some(consumer.clone()), 10).await);
        sound(self.store.uncount(consumer.clone(), names(), Uncount::GivenBack).await);
        sound(self.store.uncount(consumer, names(), Uncount::Ended).await);
        sound(self.store.sweep_inbox(10).await);
    }

    /// No message has two effects, but one whose name somebody took away.
    fn once_each(&self) {
        let twice = "SELECT count(*) FROM (
            SELECT message FROM effect GROUP BY message HAVING count(*) > 2
        )";
        let twice: u32 = self.other.query_row(twice, [], |row| row.get(0)).expect("a count");
        assert_eq!(twice, 0);
    }
}

fn consumer() -> Consumer {
    Consumer::new("c").expect("a consumer")
}

fn message(id: &str) -> MessageId {
    MessageId::new(SourceName::new("s").expect("a source"), id).expect("a name")
}

fn log(name: &str) -> LogId {
    LogId::new(name).expect("a log")
}

fn delivery(id: &str) -> Delivery {
    Delivery::new(message(id), Receipt(1), Some(id.to_owned().into()))
}

fn park(id: &str) -> Park {
    let mut delivery = delivery(id);
    delivery.headers = vec![("a".into(), "b".into()), ("c".into(), "d".into())];
    delivery.key = Some("k".into());
    delivery.position = Some(Position { log: log("bad"), offset: 7 });
    Park {
        consumer: consumer(),
        fingerprint: delivery.fingerprint(),
        delivery,
        moves: false,
        attempts: 1,
        why: "test".into(),
    }
}

fn actor() -> Actor {
    Actor { name: "fuzz".into(), note: "none".into() }
}
