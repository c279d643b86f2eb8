//! Events that a destination refuses, and what operators say about them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{
    message::answer,
    upstream::{Deed, Upstream},
};

use super::place::{Place, Relay, first_seen, id, taking, until};

/// A receiver that refuses event 3 of aggregate `a` until it is mended.
struct Picky {
    receiver: Upstream,
    mended: Arc<AtomicBool>,
}

impl Picky {
    async fn new() -> Self {
        let mended = Arc::new(AtomicBool::new(false));
        let is_mended = Arc::clone(&mended);
        let receiver = Upstream::new(move |message| {
            let poison = message.header("idempotency-key") == Some(&*id("a", 3));
            let refuses = poison && !is_mended.load(Ordering::SeqCst);
            let problem = "{\"title\":\"no such order\"}";
            let kind = [("content-type", "application/problem+json")];
            let answer = if refuses { answer(422, &kind, problem) } else { answer(204, &[], "") };
            async move { Deed::Write(answer) }
        })
        .await;
        Self { receiver, mended }
    }

    /// Returns what was taken of aggregate `a`, in order.
    fn taken(&self) -> Vec<u32> {
        let all = first_seen(&self.receiver, "a");
        if self.mended.load(Ordering::SeqCst) {
            return all;
        }
        all.into_iter().filter(|number| *number != 3).collect()
    }
}

/// Appends events of two aggregates and waits until the poison is parked.
async fn parked(picky: &Picky) -> (Place, Relay) {
    let place = Place::to(&[("hooks", &picky.receiver)]);
    let relay = Relay::start(&place).await;
    place.append("a", 0..6);
    place.append("b", 0..6);
    until("it was parked", async || {
        let told = place.outbox(&["--json", "parked", "hooks", "--state", "failed"]).json();
        told["parked"].as_array().unwrap().len() == 1
    })
    .await;
    place.until_drained().await;
    (place, relay)
}

async fn until_none_parked(place: &Place) {
    until("nothing is parked", async || place.outbox(&["parked"]).out.contains("nothing")).await;
}

const SIGNED: [&str; 3] = ["--yes", "--note", "looked into it"];

/// M40: a poison event parks its aggregate in order, and others flow; retried, all of it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_event_parks_its_aggregate_and_a_retry_lets_it_go_on_in_order() {
    let picky = Picky::new().await;
    let (place, _relay) = parked(&picky).await;
    assert_eq!(first_seen(&picky.receiver, "b"), (0..6).collect::<Vec<_>>());
    assert_eq!(picky.taken(), [0, 1, 2]);
    let told = place.outbox(&["--json", "parked", "--aggregate", "order/a"]).json();
    let rows: Vec<_> = told["parked"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["event"]["payload"].as_str().unwrap(), row["state"].as_str().unwrap()))
        .collect();
    assert_eq!(rows, [("3", "failed"), ("4", "behind"), ("5", "behind")]);
    assert_eq!(told["parked"][0]["attempts"], 2);
    let shown = place.outbox(&["parked"]).out;
    assert!(shown.contains("it answered 422: no such order"), "{shown}");

    // What only waits behind another cannot be told to go.
    let behind = place.outbox(&["retry", "hooks", &id("a", 4), "--note", "x"]);
    behind.ends(1, "only waits behind others");
    place.outbox(&["retry", "hooks", &id("b", 1), "--note", "x"]).ends(1, "is not parked");
    place.outbox(&["retry", "hoks", "--all", "--note", "x"]).ends(1, "there is hooks");
    picky.mended.store(true, Ordering::SeqCst);
    place.outbox(&["retry", "hooks", "--aggregate", "order/a", "--note", "mended"]).ends(0, "");
    until("it went on", async || picky.taken().len() == 6).await;
    assert_eq!(picky.taken(), [0, 1, 2, 3, 4, 5]);
    let audit = place.outbox(&["--json", "audit", "hooks"]).json();
    let row = &audit["audit"][0];
    assert_eq!(
        (&row["kind"], &row["actor"], &row["note"], &row["event"]),
        (&"retry".into(), &"ada".into(), &"mended".into(), &id("a", 3).into())
    );
}

