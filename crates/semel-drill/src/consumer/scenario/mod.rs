//! What is tried of a consumer: one file per kind of repetition.

mod batch;
mod content;
mod copies;
mod delivery;
mod ends;
mod later;
mod order;
mod poison;
mod storm;

use super::Consumer;
use crate::http::scenario::{Rule, Scenario, control::Control};

/// Without it no other verdict is believed.
pub(super) const CONTROL: Rule = Rule {
    name: "control",
    says: "Two messages are counted one each, and the same content in a new message is counted again: \
           the counting could see a duplicate.",
};

/// Every rule, in the order in which they are tried.
const RULES: [Rule; 16] = [
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
    let counting = Control {
        rule: CONTROL,
        first: "the first message",
        second: "the second message",
        again: "the second message's content under a new id",
    };
    vec![
        Box::new(counting),
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
