//! The list of targets. What each promises stands at the head of its file.

mod answers;
mod bodies;
mod canonicaliser;
mod client;
mod codec;
mod command_line;
mod config;
mod drill_plan;
mod events;
mod file;
mod forms;
mod headers;
mod inbox_rows;
mod kafka_records;
mod key;
mod outbox_rows;
mod permit;
mod pointers;
mod routes;
mod rows;
mod secrets;
mod slot;
mod spans;
mod status;
mod stores;
mod upstream;

use crate::Target;

/// Lists targets by the names of their modules.
macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        /// Every target.
        pub const TARGETS: &[Target] =
            &[$(Target { name: stringify!($name), run: $name::run }),*];
    };
}

targets! { answers, bodies, canonicaliser, client, codec, command_line, config, drill_plan, events, file, forms, headers, inbox_rows, kafka_records, key, outbox_rows, permit, pointers, routes, rows, secrets, slot, spans, status, stores, upstream }
