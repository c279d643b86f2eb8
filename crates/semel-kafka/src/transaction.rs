//! From Kafka to Kafka: what is read, what is written and how far the reader is, all or none.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use rdkafka::{
    ClientContext, TopicPartitionList,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    consumer::ConsumerGroupMetadata,
    error::{KafkaError, KafkaResult},
    message::{DeliveryResult, Header, OwnedHeaders},
    producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer},
    types::RDKafkaErrorCode,
};
use semel::{
    clock::{Clock, SystemClock},
    inbox::Receipt,
};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{
    blocking::{aside, blocking},
    config::KafkaConfig,
    error::{Error, ErrorKind},
    log,
    source::KafkaSource,
};

/// How long one step of a transaction may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How soon a record is offered again that found no room.
const OFFER_EVERY: Duration = Duration::from_millis(5);
/// Only whole transactions are seen: a record is sent once, and after every one before it.
const KEPT: &[(&str, &str)] = &[("acks", "all"), ("enable.idempotence", "true")];
const DEFAULTS: &[(&str, &str)] = &[("partitioner", "murmur2_random")];

/// A record to be written by a transaction.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Record {
    topic: Box<str>,
    key: Option<Bytes>,
    payload: Option<Bytes>,
    headers: Vec<(Box<str>, Bytes)>,
}

impl Record {
    /// Makes a record for a topic: a tombstone without a key, unless told otherwise.
    #[must_use]
    pub fn new(topic: impl Into<Box<str>>) -> Self {
        Self { topic: topic.into(), ..Self::default() }
    }

    /// Sets the key, by which its partition is chosen.
    #[must_use]
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets what it tells.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// Adds a header, such as the `id` that a source names it by.
    #[must_use]
    pub fn header(mut self, name: impl Into<Box<str>>, value: impl Into<Bytes>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

type Client = ThreadedProducer<Quiet>;

/// Runs transactions of Kafka, one at a time, under a name that only one may bear.
///
/// What a transaction covers is Kafka alone: records that it writes, and the positions of the source that
/// it consumes from. An effect elsewhere is not covered; for that there is the inbox.
///
/// Readers must read with `isolation.level = read_committed`, as [`KafkaSource`] does.
pub struct Transactions {
    client: Arc<Client>,
    /// Held by the transaction that runs, also after it was dropped, until it is undone.
    running: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Why no further transaction can run.
    ended: Option<(ErrorKind, Box<str>)>,
}

impl Transactions {
    /// Takes over the name from whoever bears it: a transaction of theirs that still runs is undone, and they
    /// can commit no other.
    ///
    /// A name belongs to what is consumed: one instance of a service that restarts keeps its own.
    ///
    /// # Errors
    ///
    /// Fails with kind `Invalid` if a setting is wrong, and with kind `Away` if the brokers do not answer.
    pub async fn open(config: &KafkaConfig, name: &str) -> Result<Self, Error> {
        let own = [("transactional.id", name)];
        let config = config.client(DEFAULTS, &[KEPT, &own].concat())?;
        let client = Client::from_config_and_context(&config, Quiet);
        let client = client.map_err(|error| Error::asking("cannot make a producer", error))?;
        let client = Arc::new(client);
        let taken = client.clone();
        let take_over = move || retried(|| taken.init_transactions(PATIENCE)).map_err(sort);
        blocking(take_over).await?;
        Ok(Self { client, running: Arc::default() })
    }

    /// Begins a transaction, when the one before has ended.
    ///
    /// # Errors
    ///
    /// Fails with kind `Fenced` once another has taken the name over, and with kind `Unknown` after a
    /// commit that nobody can tell the end of: open anew, and the source too, whose position tells.
    pub async fn begin(&self) -> Result<Transaction<'_>, Error> {
        let state = self.running.clone().lock_owned().await;
        if let Some((kind, why)) = &state.ended {
            return Err(Error::new(*kind, why.clone()));
        }
        self.client.begin_transaction().map_err(sort)?;
        let client = self.client.clone();
        Ok(Transaction { running: Some(Running { client, state }), consumed: Vec::new() })
    }
}

impl fmt::Debug for Transactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transactions")
    }
}

