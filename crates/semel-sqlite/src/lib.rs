//! Semel on one SQLite file: the embedded default.
