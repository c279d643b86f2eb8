//! A consumer that messages are pushed to: each order is billed once, or as its fault has it.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::sleep,
    time::Duration,
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path as Named, State},
    http::{HeaderMap, StatusCode},
    routing::{get, post},
};
use rusqlite::{Connection, TransactionBehavior};
use serde_json::{Value, json};

use super::{inbox::SemelInbox, queue::Queue};

const TABLES: &str = "PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS had (id TEXT PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS invoice (number TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS state (aggregate TEXT PRIMARY KEY, sequence INTEGER NOT NULL);";

/// How many messages a consumer with a short memory remembers.
const SHORT_MEMORY: u32 = 20;

/// Of how many messages a consumer that loses some loses one.
const LOSES_ONE_OF: usize = 16;

/// How a consumer goes wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fault {
    /// It acknowledges a message, and works then.
    AcksFirst,
    /// It acknowledges a copy of what is at work.
    AcksWhileBusy,
    /// It knows the messages of a batch by the whole batch.
    BatchAsWhole,
    /// It answers 500 to what it cannot handle, for ever.
    PoisonLoops,
    /// It notes a message after its effect.
    EffectFirst,
    /// It remembers the last few messages only.
    ForgetsSoon,
    /// It keeps what it did before it failed, and refuses the message.
    KeepsHalfOfPoison,
    /// It knows messages by their aggregate.
    KnowsByAggregate,
    /// It looks, has its effect, and notes the message then: copies at once all look first.
    LooksFirst,
    /// It acknowledges some messages and forgets them.
    LosesSome,
    /// It keeps in memory what it had.
    MemoryOnly,
    /// It knows no copies.
    Naive,
    /// It notes a message before its effect.
    NotesFirst,
    /// It takes other content under a known id for another message.
    OtherContentRuns,
    /// It lets an older message overwrite what a later one said.
    OverwritesNewer,
    /// It refuses for good what comes while it works.
    RefusesWhileBusy,
}

/// How a consumer is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Make {
    /// It goes wrong.
    Faulty(Fault),
    /// It keeps each message in a table, acknowledges it, and works then.
    Queued,
    /// It has Semel's inbox.
    SemelInbox,
    /// It knows a message by its place in its aggregate, and keeps no ids.
    Versions,
}

impl From<Option<Fault>> for Make {
    fn from(fault: Option<Fault>) -> Self {
        fault.map_or(Self::SemelInbox, Self::Faulty)
    }
}

/// One message.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) aggregate: String,
    pub(super) sequence: i64,
    pub(super) content: Bytes,
    pub(super) body: Value,
}

/// Why a message was not handled.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Nobody ever can.
    Poison,
    /// Not now.
    Later,
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        eprintln!("the consumer's database: {error}");
        Self::Later
    }
}

/// The desk where invoices are written.
#[derive(Debug)]
pub(super) struct Desk {
    file: PathBuf,
    make: Make,
    inbox: Option<SemelInbox>,
    queue: Option<Queue>,
    one_by_one: Mutex<()>,
    come: AtomicUsize,
    in_memory: Mutex<HashSet<String>>,
    failed_once: Mutex<HashSet<String>>,
}

impl Desk {
    /// Opens a desk.
    pub(super) fn open(file: &Path, make: impl Into<Make>) -> Self {
        let make = make.into();
        let desk = Self {
            file: file.to_owned(),
            make,
            inbox: (make == Make::SemelInbox).then(|| SemelInbox::open(file)),
            queue: (make == Make::Queued).then(Queue::default),
            one_by_one: Mutex::default(),
            come: AtomicUsize::default(),
            in_memory: Mutex::default(),
            failed_once: Mutex::default(),
        };
        desk.connect().execute_batch(TABLES).unwrap();
        desk
    }

    fn fault(&self) -> Option<Fault> {
        match self.make {
            Make::Faulty(fault) => Some(fault),
            _ => None,
        }
    }

    pub(super) fn connect(&self) -> Connection {
        let connection = Connection::open(&self.file).unwrap();
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        // Semel's inbox accepts no commit that a power cut could take back.
        let flushes = if self.make == Make::SemelInbox { "FULL" } else { "OFF" };
        connection.pragma_update(None, "synchronous", flushes).unwrap();
        connection
    }

