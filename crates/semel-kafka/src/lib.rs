//! Kafka for Semel: events leave in the order of their aggregate, messages have one effect.
//!
//! | what | promises |
//! |---|---|
//! | [`KafkaPublisher`] | an event is confirmed only by the broker's word about this very event; the order of an aggregate holds |
//! | [`KafkaSource`] | only committed records; nothing is acknowledged before its effect; a topic that was made anew is another log |
//! | [`Transactions`] | records read, records written and the positions of the reader, all or none, where everything stays in Kafka |
//!
//! All three take a [`KafkaConfig`]: the brokers, and any setting of librdkafka that no promise rests
//! on. The client is librdkafka; it is built here from C, without OpenSSL. An application that wants TLS
//! names `rdkafka` with its feature `ssl` among its own dependencies, and cargo builds it in.
//!
//! ```no_run
//! # async fn open() -> Result<(), semel_kafka::Error> {
//! use semel_kafka::{KafkaConfig, KafkaPublisher, KafkaSource};
//!
//! let config = KafkaConfig::new("kafka-1:9092,kafka-2:9092");
//! let publisher = KafkaPublisher::builder(config.clone()).open().await?;
//! let source = KafkaSource::builder(config, "billing").topic("outbox.event.order").open().await?;
//! # drop((publisher, source));
//! # Ok(())
//! # }
//! ```

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")
)]

mod admin;
mod blocking;
mod config;
mod error;
mod log;
mod native;
mod publisher;
mod source;
mod transaction;

pub use self::{
    admin::Durability,
    config::KafkaConfig,
    error::{Error, ErrorKind},
    publisher::{KafkaPublisher, KafkaPublisherBuilder},
    source::{First, KafkaSource, KafkaSourceBuilder, LostMessages},
    transaction::{Record, Transaction, Transactions},
};
