//! `semel-drill consumer`, run as a process.

use semel_drill::plan::{BUILTIN, ConsumerPlan, Drilled, kind_of};
use serde_json::Value;

use super::{PLAN, plan};
use crate::cli::{Demo, check, drill, written};

/// The payments of `semel demo`, as what consumes events: behind the gateway each event charges once, and
/// the API alone charges for each copy.
#[test]
fn a_gateway_makes_a_consumer_of_an_api_that_knows_no_copies() {
    let (demo, folder) = (Demo::start(), tempfile::tempdir().unwrap());
    let junit = folder.path().join("drill.xml");
    let options = ["--target", &demo.gateway, "--json", "--junit", junit.to_str().unwrap()];
    let output = drill(&[&["consumer", "--plan", "demo-events"], &options[..]].concat());
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["outcome"], &json["contract"]), (&"kept".into(), &Value::Null));
    assert_eq!((&json["counts"]["kept"], &json["counts"]["not_tried"]), (&11.into(), &6.into()));
    let sent = json["rules"][0]["exchanges"][0]["request"]["headers"].as_array().unwrap();
    let sent: Vec<_> = sent.iter().map(|header| header[0].as_str().unwrap()).collect();
    assert!(sent.contains(&"ce-id") && sent.contains(&"idempotency-key"), "{sent:?}");
    let junit = std::fs::read_to_string(junit).unwrap();
    assert_eq!(junit.matches("<testcase ").count(), 17, "{junit}");

    let only = ["--only", "copy", "--target", &demo.api];
    let output = drill(&[&["consumer", "--plan", "demo-events"], &only[..]].concat());
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{table}");
    assert!(table.contains("\nBROKEN  copy\n") && table.contains("curl -i -X POST"), "{table}");
}

#[test]
fn what_is_wrong_with_a_consumers_drill_ends_with_2() {
    let (folder, messages) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let api = written(folder.path(), "name = \"x\"\n[request]\npath = \"/\"\n");
    let messages = written(messages.path(), PLAN);
    for (arguments, says) in [
        (&["consumer", "--plan", "cloudevents", "--only", "copi"][..], "did you mean `copy`?"),
        (&["consumer", "--plan", "dmo"], "the built-in plans are cloudevents, demo-events"),
        (&["consumer", "--plan", "demo"], "the plan of an API: `semel-drill http --plan demo`"),
        (&["consumer", "--plan", &api], "this is the plan of an API: `semel-drill http --plan "),
        (&["http", "--plan", &messages], "this is the plan of a consumer: `semel-drill consumer"),
        (&["http", "--plan", "clodevents"], "the built-in plans are demo, ietf, stripe"),
        (
            &["http", "--plan", "cloudevents"],
            "this is the plan of a consumer: `semel-drill consumer",
        ),
    ] {
        check(arguments, 2, says);
    }
}

#[test]
fn a_plan_for_a_consumer_is_known_by_its_message() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), PLAN);
    assert_eq!(kind_of(&file), Drilled::Consumer);
    let checked = String::from_utf8(drill(&["plan", "check", &file]).stdout).unwrap();
    assert!(
        checked.contains("billing: 14 of 17 rules can be tried; it names no target"),
        "{checked}"
    );
    for builtin in BUILTIN {
        assert_eq!(kind_of(builtin.name), builtin.of);
    }
    let rules = String::from_utf8(drill(&["rules", "consumer"]).stdout).unwrap();
    assert!(rules.contains("lost-ack") && !rules.contains("lost-answer"), "{rules}");
}

/// What is wrong with a plan is told where it stands.
#[test]
fn everything_that_is_wrong_with_a_plan_is_told_at_once() {
    let wrong = |from: &str, to: &str| {
        let text = PLAN.replace(from, to);
        assert_ne!(text, PLAN);
        ConsumerPlan::parse(&text).map_or_else(|error| error.to_string(), |_| "nothing".to_owned())
    };
    for (from, to, says) in [
        ("event = ", "format = \"plain\"\nevent = ", "no copy could be told from another message"),
        (
            "body = '{\"order\":\"{{intent}}\"",
            "body = '{\"order\":\"7\"",
            "names `{{intent}}` nowhere",
        ),
        ("{{intent}}\",\"amount\":\"a", "{{intend}}\",\"amount\":\"a", "did you mean intent?"),
        ("\"id\":\"{{id}}\",", "", "`batch.item` names no `{{id}}`"),
        ("/states/{{aggregate}}", "/states", "names `{{aggregate}}` neither in `url`"),
        ("deliveries = 4", "deliveries = 1", "`bounds.deliveries` must be from 2 to 100"),
        ("[bounds]", "[answers]\nrefused = [503]\n[bounds]", "statuses from 400 to 499"),
        ("path = \"/events\"", "path = \"events\"", "must begin with \"/\""),
        ("path = \"/events\"", "command = [\"x\"]", "messages go to a program: set `target`"),
    ] {
        let told = wrong(from, to);
        assert!(told.contains(says), "{from} → {to}: {told}");
    }
    assert_eq!(plan().bounds.racers, 8);
}
