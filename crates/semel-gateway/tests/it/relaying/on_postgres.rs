//! The same relay on PostgreSQL, where transactions commit in another order than they appended.

use std::sync::atomic::{AtomicU32, Ordering};

use semel_testkit::servers::{Major, Postgres};
use tokio_postgres::{Client, NoTls};

use super::place::{Place, QUICK, Relay, first_seen, id, taking, until};
use crate::upstream::Upstream;

/// An outbox in a schema of its own.
struct Outbox {
    place: Place,
    schema: String,
    url: String,
}

impl Outbox {
    async fn to(receiver: &Upstream) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let url = Postgres::shared(Major::V18).await.url();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let schema = format!("relaying_{}_{number}", std::process::id());
        let store = format!("store = \"{url}\"\npostgres = {{ schema = \"{schema}\" }}\n");
        let place = Place::with(QUICK, &[("hooks", receiver)], &store);
        Self { place, schema, url }
    }

    async fn connect(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn append(&self, client: &Client, aggregate: &str, number: u32) {
        let row = format!(
            "INSERT INTO {}.outbox (id, aggregatetype, aggregateid, type, payload) \
             VALUES ('{}', 'order', '{aggregate}', 'Counted', '{number}')",
            self.schema,
            id(aggregate, number)
        );
        client.batch_execute(&row).await.unwrap();
    }
}

/// A relay that is killed again and again loses nothing, nor does it lose what commits late or send what
/// was rolled back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_it_loses_nothing_that_commits_late() {
    const ROUNDS: u32 = 4;
    let receiver = taking().await;
    let outbox = Outbox::to(&receiver).await;
    let writer = outbox.connect().await;
    let mut late = Vec::new();
    for round in 0..ROUNDS {
        let relay = Relay::start(&outbox.place).await;
        // It appends first of all and commits after everybody else.
        let open = outbox.connect().await;
        open.batch_execute("BEGIN").await.unwrap();
        outbox.append(&open, &format!("late-{round}"), 0).await;
        late.push(open);
        let undone = outbox.connect().await;
        undone.batch_execute("BEGIN").await.unwrap();
        outbox.append(&undone, "undone", round).await;
        undone.batch_execute("ROLLBACK").await.unwrap();
        for number in round * 20..round * 20 + 20 {
            outbox.append(&writer, "a", number).await;
            outbox.append(&writer, "b", number).await;
        }
        let expected = usize::try_from(round * 40 + 10).unwrap();
        until("some arrived", async || receiver.seen.effects().len() >= expected).await;
        relay.kill().await;
    }
    let _relay = Relay::start(&outbox.place).await;
    let before = usize::try_from(ROUNDS * 40).unwrap();
    until("what was committed arrived", async || receiver.seen.effects().len() >= before).await;
    assert!((0..ROUNDS).all(|round| first_seen(&receiver, &format!("late-{round}")).is_empty()));
    for open in late {
        open.batch_execute("COMMIT").await.unwrap();
    }
    let all = before + usize::try_from(ROUNDS).unwrap();
    until("what committed late arrived", async || receiver.seen.effects().len() >= all).await;
    outbox.place.until_drained().await;
    assert_eq!(receiver.seen.effects().len(), all);
    for aggregate in ["a", "b"] {
        let in_order: Vec<_> = (0..ROUNDS * 20).collect();
        assert_eq!(first_seen(&receiver, aggregate), in_order, "{aggregate}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_operators_ask_and_say_is_answered_on_postgresql_too() {
    let receiver = taking().await;
    let outbox = Outbox::to(&receiver).await;
    let writer = outbox.connect().await;
    for number in 0..3 {
        outbox.append(&writer, "a", number).await;
    }
    let relay = Relay::start(&outbox.place).await;
    receiver.seen.until(3).await;
    outbox.place.until_drained().await;
    let listed = outbox.place.outbox(&["--json", "list", "--aggregate", "order/a"]).json();
    assert_eq!(listed["events"].as_array().unwrap().len(), 3);
    let shown = outbox.place.outbox(&["show", &id("a", 1)]).out;
    assert!(shown.contains("hooks: passed"), "{shown}");
    let told = outbox.place.semel(&["why", &id("a", 1)]).out;
    assert!(told.contains("destination hooks: passed"), "{told}");
    let say = ["--yes", "--note", "lost"];
    let replay = ["replay", "hooks", "--event", &id("a", 1)];
    outbox.place.outbox(&[&replay[..], &say[..]].concat()).ends(0, "");
    receiver.seen.until(4).await;
    assert_eq!(receiver.seen.effects()[&id("a", 1)], 2);
    assert_eq!(relay.end().await, Some(0));
    outbox.place.outbox(&[&["forget", "hooks"][..], &say[..]].concat()).ends(0, "");
    let audit = outbox.place.outbox(&["audit"]).out;
    assert!(audit.contains("replay") && audit.contains("forget"), "{audit}");
}
