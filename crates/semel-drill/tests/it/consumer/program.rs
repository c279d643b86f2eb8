//! Messages that are handed to a program, which hands them on.

use std::{net::SocketAddr, path::Path};

use semel_drill::{
    http::{How, Program, Request},
    report::Ended,
};

use super::{
    billing::{Desk, Fault, router},
    drilled, plan,
};
use crate::{
    api::Api,
    cli::{drill, written},
    faults::{rules, told},
};

/// Hands a message on, and waits until it is handled, as a script before a broker does.
const SCRIPT: &str = r#"status=$(curl -s -o /dev/null -w '%{http_code}' --data-binary @- \
    -H "ce-id: $CE_ID" -H "ce-subject: $CE_SUBJECT" -H "ce-aggregateversion: $CE_AGGREGATEVERSION" \
    "$0/events")
case $status in 2*) exit 0 ;; 422) exit 65 ;; *) echo "the consumer says $status" >&2; exit 1 ;; esac
"#;

/// A consumer behind a program.
async fn consumer(folder: &Path, fault: Option<Fault>) -> Api {
    let desk = Desk::open(&folder.join("billing.db"), fault);
    Api::of(SocketAddr::from(([127, 0, 0, 1], 0)), router(desk)).await
}

fn command(url: &str) -> Vec<String> {
    ["sh", "-c", SCRIPT, url].map(str::to_owned).into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_behind_a_program_is_drilled_by_the_same_rules() {
    let only = ["copy", "lost-ack", "cut-short", "other-content", "poison", "fails-first"];
    for (fault, red) in [(None, &[][..]), (Some(Fault::Naive), &only[..4])] {
        let folder = tempfile::tempdir().unwrap();
        let api = consumer(folder.path(), fault).await;
        let mut plan = plan();
        plan.message.command = command(&api.url());
        let verdicts = drilled(plan, &api.url(), &only).await;
        let broken = rules(&verdicts, |ended| matches!(ended, Ended::Broken(_)));
        let red: Vec<_> = match fault {
            None => red.to_vec(),
            Some(_) => red.iter().copied().chain(["fails-first"]).collect(),
        };
        assert_eq!(broken, red, "{}", told(&verdicts));
        let failed = rules(&verdicts, |ended| matches!(ended, Ended::Failed(_)));
        assert!(failed.is_empty(), "{}", told(&verdicts));
    }
}

#[tokio::test]
async fn a_program_says_by_its_exit_what_became_of_a_message() {
    let message = Request {
        method: "POST".into(),
        path: "/".into(),
        headers: vec![("ce-id".into(), "7".into())],
        body: "the body".into(),
    };
    let script = r#"echo "$CE_ID $(cat)"; exit "$0""#;
    for (code, status) in [("0", 200), ("65", 422), ("1", 500)] {
        let start = ["sh", "-c", script, code].map(str::to_owned).into();
        let got = Program { start, folder: None }.send(&message, How::Whole).await;
        let answer = got.answer().unwrap();
        assert_eq!((answer.status, &answer.body[..]), (status, &b"7 the body\n"[..]), "{code}");
    }
    let missing = Program { start: vec!["/no/such/program".into()], folder: None };
    let got = missing.send(&message, How::Whole).await;
    assert!(got.to_string().contains("`/no/such/program` does not start"), "{got}");
}

/// What is shown of a broken rule can be repeated in a shell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_to_a_program_is_shown_as_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let api = consumer(folder.path(), Some(Fault::Naive)).await;
    let url = api.url();
    let plan = format!(
        "name = \"billing\"\n[message]\ncommand = {:?}\n\
         body = '{{\"order\":\"{{{{intent}}}}\",\"amount\":1}}'\n\
         [effects]\nurl = \"{url}/effects/{{{{intent}}}}\"\npointer = \"/count\"\n",
        command(&url)
    );
    let file = written(folder.path(), &plan);
    let output = tokio::task::spawn_blocking(move || {
        drill(&["consumer", "--plan", &file, "--only", "copy"])
    });
    let output = output.await.unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{table}");
    assert!(table.contains(" CE_AGGREGATEVERSION='1' CE_ID='"), "{table}");
    assert!(table.contains("→ 200 (ended: exit status: 0)"), "{table}");
}
