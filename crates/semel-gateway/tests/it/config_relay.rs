//! What a configuration says of destinations and of the relay.

use std::{fs, path::Path, time::Duration};

use semel::outbox::{Start, relay::RelayPolicy};
use semel_gateway::{
    config::{Config, Files},
    settings::Sink,
};

use crate::config::{BASE, check, parse, refused};

/// A destination that works.
const HOOKS: &str = "[[destination]]\nname = \"hooks\"\nurl = \"https://hooks.example/in?v=1\"\n";

#[test]
fn a_destination_alone_is_a_configuration_for_a_relay() {
    let config = parse(HOOKS).unwrap();
    assert!(config.is_for_a_relay_alone());
    let relaying = config.relaying().unwrap();
    assert_eq!(relaying.policy, RelayPolicy::default());
    let [hooks] = relaying.destinations.as_slice() else { panic!("{relaying:?}") };
    assert_eq!((hooks.name.as_str(), hooks.start), ("hooks", Start::Earliest));
    assert_eq!(hooks.publish_wait, Duration::from_secs(10));
    let Sink::Http(sink) = &hooks.sink else { panic!("{hooks:?}") };
    assert_eq!(
        (sink.url.to_string().as_str(), sink.connections_max),
        ("https://hooks.example/in?v=1", 16)
    );
    let served = parse(&format!("{BASE}{HOOKS}")).unwrap();
    assert!(!served.is_for_a_relay_alone());
    assert!(served.gateway().relay.is_some());
    let apart = parse(&format!("{BASE}[relay]\nserve = false\n{HOOKS}")).unwrap();
    assert!(apart.gateway().relay.is_none() && apart.relaying().is_some());
    // Whoever says something of requests must say all that is needed for them.
    let half = refused(&format!("replay_auth = \"none\"\n{HOOKS}"));
    assert!(half.iter().any(|line| line.contains("no tenant source")), "{half:?}");
}

#[test]
fn what_is_said_of_a_relay_holds() {
    let text = format!(
        "[relay]\nlease = \"5s\"\nattempts = 3\nattempts_for = \"2m\"\nblocked_for = \"4s\"\n\
         retry_max = \"1m\"\nretry_after_max = \"1h\"\npoll = \"20ms\"\nevents = 500\nmemory = \"1 MiB\"\n\
         keep_for = \"30d\"\nlag_max = \"5m\"\n{HOOKS}types = [\"order\", \"bill\"]\nstart = \"now\"\n"
    );
    let relaying = parse(&text).unwrap().relaying().unwrap();
    let policy = &relaying.policy;
    let seconds = Duration::from_secs;
    assert_eq!((policy.lease, policy.attempts_max), (seconds(5), 3));
    assert_eq!((policy.failing_for, policy.blocked_for), (seconds(120), seconds(4)));
    assert_eq!((policy.retry_max, policy.retry_after_max), (seconds(60), seconds(3_600)));
    assert_eq!((policy.poll_idle, policy.events_max), (Duration::from_millis(20), 500));
    assert_eq!((policy.bytes_max, policy.keep_for), (1 << 20, seconds(30 * 86_400)));
    assert_eq!(policy.oldest_max, seconds(300));
    let [hooks] = relaying.destinations.as_slice() else { panic!("{relaying:?}") };
    assert_eq!((hooks.types.join(","), hooks.start), ("order,bill".into(), Start::Now));
}

