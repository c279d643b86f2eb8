//! Programs a newcomer can run.
