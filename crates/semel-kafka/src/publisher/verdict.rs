//! What a report means for the event: pure.

use rdkafka::types::RDKafkaErrorCode as Code;
use semel::outbox::{Fault, Sent};

use super::live::Report;
use crate::native::Persisted;

/// What becomes of an event after a report.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// It was not sent, and nothing was said about it: this call sends it.
    Again,
    /// It was refused with all that shared its batch; alone it may fit.
    Alone,
    /// It has its outcome.
    Is(Sent),
}

/// Judges a report. `many`: whether other events go to other topics; `alone`: whether it was sent alone.
pub(super) fn judge(report: Report, many: bool, alone: bool) -> Verdict {
    match report {
        Report::Done => Verdict::Is(Sent::Confirmed),
        Report::Failed(code, Persisted::Perhaps) => {
            Verdict::Is(Sent::Unknown { why: sentence(code, "it may have arrived") })
        }
        Report::Failed(code, Persisted::No) => refused(code, many, alone),
    }
}

fn refused(code: Code, many: bool, alone: bool) -> Verdict {
    let (fault, why) = match code {
        // Of this producer's own making: another record brought it down, or no room was left.
        Code::Fatal
        | Code::GaplessGuarantee
        | Code::InvalidProducerEpoch
        | Code::OutOfOrderSequenceNumber
        | Code::ProducerFenced
        | Code::QueueFull
        | Code::UnknownProducerId => return Verdict::Again,
        // The bound is on the batch of records that librdkafka made, not on this one.
        Code::MessageSizeTooLarge if !alone => return Verdict::Alone,
        Code::MessageSizeTooLarge => (Fault::Message, "it is larger than its topic takes"),
        Code::InvalidRecord | Code::InvalidTimestamp | Code::InvalidMessage => {
            (Fault::Message, "its topic does not take such records")
        }
        Code::UnknownTopic
        | Code::UnknownTopicOrPartition
        | Code::UnknownPartition
        | Code::InvalidTopic
        | Code::TopicAuthorizationFailed
            if many =>
        {
            (Fault::Message, "its topic is not there for this producer")
        }
        _ => (Fault::Destination { retry_after: None }, "it was not sent"),
    };
    Verdict::Is(Sent::Refused { fault, why: sentence(code, why) })
}

fn sentence(code: Code, why: &str) -> Box<str> {
    format!("{why}: {code}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(report: Report, many: bool, expected: &str) {
        let said = match judge(report, many, true) {
            Verdict::Is(Sent::Confirmed) => "confirmed",
            Verdict::Is(Sent::Unknown { .. }) => "unknown",
            Verdict::Is(Sent::Refused { fault: Fault::Message, .. }) => "message",
            Verdict::Is(Sent::Refused { .. }) => "destination",
            Verdict::Again => "again",
            Verdict::Alone => "alone",
        };
        assert_eq!(said, expected, "{report:?}");
    }

    #[test]
    fn what_may_have_arrived_is_unknown_whatever_the_broker_said_last() {
        for code in [Code::MessageTimedOut, Code::Fatal, Code::MessageSizeTooLarge] {
            check(Report::Failed(code, Persisted::Perhaps), true, "unknown");
        }
        check(Report::Done, true, "confirmed");
    }

    #[test]
    fn a_missing_topic_is_the_events_fault_only_where_other_events_have_other_topics() {
        let missing = Report::Failed(Code::UnknownTopic, Persisted::No);
        check(missing, true, "message");
        check(missing, false, "destination");
    }

    #[test]
    fn a_broker_that_is_away_is_at_fault_itself() {
        check(Report::Failed(Code::MessageTimedOut, Persisted::No), true, "destination");
        check(Report::Failed(Code::PurgeQueue, Persisted::No), true, "destination");
        check(Report::Failed(Code::MessageSizeTooLarge, Persisted::No), true, "message");
        check(Report::Failed(Code::Fatal, Persisted::No), true, "again");
    }
}
