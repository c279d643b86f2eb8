//! The commands themselves: what they print and how they end.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

use crate::command::{run, semel};

const FINE: &str = r#"
listen = "127.0.0.1:0"
replay_auth = "none"
tenant.source = "single_tenant"
[[upstream]]
name = "app"
url = "http://127.0.0.1:9"
[[operation]]
name = "payments.create"
path = "/payments"
"#;

#[test]
fn a_configuration_that_can_be_used_is_summed_up() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("semel.toml"), FINE).unwrap();
    let ran = run(folder.path(), &["check"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("semel.toml can be used"), "{ran:?}");
    assert!(ran.out.contains("POST, PATCH /payments"), "{ran:?}");
    assert_eq!(run(folder.path(), &["check", "--json"]).json()["ok"], true);
    assert!(!folder.path().join("semel.db").exists(), "checking makes no store");
}

#[test]
fn a_configuration_with_problems_ends_with_2_and_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{FINE}leese = \"5s\"\nremember_for = \"1h\"\n");
    fs::write(folder.path().join("semel.toml"), text).unwrap();
    for command in ["check", "serve"] {
        let ran = run(folder.path(), &[command]);
        ran.ends(2, "the configuration has 2 problems");
        ran.ends(2, "semel.toml:11:1: `operation.leese` is not a setting; did you mean `lease`?");
    }
    let json = run(folder.path(), &["check", "--json"]);
    assert_eq!(json.code, 2);
    let json = json.json();
    assert_eq!(json["problems"][0]["line"], 11);
    assert_eq!(json["problems"][1]["setting"], "operation.remember_for");
}

#[test]
fn a_missing_configuration_says_how_to_begin_one() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["check", "serve"] {
        let ran = run(folder.path(), &[command]);
        ran.ends(2, "semel.toml:1:1: the configuration cannot be read: there is no such file");
        ran.ends(2, "begin with what `semel reference --toml` prints");
    }
}

#[test]
fn an_address_without_a_port_is_refused_with_what_it_must_be() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["serve", "demo"] {
        let ran = run(folder.path(), &[command, "--listen", "127.0.0.1"]);
        ran.ends(2, "write an address and a port, such as 127.0.0.1:8080");
    }
}

#[test]
fn a_gateway_says_where_it_listens_and_ends_when_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("semel.toml"), FINE).unwrap();
    let mut child = semel(folder.path(), &["serve", "--log-json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("semel listens on ").unwrap();
    std::net::TcpStream::connect(address).unwrap();
    let told = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(told.success());
    let code = child.wait().unwrap().code();
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert_eq!(code, Some(0), "{log}");
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn an_address_that_is_taken_ends_with_2() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("semel.toml"), FINE).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    run(folder.path(), &["serve", "--listen", &address]).ends(2, "say another address by --listen");
}

#[test]
fn a_store_of_another_kind_ends_with_3() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("semel.toml"), FINE).unwrap();
    fs::write(folder.path().join("semel.db"), "this is no database, but a letter to a friend")
        .unwrap();
    let ran = run(folder.path(), &["serve"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.err.contains("semel.db"), "{ran:?}");
}

#[test]
fn an_unreadable_filter_for_the_log_ends_with_2() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &["reference", "--log", "a=b=c"]).ends(2, "--log a=b=c");
}