/// A transaction that runs. Dropped without a commit, it is undone, and what it consumed comes again.
pub struct Transaction<'a> {
    /// None once it has ended.
    running: Option<Running>,
    consumed: Vec<(&'a KafkaSource, Vec<Receipt>)>,
}

impl<'a> Transaction<'a> {
    /// Writes a record. It is on its way, and seen by nobody before the commit.
    ///
    /// # Errors
    ///
    /// Fails with kind `Invalid` if the record cannot be written, such as one that is too large, and with
    /// kind `Away` if there is no room for it in time.
    pub async fn send(&mut self, record: Record) -> Result<(), Error> {
        let clock = SystemClock::new();
        let end = clock.monotonic().after(PATIENCE);
        loop {
            let Some(error) = self.running()?.offer(&record).err() else { return Ok(()) };
            let is_full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
            if !is_full {
                return Err(Error::invalid(format!("cannot write a record: {error}")));
            }
            if clock.monotonic() > end {
                return Err(Error::asking("there is no room for a record", error));
            }
            tokio::time::sleep(OFFER_EVERY).await;
        }
    }

    /// Consumes deliveries: they are settled by the commit, and come again without it.
    ///
    /// # Errors
    ///
    /// Fails with kind `Lost` if one of them is no longer the source's to settle, and with kind `Invalid`
    /// unless they follow on what is settled, log by log, without a gap.
    pub fn consume(
        &mut self,
        source: &'a KafkaSource,
        receipts: impl IntoIterator<Item = Receipt>,
    ) -> Result<(), Error> {
        let receipts: Vec<_> = receipts.into_iter().collect();
        if self.consumed.iter().any(|(other, _)| std::ptr::eq(*other, source)) {
            return Err(Error::invalid("a transaction consumes from a source once"));
        }
        source.positions(&receipts)?;
        self.consumed.push((source, receipts));
        Ok(())
    }

    /// Commits everything.
    ///
    /// # Errors
    ///
    /// Fails with kind `Aborted` if it was undone: what it consumed comes again. With kind `Lost` if what it
    /// consumed is somebody else's by now: it was undone too. With kind `Fenced` if another has taken over
    /// the name: it was undone or will be. With kind `Unknown` if nobody can say: open both anew.
    ///
    /// # Cancel safety
    ///
    /// Once begun, the commit goes on to its end; whether it was reached, the source's position tells.
    pub async fn commit(mut self) -> Result<(), Error> {
        let mut positions = Vec::new();
        for (source, receipts) in &self.consumed {
            positions.push(source.positions(receipts)?);
        }
        let running = self.running.take().ok_or_else(ended)?;
        let done = blocking(move || running.commit(&positions)).await;
        let consumed = std::mem::take(&mut self.consumed);
        match &done {
            Ok(()) => {
                for (source, receipts) in consumed {
                    source.consumed(&receipts);
                }
            }
            Err(error) if error.kind() == ErrorKind::Aborted => give_back(consumed),
            Err(_) => {}
        }
        done
    }

    /// Undoes everything; what it consumed comes again.
    ///
    /// # Errors
    ///
    /// Fails with kind `Fenced` if another has taken over the name.
    pub async fn abort(mut self) -> Result<(), Error> {
        let running = self.running.take().ok_or_else(ended)?;
        let done = blocking(move || running.abort()).await;
        give_back(std::mem::take(&mut self.consumed));
        done
    }

    fn running(&self) -> Result<&Running, Error> {
        self.running.as_ref().ok_or_else(ended)
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("runs", &self.running.is_some()).finish_non_exhaustive()
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        give_back(std::mem::take(&mut self.consumed));
        aside(move || {
            if let Err(error) = running.abort() {
                tracing::warn!(%error, "a transaction that was dropped is undone by its brokers");
            }
        });
    }
}

fn give_back(consumed: Vec<(&KafkaSource, Vec<Receipt>)>) {
    for (source, receipts) in consumed {
        source.again(&receipts);
    }
}