    fn handle(self: &Arc<Self>, message: &Message) -> StatusCode {
        let handled = match self.make {
            Make::Faulty(fault) => self.goes_wrong(fault, message),
            Make::Queued => self.queue.as_ref().unwrap().put(self, message),
            Make::SemelInbox => self.inbox.as_ref().unwrap().handle(self, message),
            Make::Versions => self.newer_only(message),
        };
        match handled {
            Ok(()) => StatusCode::NO_CONTENT,
            Err(Trouble::Poison) if self.fault() != Some(Fault::PoisonLoops) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Err(Trouble::Later | Trouble::Poison) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The effect of a message.
    pub(super) fn bill(&self, db: &Connection, message: &Message) -> Result<(), Trouble> {
        let is_poison = !message.body["amount"].is_number();
        if is_poison && self.fault() != Some(Fault::KeepsHalfOfPoison) {
            return Err(Trouble::Poison);
        }
        let pause = Duration::from_millis(message.body["pause_ms"].as_u64().unwrap_or(4) / 2);
        // The work: others come meanwhile, or a kill does.
        sleep(pause);
        let order = message.body["order"].as_str().unwrap();
        let fails = message.body["fails_first"].as_bool().unwrap_or(false);
        let fails = fails && self.failed_once.lock().unwrap().insert(message.id.clone());
        // Half-way is before the effect for whoever notes first, and behind it for the others.
        if !fails || self.fault() != Some(Fault::NotesFirst) {
            db.execute("INSERT INTO invoice VALUES (?1)", [order])?;
        }
        if fails {
            return Err(Trouble::Later);
        }
        if is_poison {
            return Err(Trouble::Poison);
        }
        let newest = match self.fault() {
            Some(Fault::OverwritesNewer) => "excluded.sequence",
            _ => "max(sequence, excluded.sequence)",
        };
        let upsert = format!(
            "INSERT INTO state VALUES (?1, ?2) ON CONFLICT (aggregate) DO UPDATE SET sequence = {newest}"
        );
        db.execute(&upsert, (&message.aggregate, message.sequence))?;
        // The rest of the work.
        sleep(pause);
        Ok(())
    }

    /// Takes a message that is newer than the last of its aggregate.
    fn newer_only(&self, message: &Message) -> Result<(), Trouble> {
        let mut db = self.connect();
        let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let newest = "SELECT coalesce(max(sequence), 0) FROM state WHERE aggregate = ?1";
        let newest: i64 = transaction.query_row(newest, [&message.aggregate], |row| row.get(0))?;
        if message.sequence <= newest {
            return Ok(());
        }
        self.bill(&transaction, message)?;
        Ok(transaction.commit()?)
    }

    fn goes_wrong(self: &Arc<Self>, fault: Fault, message: &Message) -> Result<(), Trouble> {
        let mut db = self.connect();
        let one_by_one = || self.one_by_one.lock().unwrap();
        match fault {
            Fault::AcksFirst => self.works_later(message),
            Fault::AcksWhileBusy => self.unless_busy(&mut db, message),
            Fault::KeepsHalfOfPoison if !message.body["amount"].is_number() => {
                self.bill(&db, message)
            }
            Fault::KnowsByAggregate => self.once(&mut db, &message.aggregate, message),
            Fault::LosesSome => {
                if self.come.fetch_add(1, Ordering::Relaxed) % LOSES_ONE_OF == LOSES_ONE_OF - 1 {
                    return Ok(());
                }
                self.once(&mut db, &message.id, message)
            }
            Fault::Naive => self.bill(&db, message),
            Fault::LooksFirst => {
                if had(&db, &message.id)? {
                    return Ok(());
                }
                // The fault: in this time others look, too.
                sleep(Duration::from_millis(20));
                self.bill(&db, message)?;
                note(&db, &message.id).map(drop)
            }
            Fault::NotesFirst => {
                if !note(&db, &message.id)? {
                    return Ok(());
                }
                self.bill(&db, message)
            }
            Fault::EffectFirst | Fault::ForgetsSoon => {
                let _alone = one_by_one();
                if had(&db, &message.id)? {
                    return Ok(());
                }
                self.bill(&db, message)?;
                // The fault: in this time a kill meets an effect without its note.
                sleep(Duration::from_millis(message.body["pause_ms"].as_u64().unwrap_or(0)));
                note(&db, &message.id)?;
                if fault == Fault::ForgetsSoon {
                    let forget = "DELETE FROM had WHERE rowid <= (SELECT max(rowid) FROM had) - ?1";
                    db.execute(forget, [SHORT_MEMORY])?;
                }
                Ok(())
            }
            Fault::MemoryOnly => {
                let _alone = one_by_one();
                if self.in_memory.lock().unwrap().contains(&message.id) {
                    return Ok(());
                }
                self.bill(&db, message)?;
                self.in_memory.lock().unwrap().insert(message.id.clone());
                Ok(())
            }
            Fault::RefusesWhileBusy => match self.one_by_one.try_lock() {
                Ok(_alone) => self.once(&mut db, &message.id, message),
                Err(_) => Err(Trouble::Poison),
            },
            Fault::OtherContentRuns => {
                let id = format!("{} {}", message.id, digest(&message.content));
                self.once(&mut db, &id, message)
            }
            Fault::BatchAsWhole
            | Fault::KeepsHalfOfPoison
            | Fault::OverwritesNewer
            | Fault::PoisonLoops => self.once(&mut db, &message.id, message),
        }
    }

    fn works_later(self: &Arc<Self>, message: &Message) -> Result<(), Trouble> {
        let (desk, message) = (self.clone(), message.clone());
        std::thread::spawn(move || {
            let pause = message.body["pause_ms"].as_u64().unwrap_or(50);
            // The work goes on behind the answer.
            sleep(Duration::from_millis(pause));
            // The fault: nobody hears of what becomes of it.
            drop(desk.once(&mut desk.connect(), &message.id, &message));
        });
        Ok(())
    }

    fn unless_busy(&self, db: &mut Connection, message: &Message) -> Result<(), Trouble> {
        if !self.in_memory.lock().unwrap().insert(message.id.clone()) {
            return Ok(());
        }
        let handled = self.once(db, &message.id, message);
        self.in_memory.lock().unwrap().remove(&message.id);
        handled
    }

    /// The effect and the note in one transaction, as it is right.
    fn once(&self, db: &mut Connection, id: &str, message: &Message) -> Result<(), Trouble> {
        let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if !note(&transaction, id)? {
            return Ok(());
        }
        self.bill(&transaction, message)?;
        Ok(transaction.commit()?)
    }
}

fn had(db: &Connection, id: &str) -> rusqlite::Result<bool> {
    db.query_row("SELECT count(*) > 0 FROM had WHERE id = ?1", [id], |row| row.get(0))
}

/// Notes that a message was had; says whether it was not.
fn note(db: &Connection, id: &str) -> Result<bool, Trouble> {
    Ok(db.execute("INSERT OR IGNORE INTO had VALUES (?1)", [id])? == 1)
}

fn digest(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

/// Returns the routes of a consumer.
pub(super) fn router(desk: Desk) -> Router {
    let desk = Arc::new(desk);
    if let Some(queue) = &desk.queue {
        queue.work(&desk);
    }
    Router::new()
        .route("/events", post(event))
        .route("/batches", post(batch))
        .route("/effects/{order}", get(effects))
        .route("/states/{aggregate}", get(state))
        .with_state(desk)
}

async fn event(State(desk): State<Arc<Desk>>, headers: HeaderMap, content: Bytes) -> StatusCode {
    let text = |name: &str| headers[name].to_str().unwrap().to_owned();
    let message = Message {
        id: text("ce-id"),
        aggregate: text("ce-subject"),
        sequence: text("ce-aggregateversion").parse().unwrap(),
        body: serde_json::from_slice(&content).unwrap(),
        content,
    };
    tokio::task::spawn_blocking(move || desk.handle(&message)).await.unwrap()
}

async fn batch(State(desk): State<Arc<Desk>>, content: Bytes) -> StatusCode {
    let items: Vec<Value> = serde_json::from_slice(&content).unwrap();
    let of_batch = digest(&content);
    let handle = move || {
        for item in items {
            let id = item["id"].as_str().unwrap();
            let id = match desk.fault() {
                Some(Fault::BatchAsWhole) => format!("{id} {of_batch}"),
                _ => id.to_owned(),
            };
            let (aggregate, content) = (id.clone(), item.to_string().into());
            let status = desk.handle(&Message { id, aggregate, sequence: 1, content, body: item });
            if !status.is_success() {
                return status;
            }
        }
        StatusCode::NO_CONTENT
    };
    tokio::task::spawn_blocking(handle).await.unwrap()
}

async fn effects(State(desk): State<Arc<Desk>>, Named(order): Named<String>) -> Json<Value> {
    let count = "SELECT count(*) FROM invoice WHERE number = ?1";
    let count: i64 = desk.connect().query_row(count, [order], |row| row.get(0)).unwrap();
    Json(json!({ "count": count }))
}

async fn state(State(desk): State<Arc<Desk>>, Named(aggregate): Named<String>) -> Json<Value> {
    let read = "SELECT coalesce(max(sequence), 0) FROM state WHERE aggregate = ?1";
    let sequence: i64 = desk.connect().query_row(read, [aggregate], |row| row.get(0)).unwrap();
    Json(json!({ "sequence": sequence }))
}
