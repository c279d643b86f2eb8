//! What librdkafka says, as events of `tracing`.

use rdkafka::{config::RDKafkaLogLevel, error::KafkaError};

/// Passes a line on at its level.
pub(crate) fn line(level: RDKafkaLogLevel, what: &str, line: &str) {
    match level {
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error => tracing::error!(target: "librdkafka", what, "{line}"),
        RDKafkaLogLevel::Warning => tracing::warn!(target: "librdkafka", what, "{line}"),
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            tracing::info!(target: "librdkafka", what, "{line}");
        }
        RDKafkaLogLevel::Debug => tracing::debug!(target: "librdkafka", what, "{line}"),
    }
}

/// Passes an error on that concerns the whole client: a broker that is away is one, and passes.
pub(crate) fn trouble(error: &KafkaError, why: &str) {
    tracing::warn!(target: "librdkafka", %error, "{why}");
}
