//! The verdict: what the ledger says against what each step promised. It is pure, so that a double
//! charge can be shown to it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{api::payment_id, ledger::Charges};

/// What must hold for an intent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Expect {
    /// It went past the gateway and must be charged more than once: a ledger that does not show that
    /// could not show anything.
    Several,
    /// It is charged exactly once, and its caller was told of that charge.
    Once,
}

/// One thing that somebody wanted to happen once.
#[derive(Clone, Debug)]
pub(super) struct Intent {
    pub(super) order: String,
    pub(super) expect: Expect,
    /// The payment that the caller was told of in the end.
    pub(super) told: Option<String>,
}

impl Intent {
    pub(super) fn once(order: &str, told: Option<String>) -> Self {
        Self { order: order.to_owned(), expect: Expect::Once, told }
    }
}

/// One step of the run, before it is judged.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) what: &'static str,
    pub(super) requests: usize,
    /// What came back, in words.
    pub(super) answers: String,
    pub(super) intents: Vec<Intent>,
    /// What was wrong with the answers.
    pub(super) faults: Vec<String>,
}

/// One step, judged.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) what: &'static str,
    pub(crate) intents: usize,
    pub(crate) requests: usize,
    pub(crate) answers: String,
    pub(crate) charges: u64,
    pub(crate) faults: Vec<String>,
    /// Whether it is the step without the gateway.
    pub(crate) control: bool,
}

/// The whole run, judged.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) steps: Vec<Judged>,
    /// How often the gateway was killed.
    pub(crate) kills: usize,
}

impl Report {
    /// Judges every step by the ledger.
    pub(super) fn new(rows: Vec<Row>, charges: &BTreeMap<String, Charges>, kills: usize) -> Self {
        Self { steps: rows.into_iter().map(|row| judged(row, charges)).collect(), kills }
    }

    /// Says whether every intent was charged exactly once, and every answer was as promised.
    pub(crate) fn is_fine(&self) -> bool {
        self.steps.iter().all(|step| step.faults.is_empty())
    }

    pub(crate) fn json(&self) -> Value {
        let steps: Vec<_> = self
            .steps
            .iter()
            .map(|step| {
                json!({
                    "step": step.what,
                    "through_semel": !step.control,
                    "intents": step.intents,
                    "requests": step.requests,
                    "answers": step.answers,
                    "charges": step.charges,
                    "faults": step.faults,
                })
            })
            .collect();
        json!({ "fine": self.is_fine(), "kills": self.kills, "steps": steps })
    }
}

fn judged(row: Row, charges: &BTreeMap<String, Charges>) -> Judged {
    let mut faults = row.faults;
    let mut total = 0;
    for intent in &row.intents {
        let charged = charges.get(&intent.order);
        total += charged.map_or(0, |charged| charged.count);
        faults.extend(fault(intent, charged));
    }
    Judged {
        what: row.what,
        intents: row.intents.len(),
        requests: row.requests,
        answers: row.answers,
        charges: total,
        faults,
        control: row.intents.iter().any(|intent| intent.expect == Expect::Several),
    }
}

fn fault(intent: &Intent, charged: Option<&Charges>) -> Option<String> {
    let order = &intent.order;
    let count = charged.map_or(0, |charged| charged.count);
    match intent.expect {
        Expect::Several if count < 2 => Some(format!(
            "{order} went past the gateway and was charged {count} times: this run could not see a \
             double charge"
        )),
        Expect::Several => None,
        Expect::Once if count == 0 => Some(format!("{order} was lost: it was never charged")),
        Expect::Once if count > 1 => Some(format!("{order} was charged {count} times")),
        Expect::Once => {
            let wanted = charged.map(|charged| payment_id(charged.first));
            match (&intent.told, wanted) {
                (Some(told), Some(wanted)) if *told == wanted => None,
                (Some(told), _) => {
                    Some(format!("{order}: its caller was told of {told}, which is not its charge"))
                }
                (None, _) => Some(format!("{order}: its caller was never told of the charge")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(intents: Vec<Intent>) -> Row {
        Row { what: "step", requests: 1, answers: String::new(), intents, faults: Vec::new() }
    }

    fn control(order: &str) -> Intent {
        Intent { order: order.to_owned(), expect: Expect::Several, told: None }
    }

    /// Judges one intent whose caller was told of `pay_1`.
    fn check(intent: Intent, charges: &[(&str, u64)], fault: Option<&str>) {
        let charges = charges
            .iter()
            .map(|(order, count)| ((*order).to_owned(), Charges { count: *count, first: 1 }))
            .collect();
        let report = Report::new(vec![row(vec![intent])], &charges, 0);
        assert_eq!(report.is_fine(), fault.is_none());
        let faults = report.steps[0].faults.join("\n");
        assert!(faults.contains(fault.unwrap_or_default()), "{faults}");
    }

    #[test]
    fn an_intent_charged_once_and_told_is_fine() {
        check(Intent::once("a", Some("pay_1".into())), &[("a", 1)], None);
    }

    #[test]
    fn a_double_charge_is_seen() {
        check(Intent::once("a", Some("pay_1".into())), &[("a", 2)], Some("charged 2 times"));
    }

    #[test]
    fn a_lost_intent_is_seen() {
        check(Intent::once("a", Some("pay_1".into())), &[("b", 1)], Some("never charged"));
    }

    #[test]
    fn an_answer_about_another_charge_is_seen() {
        check(Intent::once("a", Some("pay_9".into())), &[("a", 1)], Some("not its charge"));
        check(Intent::once("a", None), &[("a", 1)], Some("never told"));
    }

    #[test]
    fn a_ledger_that_shows_no_double_charge_without_semel_is_no_proof() {
        check(control("a"), &[("a", 1)], Some("could not see a double charge"));
        check(control("a"), &[("a", 20)], None);
    }

    #[test]
    fn a_wrong_answer_is_enough_to_fail() {
        let mut row = row(vec![Intent::once("a", Some("pay_1".into()))]);
        row.faults.push("500".into());
        let charges = [("a".to_owned(), Charges { count: 1, first: 1 })].into();
        assert!(!Report::new(vec![row], &charges, 0).is_fine());
    }
}
