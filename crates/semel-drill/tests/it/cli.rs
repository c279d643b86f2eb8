//! The command, run as a process: its exit codes, its output, and what it never shows.

use std::{
    fs,
    io::{BufRead, BufReader, Read, pipe},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const DRILL: &str = env!("CARGO_BIN_EXE_semel-drill");

/// `semel demo`: an API that charges whenever it is asked, and a gateway before it.
pub(crate) struct Demo {
    _process: Gateway,
    pub(crate) gateway: String,
    pub(crate) api: String,
}

impl Demo {
    pub(crate) fn start() -> Self {
        let mut demo = Command::new(DRILL);
        demo.args(["gateway", "demo", "--listen", "127.0.0.1:0"]);
        let mut process = demo.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut page = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut url = |before: &str, after: &str| {
            let line = page.find(|line| line.contains(before)).unwrap();
            let at = line.find("http://").unwrap();
            line[at..].strip_suffix(after).unwrap().to_owned()
        };
        let gateway = url("behind semel on", "");
        let api = url("What was really charged", "/ledger");
        Self { _process: Gateway(process), gateway, api }
    }
}

/// A process that ends with its test.
struct Gateway(Child);

impl Drop for Gateway {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Serves an API over TLS by a certificate for `localhost`, and returns the port.
fn over_tls(api: &str, folder: &Path) -> (Gateway, u16) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let config = format!(
        "listen = \"127.0.0.1:0\"\nstore = \"sqlite:semel.db\"\nreplay_auth = \"none\"\n\
         tls = {{ certificate = \"cert.pem\", key = \"key.pem\" }}\n\
         tenant = {{ source = \"single_tenant\" }}\n\
         [[upstream]]\nname = \"api\"\nurl = \"{api}\"\n\
         [[operation]]\nname = \"pay\"\nmethod = \"POST\"\npath = \"/payments\"\n"
    );
    fs::write(folder.join("semel.toml"), config).unwrap();
    let mut serve = Command::new(DRILL);
    serve.args(["gateway", "serve", "--config"]).arg(folder.join("semel.toml"));
    let mut gateway = Gateway(serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let said = BufReader::new(gateway.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = said.into_iter().find(|line| line.contains("listens on")).unwrap();
    let port = line.rsplit(':').next().unwrap().parse().unwrap();
    (gateway, port)
}

pub(crate) fn drill(arguments: &[&str]) -> Output {
    Command::new(DRILL).args(arguments).output().unwrap()
}

#[track_caller]
pub(crate) fn check(arguments: &[&str], code: i32, says: &str) {
    let output = drill(arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{told}");
    assert!(told.contains(says), "{arguments:?}\n{told}");
}

pub(crate) fn written(folder: &Path, text: &str) -> String {
    let file = folder.join("plan.toml");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn the_demo_behind_its_gateway_keeps_every_rule_that_its_plan_lets_be_tried() {
    let demo = Demo::start();
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("drill.xml");
    let options = ["--target", &demo.gateway, "--json", "--junit", junit.to_str().unwrap()];
    let output = drill(&[&["http", "--plan", "demo"], &options[..]].concat());
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["format"], &json["outcome"]), (&1.into(), &"kept".into()));
    assert_eq!((&json["counts"]["kept"], &json["counts"]["failed"]), (&15.into(), &0.into()));
    assert!(json["rules"][0]["exchanges"][0]["answer"]["status"] == 201, "{json}");
    let rules = json["rules"].as_array().unwrap().len();
    assert_eq!(told.lines().count(), rules, "a line for each rule: {told}");
    assert_eq!(fs::read_to_string(&junit).unwrap().matches("<testcase ").count(), rules);
}

#[test]
fn an_api_that_acts_twice_ends_with_1_and_is_shown_with_its_exchanges() {
    let demo = Demo::start();
    let output = drill(&[
        "http", "--plan", "demo", "--target", &demo.api, "--only", "replay", "--seed", "5",
    ]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{table}");
    assert!(
        table.contains("\nBROKEN  replay\n") && table.contains("     curl -i -X POST"),
        "{table}"
    );
    assert!(table.trim_end().ends_with("seed 5"), "{table}");
    let verdicts = table.split("\n\n").next().unwrap();
    assert!(verdicts.lines().all(|line| line.chars().count() <= 120), "{table}");
}

#[test]
fn what_is_wrong_with_the_command_line_or_the_plan_ends_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let broken = written(folder.path(), "name = \"x\"\nrequests = 1\n");
    let nowhere = folder.path().join("no/such/folder.xml");
    let junit = ["http", "--plan", "demo", "--junit", nowhere.to_str().unwrap()];
    for (arguments, says) in [
        (&["http"][..], "--plan"),
        (&["http", "--plan", "demo", "--only", "rase"], "did you mean `race`?"),
        (&["http", "--plan", "demo", "--skip", "control"], "cannot be left out"),
        (&["http", "--plan", "demo", "--patience", "60"], "a duration of up to 24 hours"),
        (&["http", "--plan", "demo", "--target", "ftp://x"], "no URL of the form"),
        (&["http", "--plan", "dmeo"], "did you mean `demo`?"),
        (&["http", "--plan", &broken], "plan.toml:2:1: there is no setting `requests`"),
        (&junit, "No such file or directory"),
        (&["http", "--plan", "demo", "--ca", "/no/such.pem"], "/no/such.pem"),
        (&["stack", "--store", "sqlite", "--intents", "0"], "without intents nothing is tried"),
        (&["stack", "--store", "sqlite", "--junit", "/no/such/x.xml"], "/no/such/x.xml: No such"),
        (&["stack", "--store", "sqlite", "--folder", "/proc/no/such"], "/proc/no/such: No such"),
        (&["stack", "--store", "sqlite", "--lease", "1h", "--for", "2h"], "it is at most"),
        (&["stack", "--store", "sqlite", "--lease", "5s", "--for", "2s"], "a shorter lease"),
        (&["plan", "check", &broken], "did you mean `request`?"),
        (&["plan", "show", "demp"], "did you mean `demo`?"),
    ] {
        check(arguments, 2, says);
    }
}

#[test]
fn an_api_over_tls_is_drilled_by_the_certificate_that_is_trusted() {
    let (demo, folder) = (Demo::start(), tempfile::tempdir().unwrap());
    let (_gateway, port) = over_tls(&demo.api, folder.path());
    let target = format!("https://localhost:{port}");
    let cert = folder.path().join("cert.pem");
    let arguments =
        ["http", "--plan", "demo", "--target", &target, "--only", "replay,changed-after"];
    check(&arguments, 3, "invalid peer certificate");
    let trusted = [&arguments[..], &["--ca", cert.to_str().unwrap()]].concat();
    check(&trusted, 0, "kept       changed-after: ");
    let key = folder.path().join("key.pem");
    check(&[&arguments[..], &["--ca", key.to_str().unwrap()]].concat(), 2, "key.pem");
}

#[test]
fn a_target_that_is_away_ends_with_3() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = format!("http://{free}");
    check(&["http", "--plan", "demo", "--target", &target], 3, "failed     control: ");
}

#[test]
fn an_interrupted_drill_ends_with_3_and_tells_what_it_has_found() {
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("http://{}", silent.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("drill.xml");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut command = Command::new(DRILL);
        command.args(["http", "--plan", "demo", "--target", &target]).arg("--junit").arg(&junit);
        let drill = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let asked = silent.accept().unwrap();
        kill_process(Pid::from_raw(drill.id().try_into().unwrap()).unwrap(), signal).unwrap();
        let output = drill.wait_with_output().unwrap();
        drop(asked);
        let table = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(3), "{table}");
        assert!(table.contains("The drill was interrupted."), "{table}");
        let junit = fs::read_to_string(&junit).unwrap();
        let errors = junit.matches("<error type=\"interrupted\"").count();
        assert!(errors > 15 && junit.contains(&format!("errors=\"{errors}\"")), "{junit}");
    }
}

#[test]
fn a_built_in_plan_is_shown_and_checked_without_asking_anybody() {
    let folder = tempfile::tempdir().unwrap();
    for (name, tried, missing) in [
        ("cloudevents", "lost-ack        can", "crash           not"),
        ("demo", "race             can", "crash            not"),
        ("demo-events", "lost-ack        can", "crash           not"),
        ("ietf", "race             can", "crash            not"),
        ("stripe", "race             can", "crash            not"),
    ] {
        let shown = drill(&["plan", "show", name]);
        let file = written(folder.path(), &String::from_utf8(shown.stdout).unwrap());
        let checked = drill(&["plan", "check", &file]);
        let told = String::from_utf8(checked.stdout).unwrap();
        assert_eq!(checked.status.code(), Some(0), "{told}");
        assert!(told.contains(&format!("{tried} be tried")), "{told}");
        assert!(told.contains(&format!("{missing} tried: ")), "{told}");
    }
    let listed = String::from_utf8(drill(&["plan", "list"]).stdout).unwrap();
    assert_eq!(listed.lines().count(), 5, "{listed}");
}

#[test]
fn a_folder_does_not_hide_the_built_in_plan_of_its_name() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("demo")).unwrap();
    let mut check = Command::new(DRILL);
    let output = check.args(["plan", "check", "demo"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let mut command = Command::new(DRILL);
    let mut rules = command.arg("rules").stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = String::new();
    rules.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!((rules.wait().unwrap().code(), told.as_str()), (Some(0), ""));
}

#[test]
fn what_came_from_the_environment_stands_in_no_output() {
    let demo = Demo::start();
    let folder = tempfile::tempdir().unwrap();
    let plan = String::from_utf8(drill(&["plan", "show", "demo"]).stdout).unwrap();
    let headers =
        "headers = { x-caller = \"{{env:DRILL_CALLER}}\", authorization = \"Bearer plain\" }";
    let plan = plan.replace("path = \"/payments\"", &format!("path = \"/payments\"\n{headers}"));
    let plan = plan
        .replace("\"amount\":\"10.00\"", "\"note\":\"{{env:DRILL_NOTE}}\",\"amount\":\"10.00\"");
    let file = written(folder.path(), &plan);
    let junit = folder.path().join("drill.xml");
    let arguments = ["http", "--plan", &file, "--target", &demo.api, "--only", "replay"];
    check(&arguments, 2, "names the variable `DRILL_CALLER`, which is not set");
    for form in ["--json", "--show=all"] {
        let mut command = Command::new(DRILL);
        command.args(arguments).arg(form).arg("--junit").arg(&junit);
        command.env("DRILL_CALLER", "me").env("DRILL_NOTE", "hunter2");
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let all = [output.stdout, output.stderr, fs::read(&junit).unwrap()].concat();
        let all = String::from_utf8(all).unwrap();
        assert!(all.contains("***"), "{all}");
        for secret in ["hunter2", "plain", "x-caller: me", "\"me\""] {
            assert!(!all.contains(secret), "{secret}: {all}");
        }
    }
}

#[test]
fn a_standard_error_that_is_full_or_closed_loses_no_report() {
    let demo = Demo::start();
    let (reader, closed) = pipe().unwrap();
    drop(reader);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for errors in [Stdio::from(closed), Stdio::from(full)] {
        let mut command = Command::new(DRILL);
        command.args(["http", "--plan", "demo", "--only", "replay", "--target", &demo.gateway]);
        let output = command.stderr(errors).output().unwrap();
        let table = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{table}");
        assert!(table.contains("Every rule that was tried is kept."), "{table}");
    }
}

#[test]
fn a_standard_output_that_is_full_ends_with_3_and_a_sentence() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(DRILL).arg("rules").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"));
}

