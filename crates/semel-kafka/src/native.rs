//! What only librdkafka itself can be asked: whether a message that failed may have arrived, which topic
//! bears a name now, and headers whose names may be any bytes. The only unsafe code of Semel.

#![expect(unsafe_code, reason = "rdkafka has no safe call for these; what is read is let go here")]

use std::{
    ffi::{CStr, CString},
    fmt,
    ptr::{self, NonNull},
    slice,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use rdkafka::{
    ClientContext, bindings as native,
    client::Client,
    error::KafkaError,
    message::BorrowedMessage,
    types::{RDKafkaErrorCode, RDKafkaRespErr},
};

/// Whether a record is in its log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Persisted {
    /// It is not, and never will be by this send.
    No,
    /// Nobody can say.
    Perhaps,
}

/// Says whether a message that was reported as failed may have arrived.
pub(crate) fn persisted(message: &BorrowedMessage<'_>) -> Persisted {
    // SAFETY: the pointer is that of a message which lives as long as the borrow.
    let status = unsafe { native::rd_kafka_message_status(message.ptr()) };
    match status {
        native::rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED => Persisted::No,
        _ => Persisted::Perhaps,
    }
}

/// Reads the headers of a message.
pub(crate) fn headers(message: &BorrowedMessage<'_>) -> Vec<(Box<str>, Bytes)> {
    let mut list = ptr::null_mut();
    // SAFETY: the list belongs to the message, which lives as long as the borrow.
    unsafe {
        match native::rd_kafka_message_headers(message.ptr(), &raw mut list) {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => listed(list),
            _ => Vec::new(),
        }
    }
}

/// Reads headers. Names are text by Kafka's own word, which no broker checks: one that is not UTF-8 is read as
/// well as it can be, where rdkafka panics.
///
/// # Safety
///
/// The list must live.
unsafe fn listed(list: *const native::rd_kafka_headers_t) -> Vec<(Box<str>, Bytes)> {
    let mut headers = Vec::new();
    // SAFETY: the caller keeps the list; names end with a zero byte, and a value has as many bytes as it is
    // said to have. Both are copied.
    unsafe {
        for at in 0..native::rd_kafka_header_cnt(list) {
            let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
            let found = native::rd_kafka_header_get_all(
                list,
                at,
                &raw mut name,
                &raw mut value,
                &raw mut size,
            );
            if found != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                break;
            }
            let name = CStr::from_ptr(name).to_string_lossy().into();
            let value: &[u8] = match value.is_null() {
                true => &[],
                false => slice::from_raw_parts(value.cast(), size),
            };
            headers.push((name, Bytes::copy_from_slice(value)));
        }
    }
    headers
}

/// Which topic it is that bears a name: one that is deleted and made again has another id.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct TopicId(Arc<str>);

impl TopicId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    #[cfg(test)]
    pub(crate) fn of(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopicId({})", self.0)
    }
}

impl fmt::Display for TopicId {
    /// Writes it as Kafka's own tools do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Asks a broker for the ids of topics, in the order given; `None` for a topic that is not there. Blocks.
pub(crate) fn topic_ids<C: ClientContext>(
    client: &Client<C>,
    topics: &[&str],
    patience: Duration,
) -> Result<Vec<Option<TopicId>>, KafkaError> {
    let names: Result<Vec<_>, _> = topics.iter().map(|topic| CString::new(*topic)).collect();
    let names = names.map_err(KafkaError::Nul)?;
    let event = described(client, &names, patience)
        .ok_or(KafkaError::MetadataFetch(RDKafkaErrorCode::OperationTimedOut))?;
    // SAFETY: the event is owned by this function, and what is read of it does not leave it.
    unsafe {
        let error = native::rd_kafka_event_error(event.get());
        if error != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(KafkaError::MetadataFetch(error.into()));
        }
        let result = native::rd_kafka_event_DescribeTopics_result(event.get());
        if result.is_null() {
            return Err(KafkaError::MetadataFetch(RDKafkaErrorCode::BadMessage));
        }
        let mut count = 0;
        let list = native::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        let mut ids = vec![None; names.len()];
        for at in 0..count {
            let topic = *list.add(at);
            let name = CStr::from_ptr(native::rd_kafka_TopicDescription_name(topic));
            let id = id_of(topic)?;
            for (place, _) in names.iter().enumerate().filter(|(_, own)| own.as_c_str() == name) {
                ids[place].clone_from(&id);
            }
        }
        Ok(ids)
    }
}

