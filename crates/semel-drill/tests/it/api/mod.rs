//! A small API of orders that keeps its keys well, and can be told to keep them badly.

mod fault;
mod keys;
mod serve;
mod shop;

pub(crate) use self::{
    fault::Fault,
    serve::{Api, PLAN, plan, right_api, short_lived_plan, unprotected_api},
};
