//! The relay inside of `semel serve`, and what starts where.

use crate::{child::Process, message::send, upstream::Upstream};

use super::place::{Place, QUICK, taking, until};

fn serving(upstream: &Upstream) -> String {
    format!(
        "replay_auth = \"none\"\n[tenant]\nsource = \"single_tenant\"\n[[upstream]]\nname = \"api\"\n\
         url = \"{}\"\n[[operation]]\nname = \"pay\"\npath = \"/pay\"\n",
        upstream.url()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_relays_besides_and_a_backlog_does_not_make_it_unready() {
    let (upstream, dead) = (Upstream::counting().await, unauthorized().await);
    let receiver = taking().await;
    let relay = format!("{QUICK}lag_max = \"100ms\"\n");
    let more = serving(&upstream);
    let place = Place::with(&relay, &[("hooks", &receiver), ("dead", &dead)], &more);
    let gateway = Process::start(place.path()).await;
    place.append("a", 0..10);
    until("all arrived", async || receiver.seen.effects().len() >= 10).await;
    let paid = send(gateway.address, "POST /pay", &[("idempotency-key", "k1")], "{}").await;
    assert_eq!(paid.status(), 201);
    until("the relay is not ready", async || place.ask("/readyz/relay").await.status() == 503)
        .await;
    // Requests can be served all the same.
    assert_eq!(place.ask("/readyz").await.status(), 200);
    assert_eq!(place.metric("semel_relay_sent_total{destination=\"hooks\"}").await, 10.0);
    assert_eq!(place.metric("semel_fresh_total").await, 1.0);
}

async fn unauthorized() -> Upstream {
    use crate::{message::answer, upstream::Deed};
    Upstream::new(|_| async { Deed::Write(answer(401, &[], "")) }).await
}

#[tokio::test]
async fn a_gateway_that_is_told_not_to_relay_leaves_it_to_others() {
    let (upstream, receiver) = (Upstream::counting().await, taking().await);
    let relay = format!("{QUICK}serve = false\n");
    let place = Place::with(&relay, &[("hooks", &receiver)], &serving(&upstream));
    let gateway = Process::start(place.path()).await;
    assert_eq!(place.ask("/readyz/relay").await.status(), 404);
    let paid = send(gateway.address, "POST /pay", &[("idempotency-key", "k1")], "{}").await;
    assert_eq!(paid.status(), 201);
    let none = place.outbox(&["--json", "destinations"]).json();
    assert_eq!(none["destinations"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn a_gateway_forgets_messages_whose_time_is_over_and_no_others() {
    let (upstream, receiver) = (Upstream::counting().await, taking().await);
    let more = format!("sweep_every = \"1s\"\n{}", serving(&upstream));
    let place = Place::with(QUICK, &[("hooks", &receiver)], &more);
    let db = rusqlite::Connection::open(place.path().join("semel.db")).unwrap();
    let insert = "INSERT INTO semel_inbox (consumer, source, message_id, fingerprint, standing,
        received_at_us, remember_until_us) VALUES ('c', 's', ?1, zeroblob(40), 'done', 1, ?2)";
    for (id, until) in [("over", Some(2)), ("kept", Some(i64::MAX)), ("parked once", None)] {
        db.execute(insert, (id, until)).unwrap();
    }
    let _gateway = Process::start(place.path()).await;
    let count = || db.query_row("SELECT count(*) FROM semel_inbox", [], |row| row.get::<_, i64>(0));
    until("one is forgotten", async || count().unwrap() == 2).await;
    let over = "SELECT count(*) FROM semel_inbox WHERE message_id = 'over'";
    assert_eq!(db.query_row(over, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

#[tokio::test]
async fn a_file_for_a_relay_alone_is_checked_as_one_and_serves_nothing() {
    let receiver = taking().await;
    let place = Place::to(&[("hooks", &receiver)]);
    let checked = place.semel(&["check"]);
    checked.ends(0, "");
    assert!(checked.out.contains("by `semel relay`"), "{checked:?}");
    assert!(checked.out.contains("hooks") && checked.out.contains("earliest"), "{checked:?}");
    place.semel(&["serve"]).ends(2, "serves no requests");
    std::fs::write(place.path().join("none.toml"), serving(&receiver)).unwrap();
    place.semel(&["relay", "--config", "none.toml"]).ends(2, "nowhere for events to go");
}
