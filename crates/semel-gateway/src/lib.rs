//! The semel gateway: an idempotency proxy for any HTTP API.
