//! Any text as the plan of a drill, of an API or of a consumer: every problem has a place in the text and one sentence, they stand in its order, the
//! same text has the same problems, and what is not refused names its intents and expects an answer.

use semel_drill::plan::{ConsumerPlan, Names, Plan, PlanError, fill, fill_path, fill_pointer};

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Plan::parse(text) {
        Ok(plan) => can_be_drilled(&plan),
        Err(error) => {
            placed(text, &error);
            assert_eq!(Plan::parse(text).err(), Some(error), "the same text has the same problems");
        }
    }
    match ConsumerPlan::parse(text) {
        Ok(plan) => {
            let message = [&plan.message.path, &plan.message.body].into_iter();
            let mut texts = message.chain(plan.message.headers.values());
            assert!(
                texts.any(|text| text.contains("{{intent}}")),
                "the intents cannot be told apart"
            );
        }
        Err(error) => {
            placed(text, &error);
            let again = ConsumerPlan::parse(text).err();
            assert_eq!(again, Some(error), "the same text has the same problems");
        }
    }
}

fn placed(text: &str, error: &PlanError) {
    assert!(!error.problems.is_empty(), "a refusal says why");
    let lines: Vec<_> = text.split('\n').collect();
    let mut before = (0, 0);
    for problem in &error.problems {
        let line = problem.line.checked_sub(1).and_then(|line| lines.get(line));
        let length = line.expect("the line is in the text").chars().count();
        assert!((1..=length + 1).contains(&problem.column), "{problem:?}");
        assert!(!problem.message.is_empty(), "{problem:?}");
        assert!(
            !problem.message.contains(char::is_control),
            "one sentence has one line: {problem:?}"
        );
        let place = (problem.line, problem.column);
        assert!(place >= before, "{problem:?} stands before {before:?}");
        before = place;
    }
    assert_eq!(error.to_string().lines().count(), error.problems.len(), "{error}");
}

/// Two intents are asked for by two requests, and none of their templates is left.
fn can_be_drilled(plan: &Plan) {
    let expected = plan.expected();
    assert!(!expected.first.is_empty() && !expected.key.header.is_empty());
    assert!(!expected.other_operation.is_empty() && !expected.reformatted.is_empty());
    let names = |intent: &str| {
        let (intent, id) = (intent.into(), Some("7".into()));
        Names { intent, key: "k".into(), id, ..Names::default() }
    };
    let asked = |names: &Names| {
        let request = &plan.request;
        (fill_path(&request.path, names), fill(&request.body, names))
    };
    let (one, other) = (asked(&names("one")), asked(&names("two")));
    assert_ne!(one, other, "the intents cannot be told apart");
    for text in [one.0, one.1, fill_pointer(&plan.effects.pointer, &names("one"))] {
        assert!(!text.contains("{{intent}}") && !text.contains("{{key}}"), "{text}");
    }
}