/// M41: a poison event that is left out does not block its aggregate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skipped_event_is_never_sent_and_the_next_ones_are() {
    let picky = Picky::new().await;
    let (place, _relay) = parked(&picky).await;
    let skip = ["skip", "hooks", &id("a", 3)];
    place.outbox(&[&skip[..], &["--note", "x"]].concat()).ends(2, "nobody can be asked");
    let skipped = place.outbox(&[&skip[..], &SIGNED[..]].concat());
    skipped.ends(0, "");
    assert!(skipped.out.contains("1 marked: skip"), "{skipped:?}");
    until("the next ones came", async || picky.taken().len() == 5).await;
    assert_eq!(picky.taken(), [0, 1, 2, 4, 5]);
    until("nothing is parked", async || place.outbox(&["parked"]).out.contains("nothing")).await;
    assert!(!picky.mended.load(Ordering::SeqCst));
    let shown = place.outbox(&["show", &id("a", 3)]).out;
    assert!(shown.contains("hooks: left out: skip by ada"), "{shown}");
    let shown = place.outbox(&["show", &id("a", 4)]).out;
    assert!(
        shown.contains("hooks: sent: it has the event") && !shown.contains("unless"),
        "{shown}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_event_takes_what_is_parked_behind_it_along() {
    let picky = Picky::new().await;
    let (place, _relay) = parked(&picky).await;
    let dropped = place.outbox(&[&["drop", "hooks", "--all"][..], &SIGNED[..]].concat());
    dropped.ends(0, "");
    // All that goes is shown before, and named for good.
    for told in [&*id("a", 3), &*id("a", 4), &*id("a", 5), "with 2 behind by now"] {
        assert!(dropped.out.contains(told), "{told}: {}", dropped.out);
    }
    until("nothing is parked", async || place.outbox(&["parked"]).out.contains("nothing")).await;
    let audit = place.outbox(&["--json", "audit"]).json();
    let audit = audit["audit"].as_array().unwrap();
    let named: Vec<_> = audit.iter().rev().map(|row| row["event"].clone()).collect();
    assert_eq!(named, [id("a", 3), id("a", 4), id("a", 5)]);
    for number in 3..6 {
        let event = id("a", number);
        let shown = place.outbox(&["show", &event]).out;
        assert!(shown.contains("hooks: left out: drop by ada"), "{shown}");
        let why = place.semel(&["why", &event]).out;
        assert!(why.contains("destination hooks: left out: drop by ada"), "{why}");
    }
    place.append("a", 6..8);
    until("the aggregate goes on", async || picky.taken().len() == 5).await;
    assert_eq!(picky.taken(), [0, 1, 2, 6, 7]);
}

/// M59: a replay sends again what the destination had: what an operator dropped stays left out unless it is asked
/// for by name, and what is not routed there is neither sent nor in anybody's way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_sends_what_the_destination_had_and_no_more() {
    let picky = Picky::new().await;
    let place = Place::to(&[("hooks", &picky.receiver)]);
    let path = place.path().join("semel.toml");
    let typed = std::fs::read_to_string(&path).unwrap() + "types = [\"order\"]\n";
    std::fs::write(&path, typed).unwrap();
    let _relay = Relay::start(&place).await;
    place.append("a", 0..6);
    let db = rusqlite::Connection::open(place.path().join("semel.db")).unwrap();
    db.busy_timeout(crate::message::PATIENCE).unwrap();
    let secret = "INSERT INTO semel_outbox (aggregatetype, aggregateid, type, payload) \
                  VALUES ('salary', 'bob', 'Raised', '7')";
    db.execute_batch(secret).unwrap();
    until("it was parked", async || place.outbox(&["parked"]).out.contains("failed")).await;
    place.until_drained().await;
    place.outbox(&[&["drop", "hooks", "--all"][..], &SIGNED[..]].concat()).ends(0, "");
    until_none_parked(&place).await;
    picky.mended.store(true, Ordering::SeqCst);
    let sends = |id: &str| {
        let seen = picky.receiver.seen.requests();
        seen.iter().filter(|message| message.header("idempotency-key") == Some(id)).count()
    };
    let copies = || (0..6).map(|number| sends(&id("a", number))).collect::<Vec<_>>();
    let before = copies();
    let replay = ["replay", "hooks", "--since", "1h"];
    let said = place.outbox(&[&replay[..], &SIGNED[..]].concat());
    said.ends(0, "");
    let shown = format!("{}{}", said.out, said.err);
    for told in ["7 events, of which 1 are not routed there", "3 were skipped or dropped"] {
        assert!(shown.contains(told), "{said:?}");
    }
    until_none_parked(&place).await;
    let more = |by: [usize; 6]| before.iter().zip(by).map(|(one, by)| one + by).collect::<Vec<_>>();
    assert_eq!(copies(), more([1, 1, 1, 0, 0, 0]));
    let all = [&replay[..], &["--with-left-out", "--json"], &SIGNED[..]].concat();
    let said = place.outbox(&all).json();
    assert_eq!((&said["left_out"], &said["not_routed"]), (&0.into(), &1.into()), "{said}");
    until_none_parked(&place).await;
    assert_eq!(copies(), more([2, 2, 2, 1, 1, 1]));
    let salary = |message: &crate::message::Message| message.header("ce-source") == Some("salary");
    assert!(!picky.receiver.seen.requests().iter().any(salary));
    let none = [&["replay", "hooks", "--aggregate", "salary/bob"][..], &SIGNED[..]].concat();
    place.outbox(&none).ends(1, "routes none of these 1 events");
}

