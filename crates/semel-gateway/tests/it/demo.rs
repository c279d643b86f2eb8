//! The demo: the run judges itself by the ledger, and what it prints to try by hand works.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    process::Stdio,
};

use crate::command::{run, semel};

#[test]
fn the_demo_runs_and_charges_every_intent_once() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["demo", "--run", "--json", "--dir", "kept"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let json = ran.json();
    assert_eq!(json["fine"], true);
    let steps = json["steps"].as_array().unwrap();
    let (without, through): (Vec<_>, Vec<_>) =
        steps.iter().partition(|step| step["through_semel"] == false);
    assert_eq!(without.len(), 1);
    assert_eq!(without[0]["charges"], 20, "the API itself charges whenever it is asked");
    assert_eq!(through.len(), 9);
    for step in through {
        assert_eq!(step["charges"], step["intents"], "{step}");
    }
    assert!(folder.path().join("kept/ledger.db").exists());
}

#[test]
fn the_three_requests_it_prints_do_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = semel(folder.path(), &["demo", "--listen", "127.0.0.1:0"])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let page: Vec<_> =
        lines.map(Result::unwrap).take_while(|line| !line.starts_with("Ctrl-C")).collect();
    let requests: Vec<_> = page
        .windows(2)
        .filter(|pair| pair[0].contains("curl -i"))
        .map(|pair| format!("{} {}", pair[0].trim_end_matches('\\'), pair[1].trim()))
        .collect();
    assert_eq!(requests.len(), 3, "{page:?}");
    let [first, again, changed] = [0, 1, 2].map(|n| send_curl(&requests[n]));
    assert!(first.starts_with("HTTP/1.1 201"), "{first}");
    assert!(again.starts_with("HTTP/1.1 201"), "{again}");
    assert!(again.to_lowercase().contains("idempotent-replayed: true"), "{again}");
    let body = |answer: &str| answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    assert_eq!(body(&first), body(&again));
    assert!(changed.starts_with("HTTP/1.1 422"), "{changed}");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Sends what a curl command would.
fn send_curl(command: &str) -> String {
    let url = command.split_whitespace().find_map(|word| word.strip_prefix("http://")).unwrap();
    let (host, path) = url.split_once('/').unwrap();
    let quoted: Vec<_> = command.split('\'').skip(1).step_by(2).collect();
    let (headers, body) = (&quoted[..quoted.len() - 1], quoted[quoted.len() - 1]);
    let mut stream = TcpStream::connect(host).unwrap();
    let head = format!(
        "POST /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n{}\r\n\r\n",
        body.len(),
        headers.join("\r\n")
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    std::io::read_to_string(stream).unwrap()
}
