//! The report says the same in three forms, and each is well-formed.

use std::{path::Path, time::Duration};

use semel_drill::{
    http::{Answer, Exchange, Got, Request, scenario::Rule},
    plan::{Contract, Secrets},
    report::{Ended, Outcome, Report, Show, Verdict, WIDTH_MAX},
};

const KEPT: Rule = Rule { name: "control", says: "Each intent is counted once." };
const BROKEN: Rule = Rule {
    name: "race",
    says: "Of equal requests that come at the same moment one runs; the others get its answer, or are \
           told to come again.",
};
const NOT_TRIED: Rule = Rule { name: "late", says: "A late retry meets what is documented." };
const FAILED: Rule = Rule { name: "crash", says: "A retry after a crash comes to one effect." };

fn exchange(what: &str, body: &[u8], got: Got) -> Exchange {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let request = Request {
        method: "POST".to_owned(),
        path: "/payments?a=it's".to_owned(),
        headers: vec![
            header("content-type", "application/json"),
            header("authorization", "Bearer hunter2"),
            header("Idempotency-Key", "\"k-1\""),
            header("x-empty", ""),
        ],
        body: body.to_vec().into(),
    };
    let (sent_at, took) = (Duration::from_millis(3), Duration::from_millis(1250));
    Exchange { what: what.to_owned(), request, got, sent_at, took }
}

fn answer(status: u16, body: &[u8]) -> Answer {
    let headers = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        ("set-cookie".to_owned(), "session=hunter2".to_owned()),
        ("retry-after".to_owned(), "1".to_owned()),
    ];
    Answer { status, headers, body: body.to_vec().into() }
}

fn verdict(rule: Rule, ended: Ended, seen: &str, effects: &[u64]) -> Verdict {
    let effects = effects.iter().enumerate();
    let effects = effects.map(|(at, count)| (format!("drill-{at}"), *count)).collect();
    Verdict {
        rule,
        ended,
        seen: seen.to_owned(),
        effects,
        exchanges: Vec::new(),
        guilty: Vec::new(),
    }
}

fn report() -> Report {
    let mut broken = verdict(
        BROKEN,
        Ended::Broken("2 effects".to_owned()),
        "2 effects after 20 equals at once in round 1, and 1 would be right; one of them said \u{1b}[31m",
        &[1, 1, 2],
    );
    let body = br#"{"order":"drill-2","note":"a < b & c"}"#;
    broken.exchanges = vec![
        exchange("round 1", body, Got::Answer(answer(201, b"{\"id\":1,\n\"n\":\"\x1b\"}"))),
        exchange("round 1", b"\xff\xfe", Got::Swallowed(answer(500, b"\xff"))),
        exchange("round 1", b"", Got::HungUp),
        exchange("the retry", body, Got::Broken("connection reset".to_owned())),
        exchange("the retry", body, Got::TimedOut),
    ];
    let mut kept = verdict(KEPT, Ended::Kept, "each intent was counted once", &[1]);
    kept.exchanges = vec![exchange("the first", body, Got::Answer(answer(201, b"{}")))];
    let (missing, away) =
        ("the plan has no `lifetime.replay_for`", "cannot connect to 127.0.0.1:9");
    Report {
        name: "payments & more".to_owned(),
        target: "http://127.0.0.1:8080".to_owned(),
        program: None,
        contract: Some(Contract::Ietf),
        seed: 7,
        took: Duration::from_millis(61_250),
        verdicts: vec![
            kept,
            broken,
            verdict(NOT_TRIED, Ended::NotTried(missing.to_owned()), missing, &[]),
            verdict(FAILED, Ended::Failed(away.to_owned()), away, &[]),
        ],
        interrupted: false,
        not_reached: Vec::new(),
        secrets: Secrets::default(),
    }
}

/// Compares with a golden, and writes what was seen beside the test's other files when it differs.
#[track_caller]
fn golden(name: &str, seen: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/testdata");
    let wanted = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    if wanted != seen {
        let beside = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&beside, seen).unwrap();
        panic!("testdata/{name} says something else; what was seen is in {}", beside.display());
    }
}

#[test]
fn the_table_shows_what_is_broken_with_commands_to_repeat_it() {
    let table = report().table(Show::Broken, WIDTH_MAX) + "\n";
    golden("report.txt", &table);
    assert!(!table.contains("hunter2"));
    assert!(!table.contains(|c: char| c.is_control() && c != '\n'));
    let rows = table.lines().take_while(|line| !line.is_empty());
    assert!(rows.clone().count() > 5);
    assert!(rows.clone().all(|row| row.chars().count() <= 120), "{table}");
}

