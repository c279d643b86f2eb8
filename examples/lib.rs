//! Programs a newcomer can run, and the pages whose Rust rustdoc compiles and runs.

#[cfg(doctest)]
#[expect(
    rustdoc::invalid_codeblock_attributes,
    reason = "the pages have info strings of their own, see CONTRIBUTING.md"
)]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;

    #[doc = include_str!("../docs/guides/axum.md")]
    struct Axum;

    #[doc = include_str!("../docs/guides/bridged.md")]
    struct Bridged;

    #[doc = include_str!("../docs/guides/kafka.md")]
    struct Kafka;

    #[doc = include_str!("../docs/guides/inbox.md")]
    struct Inbox;

    #[doc = include_str!("../docs/guides/outbox.md")]
    struct Outbox;

    #[doc = include_str!("../docs/guides/plain-functions.md")]
    struct PlainFunctions;

    #[doc = include_str!("../docs/guides/postgres-atomically.md")]
    struct PostgresAtomically;

    #[doc = include_str!("../docs/guides/sqlite-transaction.md")]
    struct SqliteTransaction;

    #[doc = include_str!("../docs/internals/testing.md")]
    struct Testing;
}