/// # Safety
///
/// The topic must be one of a result that lives.
unsafe fn id_of(
    topic: *const native::rd_kafka_TopicDescription_t,
) -> Result<Option<TopicId>, KafkaError> {
    // SAFETY: the caller keeps the result that all these lie in.
    unsafe {
        let error = native::rd_kafka_TopicDescription_error(topic);
        let code = native::rd_kafka_error_code(error);
        match code {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => {}
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART => return Ok(None),
            other => return Err(KafkaError::MetadataFetch(other.into())),
        }
        let id = native::rd_kafka_TopicDescription_topic_id(topic);
        let id = CStr::from_ptr(native::rd_kafka_Uuid_base64str(id));
        Ok(Some(TopicId(id.to_string_lossy().as_ref().into())))
    }
}

/// Asks and waits for the answer; `None` if it does not come in time.
fn described<C: ClientContext>(
    client: &Client<C>,
    names: &[CString],
    patience: Duration,
) -> Option<Owned<native::rd_kafka_event_t>> {
    let millis = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
    let mut pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
    // SAFETY: the client lives as long as the borrow; what is made here is let go by its `Owned`, and the
    // request copies the names and the options.
    unsafe {
        let rk = client.native_ptr();
        let operation = native::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        let options = native::rd_kafka_AdminOptions_new(rk, operation);
        let options = Owned::new(options, native::rd_kafka_AdminOptions_destroy)?;
        native::rd_kafka_AdminOptions_set_request_timeout(
            options.get(),
            millis,
            ptr::null_mut(),
            0,
        );
        let topics =
            native::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), names.len());
        let topics = Owned::new(topics, native::rd_kafka_TopicCollection_destroy)?;
        let queue = Owned::new(native::rd_kafka_queue_new(rk), native::rd_kafka_queue_destroy)?;
        native::rd_kafka_DescribeTopics(rk, topics.get(), options.get(), queue.get());
        // The request ends in time by itself; the wait is a little longer, so that its own word is heard.
        let event = native::rd_kafka_queue_poll(queue.get(), millis.saturating_add(1_000));
        Owned::new(event, native::rd_kafka_event_destroy)
    }
}

/// Something of librdkafka's that is let go when dropped.
struct Owned<T> {
    pointer: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    fn new(pointer: *mut T, destroy: unsafe extern "C" fn(*mut T)) -> Option<Self> {
        NonNull::new(pointer).map(|pointer| Self { pointer, destroy })
    }

    const fn get(&self) -> *mut T {
        self.pointer.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the function that belongs to this one, and is let go once.
        unsafe { (self.destroy)(self.pointer.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever bytes a producer puts where the name of a header stands, its record is read.
    #[test]
    fn a_header_whose_name_is_no_text_is_read_as_well_as_it_can_be() {
        let named: [(&[u8], &[u8]); 3] = [(b"id", b"odd"), (b"\xff\xfe", b"\x00\xff"), (b"", b"")];
        // SAFETY: the list is made, filled and let go here; what is added to it is copied.
        let read = unsafe {
            let list = native::rd_kafka_headers_new(4);
            let list = Owned::new(list, native::rd_kafka_headers_destroy).unwrap();
            for (name, value) in named {
                let size = |bytes: &[u8]| isize::try_from(bytes.len()).unwrap();
                let (name_at, value_at) = (name.as_ptr().cast(), value.as_ptr().cast());
                let added = native::rd_kafka_header_add(
                    list.get(),
                    name_at,
                    size(name),
                    value_at,
                    size(value),
                );
                assert_eq!(added, RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR);
            }
            listed(list.get())
        };
        let read: Vec<_> = read.iter().map(|(name, value)| (&**name, value.as_ref())).collect();
        let odd: &[u8] = b"\x00\xff";
        assert_eq!(read, [("id", b"odd".as_slice()), ("\u{fffd}\u{fffd}", odd), ("", b"")]);
    }
}
