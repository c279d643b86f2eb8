//! The headers that never count, each with the reason that configuration shows.

use crate::wire;

const ENTRIES: &[(&str, &str)] = &[
    ("accept-encoding", TRANSPORT),
    ("authorization", CREDENTIAL),
    ("b3", TRACING),
    ("baggage", TRACING),
    ("connection", TRANSPORT),
    ("content-encoding", TRANSPORT),
    ("content-length", TRANSPORT),
    ("cookie", CREDENTIAL),
    ("date", CLOCK),
    ("expect", TRANSPORT),
    ("forwarded", ROUTE),
    ("grpc-trace-bin", TRACING),
    ("keep-alive", TRANSPORT),
    ("proxy-authorization", CREDENTIAL),
    ("proxy-connection", TRANSPORT),
    ("request-id", TRACING),
    ("sentry-trace", TRACING),
    ("te", TRANSPORT),
    ("traceparent", TRACING),
    ("tracestate", TRACING),
    ("trailer", TRANSPORT),
    ("transfer-encoding", TRANSPORT),
    ("uber-trace-id", TRACING),
    ("upgrade", TRANSPORT),
    ("user-agent", "it changes when the caller is updated"),
    ("via", ROUTE),
    ("x-amzn-trace-id", TRACING),
    ("x-cloud-trace-context", TRACING),
    ("x-correlation-id", TRACING),
    ("x-real-ip", ROUTE),
    (wire::REQUEST_ID, TRACING),
    ("x-request-start", CLOCK),
    ("x-trace-id", TRACING),
];

const FAMILIES: &[(&str, &str)] = &[
    ("uberctx-", TRACING),
    ("x-b3-", TRACING),
    ("x-datadog-", TRACING),
    ("x-forwarded-", ROUTE),
    ("x-ot-span-", TRACING),
];

const CLOCK: &str = "it tells the time of the try, not what was asked";
const CREDENTIAL: &str =
    "credentials are renewed between tries; the tenant already says who the caller is";
const ROUTE: &str = "it tells the way the try took, not what was asked";
const TRACING: &str = "it names the try, not what was asked";
const TRANSPORT: &str = "it tells how the try was carried, not what was asked";

/// Says why the header `name`, in lower case, cannot count.
pub(super) fn reason(name: &str) -> Option<&'static str> {
    let entry = ENTRIES.iter().find(|(known, _)| *known == name);
    let family = || FAMILIES.iter().find(|(prefix, _)| name.starts_with(prefix));
    entry.or_else(family).map(|(_, reason)| *reason)
}
