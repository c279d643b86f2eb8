//! The reference pages say what the code says.

use semel_drill::{
    consumer,
    http::scenario,
    plan::{BUILTIN, consumer_reference_page, reference_page},
    report::rules_page,
};

#[test]
fn the_reference_of_the_plan_is_that_of_the_code() {
    let page = include_str!("../../../../docs/reference/drill-plan.md");
    assert!(
        page == reference_page(),
        "write it anew: semel-drill plan reference > docs/reference/drill-plan.md"
    );
}

#[test]
fn the_reference_of_a_consumers_plan_is_that_of_the_code() {
    let page = include_str!("../../../../docs/reference/drill-consumer-plan.md");
    assert!(
        page == consumer_reference_page(),
        "write it anew: semel-drill plan reference consumer > docs/reference/drill-consumer-plan.md"
    );
}

#[test]
fn the_page_of_a_consumers_drill_has_every_rule() {
    let page = include_str!("../../../../docs/reference/drill-consumer.md");
    let rules = rules_page(consumer::rules());
    let how = "put the rules in: semel-drill rules consumer --markdown";
    assert!(page.contains(&rules), "{how}\n{rules}");
}

#[test]
fn the_page_of_the_command_has_every_rule_and_every_built_in_plan() {
    let page = include_str!("../../../../docs/reference/drill.md");
    let rules = rules_page(scenario::rules());
    assert!(page.contains(&rules), "put the rules in: semel-drill rules --markdown\n{rules}");
    for plan in BUILTIN {
        let row = format!("| `{}` | {} |", plan.name, plan.about);
        assert!(page.contains(&row), "docs/reference/drill.md lacks: {row}");
    }
}
