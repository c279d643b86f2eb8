//! Servers that belong to one test, and end with it: PostgreSQL, its pooler and its standbys, Redis and
//! Valkey, Kafka, and a way to them that is slow, breaks and loses what it is told to.

mod debezium;
mod disk;
mod kafka;
mod patience;
mod pgbouncer;
mod port;
mod postgres;
mod process;
mod redis;
mod scratch;
mod tcp;
mod template;
mod tools;
mod user;

pub use self::{
    debezium::{Debezium, Routed},
    disk::Disk,
    kafka::{Builder as KafkaBuilder, Kafka},
    pgbouncer::{Builder as PgBouncerBuilder, PgBouncer},
    port::free_port,
    postgres::{Builder as PostgresBuilder, Major, Postgres, Session, failover_url},
    process::{Process, ProcessError},
    redis::{Builder as RedisBuilder, Redis, RedisCluster, RedisKind, RedisTls, Sentinels},
    scratch::{Medium, Scratch},
    tcp::{Moment, TcpProxy, Towards, Trap},
    tools::{Tools, tools},
};
