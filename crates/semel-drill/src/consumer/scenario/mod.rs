//! What is tried of a consumer: one file per kind of repetition.

mod batch;
mod content;
mod control;
mod copies;
mod delivery;
mod early;
mod ends;
mod later;
mod order;
mod poison;
mod storm;

pub(super) use self::control::CONTROL;
use super::Consumer;
use crate::http::scenario::{Rule, Scenario};

/// Every rule, in the order in which they are tried.
const RULES: [Rule; 17] = [
    CONTROL,
    copies::COPY,
    copies::LOST_ACK,
    copies::COPIES_AT_ONCE,
    copies::CUT_SHORT,
    content::OTHER_CONTENT,
    batch::REWIND,
    batch::BATCH,
    order::OUT_OF_ORDER,
    poison::POISON,
    poison::FAILS_FIRST,
    later::LATER,
    early::EARLY_ACK,
    ends::CRASH,
    ends::RESTART,
    storm::STORM,
    later::LASTING,
];

/// Returns every rule of a consumer.
pub fn rules() -> impl Iterator<Item = Rule> {
    RULES.into_iter()
}

pub(super) fn all(of: &Consumer) -> Vec<Box<dyn Scenario + '_>> {
    vec![
        Box::new(control::Control),
        Box::new(copies::Copy),
        Box::new(copies::LostAck),
        Box::new(copies::CopiesAtOnce),
        Box::new(copies::CutShort),
        Box::new(content::OtherContent(of)),
        Box::new(batch::Rewind),
        Box::new(batch::Batch(of)),
        Box::new(order::OutOfOrder(of)),
        Box::new(poison::Poison(of)),
        Box::new(poison::FailsFirst(of)),
        Box::new(later::Later(of)),
        Box::new(early::EarlyAck),
        Box::new(ends::Crash),
        Box::new(ends::Restart),
        Box::new(storm::Storm(of)),
        Box::new(later::Lasting),
    ]
}

/// Says that the plan has none of a setting.
fn lacks(has: bool, setting: &str) -> Option<String> {
    (!has).then(|| format!("the plan has no `{setting}`"))
}