/// M41: an event whose handler always fails is never refused, and an operator lets its aggregate go on
/// all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_is_answered_500_for_ever_is_left_out_by_a_word() {
    let receiver = Upstream::new(|message| {
        let poison = message.header("idempotency-key") == Some(&*id("a", 1));
        let answer = if poison { answer(500, &[], "") } else { answer(204, &[], "") };
        async move { Deed::Write(answer) }
    })
    .await;
    let place = Place::to(&[("hooks", &receiver)]);
    let _relay = Relay::start(&place).await;
    place.append("a", 0..4);
    until("it was set aside", async || {
        let told = place.outbox(&["--json", "parked", "hooks"]).json();
        told["parked"].as_array().unwrap().len() == 3
    })
    .await;
    let behind = place.outbox(&["skip", "hooks", &id("a", 2), "--yes", "--note", "x"]);
    behind.ends(1, &format!("the first one, {}", id("a", 1)));
    place.outbox(&[&["skip", "hooks", &id("a", 1)][..], &SIGNED[..]].concat()).ends(0, "");
    until("the next ones came", async || receiver.seen.effects().len() == 4).await;
    place.append("a", 4..6);
    until("it goes on", async || first_seen(&receiver, "a") == [0, 1, 2, 3, 4, 5]).await;
    until("nothing is parked", async || place.outbox(&["parked"]).out.contains("nothing")).await;
}

/// M47: a row that is no event is put before an operator at a destination that is to have its type, and
/// at every destination if nobody can tell its type.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_no_event_is_parked_where_its_type_goes() {
    let receiver = taking().await;
    let place = Place::to(&[("all", &receiver), ("orders", &receiver)]);
    let config = place.path().join("semel.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    // The destination that was named last gets the events of one type.
    std::fs::write(&config, format!("{text}types = [\"order\"]\n")).unwrap();
    let _relay = Relay::start(&place).await;
    let db = place.transaction("a", 0..1);
    db.pragma_update(None, "ignore_check_constraints", true).unwrap();
    for (kind, number) in [("order", 1), ("", 2), ("invoice", 3)] {
        let row = "INSERT INTO semel_outbox (id, aggregatetype, aggregateid, type, payload) \
                   VALUES (?1, ?2, '', 'Counted', ?3)";
        db.execute(row, (id("bad", number), kind, "x")).unwrap();
    }
    db.execute_batch("COMMIT").unwrap();
    let parked = |of: &str| {
        let told = place.outbox(&["--json", "parked", of, "--state", "failed"]).json();
        let rows = told["parked"].as_array().unwrap();
        let id = |row: &serde_json::Value| row["event"]["id"].as_str().unwrap().to_owned();
        rows.iter().map(id).collect::<std::collections::BTreeSet<_>>()
    };
    until("all of them are parked", async || parked("all").len() == 3).await;
    until("those of its type are", async || parked("orders").len() == 2).await;
    assert_eq!(parked("orders"), [id("bad", 1), id("bad", 2)].into());
}
