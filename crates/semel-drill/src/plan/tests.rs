//! What a plan is told when it cannot be used, and what it says when it can.

use std::time::Duration;

use super::*;

const GOOD: &str = r#"
name = "payments"

[request]
path = "/payments"
body = '{"order":"{{intent}}","amount":10}'

[effects]
url = "/ledger"
pointer = "/charges/{{intent}}"
"#;

fn with(more: &str) -> String {
    format!("{GOOD}{more}")
}

#[track_caller]
fn problems(text: &str) -> Vec<String> {
    let error = Plan::parse(text).expect_err("the plan must be refused");
    let shown =
        |problem: Problem| format!("{}:{} {}", problem.line, problem.column, problem.message);
    error.problems.into_iter().map(shown).collect()
}

/// Refused with one problem whose sentence holds `says`.
#[track_caller]
fn refused(text: &str, says: &str) {
    let problems = problems(text);
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert!(problems[0].contains(says), "{}", problems[0]);
}

#[test]
fn a_small_plan_is_enough_and_the_rest_has_defaults() {
    let plan = Plan::parse(GOOD).unwrap();
    assert_eq!((plan.request.method.as_str(), plan.bounds.racers), ("POST", 20));
    assert_eq!(plan.bounds.answer_wait, Duration::from_secs(30));
    assert_eq!(plan.key_header(), "idempotency-key");
    let expected = plan.expected();
    assert_eq!((&expected.mismatch[..], &expected.in_progress[..]), (&[422][..], &[409][..]));
    assert_eq!(expected.key.style, KeyStyle::Quoted);
}

#[test]
fn a_slip_of_the_pen_is_told_with_its_place_and_the_nearest_name() {
    let racer = problems(&with("[bounds]\nracer = 3\n"));
    assert_eq!(racer, ["12:1 there is no setting `bounds.racer`; did you mean `racers`?"]);
    let word = problems(&format!("contract = \"strip\"{GOOD}"));
    assert_eq!(
        word,
        [
            "1:12 `contract` is \"strip\"; it must be one of \"ietf\", \"stripe\", \"semel\"; did you \
          mean `stripe`?"
        ]
    );
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let text = "name = \"\"\nkye = 1\n[request]\npath = \"payments\"\n[bounds]\nracers = 501\n";
    let error = Plan::parse(text).expect_err("the plan must be refused");
    let mut settings: Vec<_> = error.problems.iter().map(|found| found.setting.as_str()).collect();
    settings.sort_unstable();
    assert_eq!(
        settings,
        ["bounds.racers", "effects", "kye", "name", "request.body", "request.path"]
    );
    let lines: Vec<_> = error.problems.iter().map(|found| found.line).collect();
    assert!(lines.is_sorted(), "in the order of the file: {lines:?}");
}

#[test]
fn the_problems_of_types_are_told_at_once_too() {
    let told = problems("name = 7\n[request]\nmethod = 1\n[bounds]\nracers = \"many\"\n");
    assert_eq!(told.len(), 4, "{told:#?}");
}

#[test]
fn a_plan_that_could_count_nothing_is_refused() {
    refused(
        &GOOD.replace("{{intent}}\",\"amount", "x\",\"amount"),
        "its effects could not be counted",
    );
    refused(
        &GOOD.replace("/charges/{{intent}}", "/charges"),
        "could not be told from those of others",
    );
    refused(
        &GOOD.replace("url = \"/ledger\"", "").replace("pointer", "#"),
        "says nowhere how to count",
    );
    let sql = "database = \"sqlite:x.db\"\nsql = \"select 1\"\n";
    refused(&GOOD.replace("url = \"/ledger\"", sql).replace("pointer", "#"), "holds no `$1`");
    refused(&with("sql = \"select $1\"\n"), "count in one place");
    refused(&with("[variants]\nchanged = '{}'\n"), "names no `{{intent}}`");
}

