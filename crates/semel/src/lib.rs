//! Engine of Semel: claims, permits, outcomes and the decision what a repeated intent meets.