#[test]
fn a_secret_in_the_name_of_a_plan_is_masked() {
    let folder = tempfile::tempdir().unwrap();
    let plan = String::from_utf8(drill(&["plan", "show", "demo"]).stdout).unwrap();
    let named = plan.lines().map(|line| match line.starts_with("name = ") {
        true => "name = \"of {{env:DRILL_NAME}}\"",
        false => line,
    });
    let named: Vec<_> = named.collect();
    let file = written(folder.path(), &named.join("\n"));
    let junit = folder.path().join("drill.xml");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = format!("http://{free}");
    let http = ["http", "--plan", &file, "--target", &target];
    for arguments in [&["plan", "check", &file][..], &http, &[&http[..], &["--json"]].concat()] {
        let mut command = Command::new(DRILL);
        command.args(arguments).env("DRILL_NAME", "hunter2");
        if arguments[0] == "http" {
            command.arg("--junit").arg(&junit);
        }
        let output = command.output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(told.contains("of ***") && !told.contains("hunter2"), "{told}");
    }
    let junit = fs::read_to_string(&junit).unwrap();
    assert!(junit.contains("of ***") && !junit.contains("hunter2"), "{junit}");
}

#[test]
fn an_interrupted_drill_of_the_stack_tells_what_was_seen() {
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("stack.xml");
    let mut command = Command::new(DRILL);
    command.args(["stack", "--store", "sqlite", "--clients", "2", "--no-trouble", "--json"]);
    command.arg("--junit").arg(&junit).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut drill = command.spawn().unwrap();
    let errors = BufReader::new(drill.stderr.take().unwrap());
    let mut lines = errors.lines().map(Result::unwrap);
    lines.find(|line| line.starts_with("10s: ")).unwrap();
    kill_process(Pid::from_raw(drill.id().try_into().unwrap()).unwrap(), Signal::TERM).unwrap();
    let told = lines.last().unwrap();
    let output = drill.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(
        told.contains("interrupted before its verdict; so far, 1") && told.contains(" intents")
    );
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["outcome"], "not-found-out");
    assert!(fs::read_to_string(&junit).unwrap().contains("errors=\"1\""));
}
