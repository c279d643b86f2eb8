//! `semel demo`: a small payments API behind the gateway, and a run that tries to make it charge
//! twice.
//!
//! The API is as naive as they come: every POST adds a row to its ledger. The verdict counts rows of
//! the ledger, never answers.

mod api;
mod client;
mod crash;
mod gateway;
mod ledger;
mod scenes;
mod setup;
mod stage;
mod storm;
mod verdict;

pub(crate) use self::{
    api::Api,
    ledger::Ledger,
    setup::Setup,
    stage::{Stage, StageError, run_name},
    verdict::Report,
};
