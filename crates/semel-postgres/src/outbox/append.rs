//! Events that are appended in the caller's transaction, column by column.

use semel::{
    StoreError,
    outbox::{Event, EventError, store::READ_MAX},
};

use super::row::headers_text;
use crate::{error::invalid, value::Value};

/// The largest number of bytes that one statement appends.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Events to be appended, in order.
#[derive(Debug, Default)]
pub(crate) struct Append {
    events: Vec<Event>,
    bytes: usize,
}

impl Append {
    /// Adds an event.
    pub(crate) fn push(&mut self, event: Event) -> Result<(), StoreError> {
        event.check().map_err(out_of_bounds)?;
        let bytes = self.bytes.saturating_add(event.size());
        if self.events.len() >= READ_MAX || bytes > BYTES_MAX {
            return Err(invalid(
                "a transaction publishes at most 10,000 events of 64 MiB together",
            ));
        }
        self.bytes = bytes;
        self.events.push(event);
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Makes the columns of the statement that appends them.
    pub(crate) fn columns(&self) -> Columns<'_> {
        let mut columns = Columns::default();
        for event in &self.events {
            columns.push(event);
        }
        columns
    }
}

fn out_of_bounds(error: EventError) -> StoreError {
    invalid("an event breaks a bound; nothing is appended").with_source(error)
}

/// The columns of events.
#[derive(Default)]
pub(crate) struct Columns<'a> {
    ids: Vec<String>,
    headers: Vec<Option<String>>,
    kinds: Vec<Option<&'a str>>,
    aggregates: Vec<Option<&'a str>>,
    types: Vec<Option<&'a str>>,
    payloads: Vec<Option<&'a [u8]>>,
    versions: Vec<Option<i64>>,
    traces: Vec<Option<&'a str>>,
    causes: Vec<Option<&'a str>>,
    tenants: Vec<Option<&'a str>>,
    operations: Vec<Option<&'a str>>,
    keys: Vec<Option<&'a str>>,
    facets: Vec<Option<&'a [u8]>>,
}

impl<'a> Columns<'a> {
    fn push(&mut self, event: &'a Event) {
        let intent = event.intent.as_ref();
        self.ids.push(event.id.to_string());
        self.headers.push(headers_text(&event.headers));
        self.kinds.push(Some(event.lane.kind()));
        self.aggregates.push(Some(event.lane.id()));
        self.types.push(Some(&event.kind));
        self.payloads.push(event.payload.as_deref());
        self.versions.push(event.version);
        self.traces.push(event.trace.as_deref());
        self.causes.push(event.cause.as_ref().map(|cause| cause.as_str()));
        self.tenants.push(intent.map(|intent| intent.scope.tenant.as_str()));
        self.operations.push(intent.map(|intent| intent.scope.operation.as_str()));
        self.keys.push(intent.map(|intent| intent.key.as_str()));
        self.facets.push(intent.and_then(|intent| intent.facet.as_ref()).map(<[u8; 32]>::as_slice));
    }

    /// The texts that are made here and not part of an event.
    pub(crate) fn made(&self) -> [Vec<Option<&str>>; 2] {
        let ids = self.ids.iter().map(|id| Some(&**id)).collect();
        [ids, self.headers.iter().map(Option::as_deref).collect()]
    }

    /// The parameters of the statement.
    pub(crate) fn values(&'a self, made: &'a [Vec<Option<&'a str>>; 2]) -> [Value<'a>; 13] {
        let [ids, headers] = made;
        [
            Value::Texts(ids),
            Value::Texts(&self.kinds),
            Value::Texts(&self.aggregates),
            Value::Texts(&self.types),
            Value::Blobs(&self.payloads),
            Value::Texts(headers),
            Value::Bigints(&self.versions),
            Value::Texts(&self.traces),
            Value::Texts(&self.causes),
            Value::Texts(&self.tenants),
            Value::Texts(&self.operations),
            Value::Texts(&self.keys),
            Value::Blobs(&self.facets),
        ]
    }
}