#[test]
fn the_table_fits_a_narrow_terminal() {
    let table = report().table(Show::Broken, 80);
    let verdicts = table.split("\n\n").next().unwrap();
    assert!(verdicts.lines().all(|line| line.chars().count() <= 80), "{table}");
}

#[test]
fn what_is_kept_is_shown_with_its_exchanges_when_asked_for() {
    let (some, all) =
        (report().table(Show::Broken, WIDTH_MAX), report().table(Show::All, WIDTH_MAX));
    assert!(!some.contains("the first (at"), "{some}");
    assert!(all.contains("the first (at"), "{all}");
}

#[test]
fn of_many_exchanges_the_first_and_the_last_are_shown() {
    let mut report = report();
    let many = (0..100).map(|n| exchange(&format!("number {n}"), b"", Got::HungUp));
    report.verdicts[1].exchanges = many.collect();
    let table = report.table(Show::Broken, WIDTH_MAX);
    for shown in ["number 0 ", "number 7 ", "… 84 more like these", "number 92 ", "number 99 "] {
        assert!(table.contains(shown), "{shown}: {table}");
    }
    assert!(!table.contains("number 8 ") && !table.contains("number 91 "), "{table}");
}

#[test]
fn of_many_exchanges_those_of_the_intent_that_stands_out_are_shown() {
    let mut report = report();
    let sent = |n: usize| {
        let body = format!("{{\"order\":\"drill-{}\"}}", n % 40);
        exchange(&format!("number {n}"), body.as_bytes(), Got::HungUp)
    };
    let counts: Vec<_> = (0..40).map(|n| if n == 27 { 2 } else { 1 }).collect();
    report.verdicts[1] = verdict(BROKEN, Ended::Broken(String::new()), "2 effects", &counts);
    report.verdicts[1].exchanges = (0..120).map(sent).collect();
    let table = report.table(Show::Broken, WIDTH_MAX);
    let shown: Vec<_> = table.lines().filter(|line| line.contains(" number ")).collect();
    assert_eq!(shown.len(), 3, "{table}");
    for (line, number) in shown.iter().zip(["number 27 ", "number 67 ", "number 107 "]) {
        assert!(line.contains(number), "{table}");
    }
    assert!(table.contains("120 exchanges in all"), "{table}");
}

#[test]
fn the_json_holds_everything_but_secrets() {
    let json = serde_json::to_string_pretty(&report().json()).unwrap() + "\n";
    golden("report.json", &json);
    assert!(!json.contains("hunter2"));
}

#[test]
fn the_junit_file_is_well_formed_whatever_was_answered() {
    let junit = report().junit();
    golden("report.xml", &junit);
    assert!(!junit.contains("hunter2"));
    assert!(!junit.contains(|c: char| c.is_control() && c != '\n'));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &junit).unwrap();
    let read = "import sys, xml.etree.ElementTree as t\n\
                s = t.parse(sys.argv[1]).getroot().find('testsuite')\n\
                print(s.get('tests'), len(s.findall('testcase/failure')), \
                len(s.findall('testcase/error')), len(s.findall('testcase/skipped')))";
    let python = std::process::Command::new("python3").args(["-c", read]).arg(file.path()).output();
    let python = python.unwrap();
    let (out, told) = (String::from_utf8_lossy(&python.stdout), python.stderr);
    assert_eq!(out.trim(), "4 1 1 1", "{}", String::from_utf8_lossy(&told));
}

#[test]
fn the_outcome_follows_from_the_worst_verdict() {
    let of = |rules: &[Ended], interrupted: bool| {
        let mut report = report();
        let verdicts = rules.iter().map(|ended| verdict(KEPT, ended.clone(), "", &[]));
        report.verdicts = verdicts.collect();
        report.interrupted = interrupted;
        report.outcome()
    };
    let (kept, why) = (Ended::Kept, String::new);
    let (broken, failed) = (Ended::Broken(why()), Ended::Failed(why()));
    let not_tried = Ended::NotTried(why());
    assert_eq!(of(&[kept.clone(), kept.clone(), not_tried.clone()], false), Outcome::Kept);
    assert_eq!(of(&[kept.clone(), kept.clone()], true), Outcome::NotFoundOut);
    assert_eq!(of(&[kept.clone(), not_tried], false), Outcome::NotFoundOut);
    assert_eq!(of(&[kept.clone(), kept, failed.clone()], false), Outcome::NotFoundOut);
    assert_eq!(of(&[failed, broken], false), Outcome::Broken);
    assert_eq!(of(&[], false), Outcome::NotFoundOut);
}
