//! What operators are told of events, and events that are sent again.

use super::place::{Place, Relay, id, taking, until};

const SIGNED: [&str; 3] = ["--yes", "--note", "their database was restored"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_listed_shown_and_sent_again() {
    let receiver = taking().await;
    let place = Place::to(&[("hooks", &receiver)]);
    place.outbox(&["destinations"]).ends(0, "");
    place.append("a", 0..3);
    place.append("b", 0..2);
    let keys = |arguments: &[&str]| {
        let all: Vec<_> = ["--json", "list"].iter().chain(arguments).copied().collect();
        let told = place.outbox(&all).json();
        let events = told["events"].as_array().unwrap().clone();
        let ids: Vec<_> = events.iter().map(|e| e["id"].as_str().unwrap().to_owned()).collect();
        (ids, told["next"].as_u64())
    };
    assert_eq!(keys(&[]).0.len(), 5);
    assert_eq!(keys(&["--aggregate", "order/b"]).0, [id("b", 0), id("b", 1)]);
    assert_eq!(keys(&["--event", &id("a", 1)]).0, [id("a", 1)]);
    assert_eq!(keys(&["--since", "1h"]).0.len(), 5);
    assert_eq!(keys(&["--until", "1h"]).0.len(), 0);
    let (first, next) = keys(&["--limit", "4"]);
    assert_eq!(first.len(), 4);
    assert_eq!(keys(&["--limit", "4", "--after", &next.unwrap().to_string()]).0, [id("b", 1)]);

    let relay = Relay::start(&place).await;
    receiver.seen.until(5).await;
    place.until_drained().await;
    let shown = place.outbox(&["show", &id("a", 1)]).out;
    assert!(shown.contains("order/a") && shown.contains("hooks: sent"), "{shown}");
    place.outbox(&["show", &id("a", 77)]).ends(1, "there is no event");
    place.outbox(&["show", "77"]).ends(2, "a UUID");

    let replay = ["replay", "hooks"];
    place.outbox(&[&replay[..], &SIGNED[..]].concat()).ends(2, "say which events");
    let replayed = place.outbox(&[&replay[..], &["--aggregate", "order/a"], &SIGNED[..]].concat());
    assert!(replayed.out.contains("3 are sent again"), "{replayed:?}");
    receiver.seen.until(8).await;
    let effects = receiver.seen.effects();
    assert_eq!((effects[&id("a", 1)], effects[&id("b", 1)]), (2, 1));

    let forget = [&["forget", "hooks"][..], &SIGNED[..]].concat();
    place.outbox(&forget).ends(1, "is led by");
    assert_eq!(relay.end().await, Some(0));
    place.outbox(&forget).ends(0, "");
    place.outbox(&forget).ends(1, "there is no destination");
    let audit = place.outbox(&["--json", "audit"]).json();
    let kinds: Vec<_> =
        audit["audit"].as_array().unwrap().iter().map(|row| row["kind"].clone()).collect();
    assert_eq!(kinds, ["forget", "replay"]);
}

/// Whatever the type of an aggregate is, what is shown of it can be asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregate_is_asked_for_as_it_is_shown() {
    let receiver = taking().await;
    let place = Place::to(&[("hooks", &receiver)]);
    let db = place.transaction("a", 0..1);
    for (kind, number) in [("a/b", 1), ("50%", 2), ("%2F", 3)] {
        let row = "INSERT INTO semel_outbox (id, aggregatetype, aggregateid, type, payload) \
                   VALUES (?1, ?2, '1/2', 'Counted', 'x')";
        db.execute(row, (id("odd", number), kind)).unwrap();
    }
    db.execute_batch("COMMIT").unwrap();
    for (aggregate, of) in [
        ("order/a", id("a", 0)),
        ("a%2Fb/1/2", id("odd", 1)),
        ("50%25/1/2", id("odd", 2)),
        ("%252F/1/2", id("odd", 3)),
    ] {
        let listed = place.outbox(&["list", "--aggregate", aggregate]).out;
        let lines: Vec<_> = listed.lines().filter(|line| line.contains(&of)).collect();
        assert!(lines.len() == 1 && lines[0].contains(aggregate), "{aggregate}: {listed}");
        assert_eq!(listed.matches("Counted").count(), 1, "{listed}");
    }
}

#[tokio::test]
async fn what_came_of_a_request_is_told_from_its_key_and_from_each_event() {
    let receiver = taking().await;
    let place = Place::to(&[("hooks", &receiver)]);
    let db = rusqlite::Connection::open(place.path().join("semel.db")).unwrap();
    db.execute(
        "INSERT INTO semel_outbox (id, aggregatetype, aggregateid, type, payload, tenant, operation, \
         key, facet, cause) VALUES (?1, 'order', 'a', 'Placed', '1', 'single', 'orders.create', \
         'order-7', x'', 'request:r1')",
        [id("a", 1)],
    )
    .unwrap();
    db.execute(
        "INSERT INTO semel_outbox (id, aggregatetype, aggregateid, type, payload, cause) \
         VALUES (?1, 'bill', 'b', 'Billed', '2', ?2)",
        [id("b", 2), format!("event:{}", id("a", 1))],
    )
    .unwrap();
    let _relay = Relay::start(&place).await;
    receiver.seen.until(2).await;
    place.until_drained().await;
    until("it is told", async || place.semel(&["why", &id("a", 1)]).code == 0).await;
    for named in [id("a", 1), id("b", 2)] {
        let told = place.semel(&["why", &named]).out;
        assert!(told.starts_with("intent single orders.create order-7: not recorded"), "{told}");
        assert!(told.contains(&format!("event {}", id("a", 1))), "{told}");
        assert!(told.contains(&format!("event {named}")), "{told}");
        assert!(told.contains("destination hooks: sent"), "{told}");
    }
    let told = place.semel(&["why", "--json", &id("a", 1)]).json();
    assert_eq!(told["events"][0]["deliveries"][0]["standing"], "sent");
    place.semel(&["why", "nobody-knows"]).ends(1, "nothing is known");
    place.semel(&["why", "orders.create", "order-8"]).ends(1, "there is no record");
}

/// What a destination was sent and what it is not sent by its configuration are told apart; where no
/// configuration is at hand, it is told that nobody can say.
#[tokio::test]
async fn what_is_not_routed_to_a_destination_is_not_told_as_sent() {
    let receiver = taking().await;
    let place = Place::to(&[("hooks", &receiver), ("bills", &receiver)]);
    let path = place.path().join("semel.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}types = [\"bill\"]\n")).unwrap();
    place.append("a", 0..1);
    let _relay = Relay::start(&place).await;
    receiver.seen.until(1).await;
    place.until_drained().await;
    let shown = place.outbox(&["show", &id("a", 0)]).out;
    assert!(shown.contains("hooks: sent") && shown.contains("bills: not routed"), "{shown}");
    let told = place.semel(&["why", &id("a", 0)]).out;
    assert!(told.contains("destination bills: not routed"), "{told}");
    let told = place.outbox(&["--json", "show", &id("a", 0)]).json();
    let standings = told["deliveries"].as_array().unwrap();
    let standings: Vec<_> = standings.iter().map(|of| of["standing"].as_str().unwrap()).collect();
    assert_eq!(standings, ["not-routed", "sent"]);
    let unsaid = place.outbox(&["--store", "sqlite:semel.db", "show", &id("a", 0)]).out;
    assert!(unsaid.contains("bills: passed") && unsaid.contains("hooks: passed"), "{unsaid}");
    assert_eq!(receiver.seen.effects().len(), 1);
}
