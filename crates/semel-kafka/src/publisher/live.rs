//! One producer of librdkafka, and what it reports.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use rdkafka::{
    ClientConfig, ClientContext,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    error::KafkaError,
    message::DeliveryResult,
    producer::{BaseRecord, Producer, ProducerContext, PurgeConfig, ThreadedProducer},
    types::RDKafkaErrorCode,
};
use tokio::sync::Notify;

use crate::{
    blocking::aside,
    error::Error,
    log,
    native::{self, Persisted},
};

/// What became of one record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Report {
    /// The brokers have it.
    Done,
    /// It failed.
    Failed(RDKafkaErrorCode, Persisted),
}

/// Records that are waited for together.
#[derive(Debug)]
pub(super) struct Round {
    reports: Box<[OnceLock<Report>]>,
    left: AtomicUsize,
    done: Notify,
}

impl Round {
    pub(super) fn new(len: usize) -> Self {
        let reports = (0..len).map(|_| OnceLock::new()).collect();
        Self { reports, left: AtomicUsize::new(len), done: Notify::new() }
    }

    /// Waits until every record has its report.
    pub(super) async fn finished(&self) {
        // One waiter, and a permit that is kept: a report between look and wait is not missed.
        while self.left.load(Ordering::Acquire) > 0 {
            self.done.notified().await;
        }
    }

    pub(super) fn report(&self, at: usize) -> Option<Report> {
        self.reports.get(at).and_then(OnceLock::get).copied()
    }

    pub(super) fn tell(&self, at: usize, report: Report) {
        let first = self.reports.get(at).is_some_and(|place| place.set(report).is_ok());
        if first && self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.done.notify_one();
        }
    }
}

/// What a record carries through librdkafka: where its report goes.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) round: Arc<Round>,
    pub(super) at: usize,
}

/// A producer, until it fails.
pub(super) struct Live {
    producer: Option<ThreadedProducer<Reports>>,
    stopped: AtomicBool,
}

impl Live {
    pub(super) fn new(config: &ClientConfig) -> Result<Self, Error> {
        let reports = Reports { failed: AtomicBool::new(false) };
        let producer = ThreadedProducer::from_config_and_context(config, reports);
        let producer = producer.map_err(|error| Error::asking("cannot make a producer", error))?;
        Ok(Self { producer: Some(producer), stopped: AtomicBool::new(false) })
    }

    /// Gives a record to the producer; its report comes to its slot.
    pub(super) fn send(
        &self,
        record: BaseRecord<'_, str, [u8], Box<Slot>>,
    ) -> Result<(), RDKafkaErrorCode> {
        let sent = self.producer().send(record);
        sent.map_err(|(error, _)| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail))
    }

    /// Says whether nothing more may be given to it.
    pub(super) fn has_failed(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
            || self.producer().context().failed.load(Ordering::Acquire)
            || self.producer().client().fatal_error().is_some()
    }

    /// Takes back what is queued; what is on its way goes on. For good: a gap is left behind.
    pub(super) fn stop_sending(&self) {
        self.stopped.store(true, Ordering::Release);
        self.producer().purge(PurgeConfig::default().queue().non_blocking());
    }

    fn producer(&self) -> &ThreadedProducer<Reports> {
        self.producer.as_ref().expect("it is taken when dropped, not before")
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("stopped", &self.stopped).finish_non_exhaustive()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let producer = self.producer.take();
        aside(move || drop(producer));
    }
}

/// Takes the reports of a producer.
struct Reports {
    failed: AtomicBool,
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, what: &str, line: &str) {
        log::line(level, what, line);
    }

    fn error(&self, error: KafkaError, why: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
            self.failed.store(true, Ordering::Release);
        }
        log::trouble(&error, why);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<Slot>;

    fn delivery(&self, result: &DeliveryResult<'_>, slot: Box<Slot>) {
        let report = match result {
            Ok(_) => Report::Done,
            Err((error, message)) => {
                let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
                Report::Failed(code, native::persisted(message))
            }
        };
        slot.round.tell(slot.at, report);
    }
}
