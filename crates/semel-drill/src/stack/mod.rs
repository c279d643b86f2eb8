//! Drilling Semel itself: gateways, a store and an upstream under trouble.
