//! The same relay on PostgreSQL, where transactions commit in another order than they appended.

use std::sync::atomic::{AtomicU32, Ordering};

use semel_testkit::servers::{Major, Postgres};
use tokio::sync::OnceCell;
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
        Self::at(Postgres::shared(Major::V18).await.url(), QUICK, ("hooks", receiver))
    }

    /// In a server that keeps what replication slots need, which take the order of commits from it.
    async fn by_slots(name: &str, receiver: &Upstream) -> Self {
        static SERVER: OnceCell<Postgres> = OnceCell::const_new();
        let start = || Postgres::builder(Major::V15).setting("wal_level", "logical").start();
        let url = SERVER.get_or_init(start).await.url();
        Self::at(url, &format!("{QUICK}source = \"slot\"\n"), (name, receiver))
    }

    fn at(url: String, relay: &str, receiver: (&str, &Upstream)) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let schema = format!("relaying_{}_{number}", std::process::id());
        let store = format!("store = \"{url}\"\npostgres = {{ schema = \"{schema}\" }}\n");
        let place = Place::with(relay, &[receiver], &store);
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
    assert!(shown.contains("hooks: sent"), "{shown}");
    let told = outbox.place.semel(&["why", &id("a", 1)]).out;
    assert!(told.contains("destination hooks: sent"), "{told}");
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

/// By slots a lane is in the order of commits even where its producers lock nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_slots_it_loses_nothing_and_keeps_the_order_of_commits() {
    let receiver = taking().await;
    let outbox = Outbox::by_slots("ordered", &receiver).await;
    let (writer, other) = (outbox.connect().await, outbox.connect().await);
    for round in 0..3 {
        let relay = Relay::start(&outbox.place).await;
        // Both append to one aggregate; who appended first commits last.
        writer.batch_execute("BEGIN").await.unwrap();
        outbox.append(&writer, "a", round * 2 + 1).await;
        outbox.append(&other, "a", round * 2).await;
        writer.batch_execute("COMMIT").await.unwrap();
        let expected = usize::try_from(round * 2 + 2).unwrap();
        until("both arrived", async || receiver.seen.effects().len() >= expected).await;
        relay.kill().await;
    }
    let relay = Relay::start(&outbox.place).await;
    outbox.place.until_drained().await;
    assert_eq!(receiver.seen.effects().len(), 6);
    assert_eq!(first_seen(&receiver, "a").len(), 6);
    assert_eq!(relay.end().await, Some(0));
    let slots = outbox.connect().await;
    let count =
        "SELECT count(*) FROM pg_replication_slots WHERE starts_with(slot_name, 'semel_ordered_')";
    assert_eq!(slots.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 1);
    let forget = ["forget", "ordered", "--yes", "--note", "done with"];
    // The lease of one that was killed may still last.
    until("it is forgotten", async || outbox.place.outbox(&forget).code == 0).await;
    let left = "SELECT slot_name || ' ' || active FROM pg_replication_slots
        WHERE starts_with(slot_name, 'semel_ordered_')";
    let left: Vec<String> =
        slots.query(left, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(left.is_empty(), "its slot goes too: {left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_debezium_reads_is_taken_over_by_a_command() {
    let receiver = taking().await;
    let outbox = Outbox::by_slots("taken", &receiver).await;
    let client = outbox.connect().await;
    let table = format!("{}.outboxevent", outbox.schema);
    let rows = format!(
        "CREATE TABLE {table} (id uuid, aggregatetype text, aggregateid text, type text, payload text);
         INSERT INTO {table} VALUES ('{}', 'order', 'a', 'Counted', '0')",
        id("a", 0)
    );
    client.batch_execute(&rows).await.unwrap();
    let slot = format!("{}_old", outbox.schema);
    let made = format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')");
    client.query(&made, &[]).await.unwrap();
    let import = |more: &[&str]| {
        let words = ["import-debezium", "--table", &table, "--slot", &slot];
        outbox.place.outbox(&[&words[..], more].concat())
    };
    let told = import(&["--existing"]);
    assert_eq!(told.code, 1, "a script waits");
    let told = told.out;
    assert!(told.contains("and 1 row from before is an event now"), "{told}");
    assert!(told.contains("NULL is allowed in aggregatetype, aggregateid, type"), "{told}");
    assert!(told.contains("has not confirmed that yet"), "{told}");
    let later =
        format!("INSERT INTO {table} VALUES ('{}', 'order', 'a', 'Counted', '1')", id("a", 1));
    client.batch_execute(&later).await.unwrap();
    let advance = format!("SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())");
    client.query(&advance, &[]).await.unwrap();
    let state =
        outbox.place.outbox(&["--json", "import-debezium", "--table", &table, "--slot", &slot]);
    assert_eq!(state.code, 0);
    let state = state.json();
    assert_eq!((&state["imported_now"], &state["slot_confirmed"]), (&false.into(), &true.into()));
    let relay = Relay::start(&outbox.place).await;
    receiver.seen.until(2).await;
    assert_eq!(first_seen(&receiver, "a"), [0, 1]);
    assert_eq!(relay.end().await, Some(0));
    import(&["--end"]).ends(0, "");
    import(&["--end"]).ends(1, "is not taken over");
    client.query(&format!("SELECT pg_drop_replication_slot('{slot}')"), &[]).await.unwrap();
}

/// What cannot be done now is told by an exit code of its own, and rows from before are never left out
/// without a word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_over_that_lacks_something_says_so_to_scripts() {
    let receiver = taking().await;
    let outbox = Outbox::by_slots("lacking", &receiver).await;
    let client = outbox.connect().await;
    let table = format!("{}.outboxevent", outbox.schema);
    outbox.place.semel(&["migrate"]).ends(0, "");
    let rows = format!(
        "CREATE TABLE {table} (id uuid, aggregatetype text, aggregateid text, type text, payload text);
         INSERT INTO {table} VALUES ('{}', 'order', 'a', 'Counted', '0')",
        id("a", 0)
    );
    client.batch_execute(&rows).await.unwrap();
    let import = |more: &[&str]| {
        outbox.place.outbox(&[&["import-debezium", "--table", &table][..], more].concat())
    };
    let slot = format!("{}_anew", outbox.schema);
    import(&["--slot", &slot]).ends(1, "in this database; nothing was changed");
    let open = outbox.connect().await;
    open.batch_execute(&format!("BEGIN; DELETE FROM {table} WHERE false")).await.unwrap();
    import(&[]).ends(1, "stays open; nothing was changed");
    open.batch_execute("COMMIT").await.unwrap();
    outbox.place.outbox(&["import-debezium", "--table", "x;drop table a"]).ends(2, "invalid name");
    import(&[]).ends(0, "");
    let made = format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')");
    client.query(&made, &[]).await.unwrap();
    let told = import(&["--slot", &slot]);
    assert_eq!(told.code, 1, "it was made after the switch");
    assert!(told.out.contains("--existing makes events of the rows from before"), "{}", told.out);
    let told = import(&["--existing", "--slot", &slot]);
    assert_eq!(told.code, 0);
    assert!(told.out.contains("and 1 row from before is an event now"), "{}", told.out);
    let told = import(&["--existing"]).out;
    assert!(told.contains("no row from before was still to become an event"), "{told}");
    client.query(&format!("SELECT pg_drop_replication_slot('{slot}')"), &[]).await.unwrap();
}