fn ended() -> Error {
    Error::invalid("the transaction has ended")
}

/// The client of a transaction that has not ended, and the right to run one.
struct Running {
    client: Arc<Client>,
    state: OwnedMutexGuard<State>,
}

impl Running {
    fn offer(&self, record: &Record) -> KafkaResult<()> {
        let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
        for (name, value) in &record.headers {
            headers = headers.insert(Header { key: name, value: Some(value.as_ref()) });
        }
        let mut made = BaseRecord::<[u8], [u8]>::to(&record.topic).headers(headers);
        if let Some(key) = &record.key {
            made = made.key(key.as_ref());
        }
        if let Some(payload) = &record.payload {
            made = made.payload(payload.as_ref());
        }
        self.client.send(made).map_err(|(error, _)| error)
    }

    /// Commits, or undoes. Blocks.
    fn commit(
        mut self,
        positions: &[(TopicPartitionList, ConsumerGroupMetadata)],
    ) -> Result<(), Error> {
        let commit = || {
            for (list, group) in positions {
                retried(|| self.client.send_offsets_to_transaction(list, group, PATIENCE))?;
            }
            retried(|| self.client.commit_transaction(PATIENCE))
        };
        let Err(error) = commit() else { return Ok(()) };
        let sorted = sort(error);
        match sorted.kind() {
            ErrorKind::Aborted | ErrorKind::Lost => self.undo().and(Err(sorted)),
            kind => {
                self.state.ended = Some((kind, sorted.to_string().into()));
                Err(sorted)
            }
        }
    }

    fn abort(mut self) -> Result<(), Error> {
        self.undo()
    }

    /// Undoes it; if even that fails, nothing more can run here, and the brokers undo it in time.
    fn undo(&mut self) -> Result<(), Error> {
        let undone = retried(|| self.client.abort_transaction(PATIENCE)).map_err(sort);
        if let Err(error) = &undone {
            let kind =
                if error.kind() == ErrorKind::Fenced { error.kind() } else { ErrorKind::Unknown };
            self.state.ended = Some((kind, error.to_string().into()));
        }
        undone
    }
}

/// Asks again what the brokers ask to be asked again; each try waits by itself.
fn retried(mut step: impl FnMut() -> KafkaResult<()>) -> KafkaResult<()> {
    const TRIES: usize = 3;
    for _ in 1..TRIES {
        match step() {
            Err(KafkaError::Transaction(error)) if error.is_retriable() => {}
            done => return done,
        }
    }
    step()
}

fn sort(error: KafkaError) -> Error {
    let KafkaError::Transaction(said) = &error else {
        return Error::asking("a transaction cannot go on", error);
    };
    let (kind, why) = match said.code() {
        RDKafkaErrorCode::Fenced
        | RDKafkaErrorCode::ProducerFenced
        | RDKafkaErrorCode::InvalidProducerEpoch => {
            (ErrorKind::Fenced, "another has taken over the name of the transactions")
        }
        RDKafkaErrorCode::FencedInstanceId
        | RDKafkaErrorCode::IllegalGeneration
        | RDKafkaErrorCode::UnknownMemberId
        | RDKafkaErrorCode::RebalanceInProgress
            if said.txn_requires_abort() =>
        {
            (ErrorKind::Lost, "what the transaction consumed is no longer this consumer's")
        }
        _ if said.is_fatal() => (ErrorKind::Fenced, "no transaction can run here any more"),
        _ if said.txn_requires_abort() => (ErrorKind::Aborted, "the transaction was undone"),
        _ => (ErrorKind::Unknown, "nobody can say whether the transaction was committed"),
    };
    Error::new(kind, format!("{why}: {}", said.string())).with_source(error)
}

/// Passes on what the client says; what became of records, the commit tells.
struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, level: RDKafkaLogLevel, what: &str, line: &str) {
        log::line(level, what, line);
    }

    fn error(&self, error: KafkaError, why: &str) {
        log::trouble(&error, why);
    }
}

impl ProducerContext for Quiet {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}
