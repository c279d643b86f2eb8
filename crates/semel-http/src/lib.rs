//! Semel at the HTTP boundary: a tower layer and axum helpers.