#[test]
fn what_is_wrong_with_a_destination_is_told_before_anything_runs() {
    check(
        "[[destination]]\nname = \"hooks\"\n",
        &[
            "semel.toml:1:1: `destination.url` is not set: the destination \"hooks\" of kind \"http\" \
           needs it",
        ],
    );
    check(
        "[[destination]]\nname = \"hooks\"\nurl = \"ftp://h/\"\n",
        &[
            "semel.toml:3:7: `destination.url` is no URL that events can be sent to; it must be http or \
           https with a host and without a user, such as \"https://example.com/events\"",
        ],
    );
    check(&format!("{HOOKS}{HOOKS}"), &["semel.toml:5:8: two destinations are named \"hooks\""]);
    check(
        &format!("{HOOKS}brokers = [\"kafka:9092\"]\n"),
        &["semel.toml:4:11: `destination.brokers` has no meaning with kind = \"http\""],
    );
    check(
        &format!("{HOOKS}wait = \"0s\"\nconnections = 0\ntypes = [\"\"]\n"),
        &[
            "semel.toml:4:8: `destination.wait` is 0; it must lie between 10ms and 20m",
            "semel.toml:5:15: `destination.connections` is 0; it must lie between 1 and 1024",
            "semel.toml:6:9: \"\" is no type of an aggregate: it has 1 to 255 bytes without control \
             characters",
        ],
    );
    check(
        &format!("[relay]\nlease = \"1ms\"\n{HOOKS}"),
        &["semel.toml:2:9: `relay.lease` must be 1 s to 1 h"],
    );
    for (said, must) in [
        ("attempts = 0", "`relay.attempts` must be at least 1"),
        ("events = 0", "`relay.events` must be 1 to 1,000,000"),
        ("memory = \"3 GiB\"", "`relay.memory` must be 1 byte to 2 GiB"),
        ("poll = \"0s\"", "`relay.poll` must be 1 ms to 10 s"),
        ("retry_max = \"5ms\"", "`relay.retry_max` must be at least 100 ms"),
    ] {
        let lines = refused(&format!("[relay]\n{said}\n{HOOKS}"));
        assert!(lines.len() == 1 && lines[0].ends_with(must), "{lines:?}");
    }
    // What is wrong with a file for a relay is no word about requests.
    for (said, told) in [
        (HOOKS.replace("hooks\"", "\""), "destination"),
        (HOOKS.replace("[[destination]]", "[[destinations]]"), "did you mean `destination`?"),
        ("[relay]\nlease = \"5s\"\n".to_owned(), "no destination: add [[destination]]"),
    ] {
        let lines = refused(&said);
        assert!(lines.iter().any(|line| line.contains(told)), "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("no upstream")), "{lines:?}");
    }
    check(
        &format!("store = \"memory:\"\n{HOOKS}"),
        &[
            "semel.toml:2:1: the store memory: has no outbox that an application could append to; use \
           sqlite:PATH or postgres://USER@HOST/DATABASE",
        ],
    );
    let unknown = refused(&format!("{HOOKS}start_at = \"now\"\n"));
    assert!(unknown[0].ends_with("did you mean `start`?"), "{unknown:?}");
}

#[cfg(not(feature = "kafka"))]
#[test]
fn a_build_without_kafka_says_so() {
    let lines =
        refused("[[destination]]\nname = \"k\"\nkind = \"kafka\"\nbrokers = [\"k:9092\"]\n");
    assert!(lines[0].contains("has no Kafka: build it with the feature"), "{lines:?}");
}

#[test]
fn a_secret_of_a_destination_stays_out_of_the_file_and_out_of_what_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("token"), "Bearer hunter2\n").unwrap();
    fs::write(folder.path().join("hook"), "https://hooks.example/T0/hunter2\n").unwrap();
    fs::write(folder.path().join("lines"), "a\nb\n").unwrap();
    let read =
        |text: &str| Config::parse(text, Path::new("semel.toml"), folder.path(), Files::Ignored);
    let text = "[[destination]]\nname = \"h\"\nurl = { file = \"hook\" }\nauthorization = { file = \"token\" }\n";
    let config = read(text).unwrap();
    let shown = format!("{config:?} {:?}", config.relaying());
    assert!(!shown.contains("hunter2"), "{shown}");
    let bad = text.replace("\"token\"", "\"lines\"");
    assert!(read(&bad).unwrap_err().to_string().contains("cannot be sent in a header"));
    let plain = text.replace("{ file = \"token\" }", "\"Bearer hunter2\"");
    let told = read(&plain).unwrap_err().to_string();
    assert!(told.contains("is a secret") && !told.contains("hunter2"), "{told}");
}