#[test]
fn a_path_that_names_the_intent_is_enough() {
    let put = GOOD
        .replace("path = \"/payments\"", "method = \"PUT\"\npath = \"/payments/{{intent}}\"")
        .replace("body = '{\"order\":\"{{intent}}\",\"amount\":10}'", "body = '{\"amount\":10}'");
    let plan = Plan::parse(&put).unwrap();
    assert_eq!(plan.request.body, "{\"amount\":10}");
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let cases = [
        (
            "[variants]\nchanged = '{\"order\":\"{{intent}}\",\"amount\":10}'\n",
            "the same bytes again",
        ),
        ("[variants]\ntwins = ['{{intent}}', '{{intent}}']\n", "the same bytes again"),
        ("[variants]\ntwins = ['{{intent}}']\n", "a list of two texts"),
        (
            "[variants]\ntwins = ['{\"a\":[\"{{intent}}\",1]}', '{\"a\":[\"{{intent}}\",2]}']\n",
            "differ also where every number is a double",
        ),
        ("[variants]\nslow = '{{intent}} {{id}}'\n", "has no `{{id}}` yet"),
        ("[variants]\nslow = '{{intent}} {{keys}}'\n", "did you mean key?"),
        ("[answers]\nmismatch = 200\n", "could not be told from the other"),
        ("[answers]\nfirst = [200, 600]\n", "a status from 100 to 599"),
        ("[answers]\nfirst = []\n", "a status from 100 to 599"),
        ("[lifetime]\nreplay_for = \"1s\"\n", "`lifetime.late` is not set"),
        ("[lifetime]\nreplay_for = \"1s\"\nlate = \"refused\"\n", "`answers.late` is not set"),
        ("[lifetime]\nreplay_for = 60\n", "a duration with its unit"),
        ("[tenant]\n", "nothing would make the caller another"),
        ("[tenant]\nheaders = { \"a b\" = \"x\" }\n", "is no name of a header"),
        ("[tenant]\nheaders = { host = \"x\" }\n", "the drill sends `host` itself"),
        ("[other]\npath = \"/payments\"\nbody = \"{{intent}}\"\n", "is the same operation"),
        ("[other]\nbody = \"{{intent}}\"\n", "`other.path` is not set"),
        ("[resource]\nid = \"/id\"\n", "there is nothing to try"),
        (
            "[resource]\ndelete = { method = \"DELETE\", path = \"/x/{{id}}\" }\n",
            "`resource.id` is not",
        ),
        ("[resource]\nid = \"id\"\ndelete = { path = \"/x/{{id}}\" }\n", "must be a JSON pointer"),
        ("[process]\nstart = []\nready = \"/\"\n", "must begin with a program"),
        ("[key]\nmax_length = 0\n", "from 1 to 8192"),
        ("[key]\nmax_length = 37\n", "have 38 characters"),
        ("[key]\nstyle = \"uuid\"\nmax_length = 35\n", "have 36 characters"),
        ("[lifetime]\nlate = \"runs\"\n", "says nothing without `lifetime.replay_for`"),
        ("[answers]\nfirst = []\n", "a list of at least one"),
        ("[bounds]\nanswer_wait = \"0s\"\n", "more than 0"),
        ("[bounds]\nstorm = -1\n", "a whole number from 0"),
        ("[bounds]\nanswer_wait = \"11m\"\n", "up to 10 minutes"),
        ("[bounds]\npatience = \"25h\"\n", "up to 24 hours"),
        ("[bounds]\nstorm = 5001\n", "from 1 to 5000"),
    ];
    for (more, says) in cases {
        refused(&with(more), says);
    }
    refused(&format!("target = \"127.0.0.1:80\"{GOOD}"), "must be an http or https URL");
    refused("name = ", "this is not TOML");
    refused(&format!("target = \"http://u:pw@h/\"{GOOD}"), "without a user");
    let own = "path = \"/payments\"\nheaders = { X-Who = \"a\", x-b = \"c\" }";
    let same =
        GOOD.replace("path = \"/payments\"", own) + "[tenant]\nheaders = { x-who = \"a\" }\n";
    refused(&same, "are those of `request`");
    Plan::parse(&same.replace("x-who = \"a\"", "x-who = \"b\"")).unwrap();
}

#[test]
fn the_plan_says_what_the_contract_leaves_open() {
    let text =
        format!("contract = \"stripe\"{}", with("[answers]\nmismatch = [409, 422]\nretry = 425\n"));
    let expected = Plan::parse(&text).unwrap().expected();
    assert_eq!(expected.mismatch, [409, 422]);
    assert_eq!(expected.retry, [409, 425, 429, 503]);
    assert_eq!(expected.other_operation, [Other::Mismatch]);
    assert_eq!(expected.late_retry, Late::Runs);
    assert_eq!(expected.key.max_length, Some(255));
    let own = "[answers]\nreplay_header = [\"X-Replayed\", \"yes\"]\nreformatted = \"same\"\n";
    let expected = Plan::parse(&with(own)).unwrap().expected();
    assert_eq!(expected.replay_header, Some(("x-replayed".into(), "yes".into())));
    assert_eq!(expected.reformatted, [Other::Same]);
}

