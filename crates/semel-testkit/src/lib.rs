//! Conformance, faults, clocks and private servers for testing Semel and its stores.