#[test]
fn a_variable_is_put_in_masked_and_missed_by_name() {
    let text = GOOD.replace(
        "[effects]",
        "headers = { X-Caller = \"{{env:DRILL_CALLER}}\" }\n[effects]\nheaders = { a = \"{{env:NONE}}\" }",
    );
    let missing = Plan::parse_in(
        &text,
        Path::new(""),
        Some(&|name| (name == "DRILL_CALLER").then(|| "a caller's secret".to_owned())),
    );
    let says = missing.expect_err("one variable is not set").to_string();
    assert!(says.contains("names the variable `NONE`, which is not set"), "{says}");
    assert!(!says.contains("DRILL_CALLER"), "{says}");

    let plan =
        Plan::parse_in(&text, Path::new(""), Some(&|_| Some("a caller's secret".to_owned())));
    let plan = plan.unwrap();
    assert_eq!(plan.request.headers["X-Caller"], "a caller's secret");
    assert_eq!(plan.secrets.masked_header("x-caller", "anything"), "***");
    assert_eq!(plan.secrets.masked("so a caller's secret stands here"), "so *** stands here");
    assert_eq!(Plan::parse(&text).unwrap().request.headers["X-Caller"], "{{env:DRILL_CALLER}}");
}

#[test]
fn files_start_at_the_folder_of_the_plan() {
    let text = GOOD.replace("url = \"/ledger\"", "database = \"sqlite:a.db\"\nsql = \"select $1\"");
    let text = text.replace("pointer", "#")
        + "[process]\nstart = [\"./api\"]\nfolder = \"run\"\nready = \"/\"\n";
    let plan = Plan::parse_in(&text, Path::new("plans"), None).unwrap();
    assert_eq!(plan.effects.database.as_deref(), Some("sqlite:plans/a.db"));
    assert_eq!(plan.process.unwrap().folder.as_deref(), Some(Path::new("plans/run")));
}

#[test]
fn every_built_in_plan_can_be_used() {
    for builtin in BUILTIN {
        let (expected, changed) = match builtin.of {
            Drilled::Http => {
                let plan = Plan::read(builtin.name).unwrap_or_else(|error| panic!("{error}"));
                (plan.expected(), plan.variants.changed)
            }
            Drilled::Consumer => {
                let plan = ConsumerPlan::read(builtin.name).unwrap_or_else(|why| panic!("{why}"));
                (plan.pushed().expected(), plan.variants.changed)
            }
        };
        assert!(!expected.first.is_empty());
        assert!(changed.is_some(), "{}", builtin.name);
    }
}

#[test]
fn a_plan_that_is_nowhere_is_told_with_the_nearest_name() {
    let says = Plan::read("strip").expect_err("there is no such plan").to_string();
    assert!(
        says.ends_with("the built-in plans are demo, ietf, stripe; did you mean `stripe`?"),
        "{says}"
    );
    assert!(says.starts_with("strip: it cannot be read ("), "{says}");
}

#[test]
fn what_somebody_names_a_key_makes_no_second_line_and_no_flood() {
    let told = problems(&format!("\"a\\nb\" = 1\n\"{}\" = 1\n{GOOD}", "x".repeat(100_000)));
    assert_eq!(told[0], "1:1 there is no setting `a\\nb`");
    assert!(told[1].ends_with("xxx…") && told[1].chars().count() < 450, "{}", told[1]);
    let many: String = (0..100_000).map(|n| format!("k{n} = 1\n")).collect();
    assert_eq!(problems(&(many + GOOD)).len(), 100);
}

/// Whatever is cut out of a plan, it is read, or refused at a place that it has.
#[test]
fn a_damaged_plan_is_read_or_refused_at_a_place() {
    for builtin in BUILTIN {
        let text = builtin.text;
        let lines = text.lines().count();
        for (at, c) in text.char_indices().step_by(5) {
            let after = &text[at + c.len_utf8()..];
            for damaged in [&text[..at], &format!("{}{after}", &text[..at])] {
                let Err(error) = Plan::parse(damaged) else { continue };
                assert!(!error.problems.is_empty());
                for problem in error.problems {
                    assert!((1..=lines + 1).contains(&problem.line), "{problem:?}");
                    assert!(!problem.message.is_empty() && !problem.message.contains('\n'));
                }
            }
        }
    }
}
