//! Tables of other outboxes: Debezium reads ours, and ours takes over Debezium's.

use std::time::Duration;

use semel::outbox::{Destination, EventId, Lead, Led, OutboxStore, Placed, Start};
use semel_postgres::{ImportOutbox, ImportSlot, PostgresStore};
use semel_testkit::servers::{Debezium, Major, Routed};
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;

use super::slot::logical;
use crate::fixture::Fixture;

/// A table as Debezium's documentation has it, under a name of the test's own.
pub(super) async fn plain(fixture: &Fixture, client: &Client) -> String {
    let table = format!("\"{}\".plain", fixture.schema);
    let made = format!(
        "CREATE TABLE {table} (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
         aggregatetype text NOT NULL, aggregateid text NOT NULL, type text NOT NULL, payload jsonb)"
    );
    client.batch_execute(&made).await.unwrap();
    table
}

pub(super) async fn insert(client: &Client, table: &str, id: &str) {
    let insert = format!(
        "INSERT INTO {table} (aggregatetype, aggregateid, type, payload)
         VALUES ('order', $1, 'Placed', '{{\"n\": 1.50}}')"
    );
    client.execute(&insert, &[&id]).await.unwrap();
}

/// Takes a table over, and returns the place in the log behind which everything is an event.
pub(super) async fn import(
    fixture: &Fixture,
    client: &Client,
    table: &str,
    more: &str,
) -> (i64, String) {
    let import = format!(
        "SELECT copied, switched_at::text FROM semel.import_outbox('{table}'::regclass{more})"
    );
    let row = client.query_one(&fixture.sql(&import), &[]).await.unwrap();
    (row.get(0), row.get(1))
}

/// What a relay reads that begins with the earliest.
pub(super) async fn read(fixture: &Fixture) -> Vec<Placed> {
    let store = fixture.open().await;
    let lead = Lead {
        destination: Destination::new("all").unwrap(),
        owner: "a test".into(),
        lease: Duration::from_secs(60),
        start: Start::Earliest,
    };
    let Led::Leader(leader) = store.lead(lead).await.unwrap() else { panic!("another leads") };
    let window = store.read(leader.clone(), None, 1_000, 1 << 20).await.unwrap();
    store.resign(leader).await.unwrap();
    window.events
}

/// The same as aggregate, id and payload of each.
async fn relayed(fixture: &Fixture) -> Vec<(String, EventId, String)> {
    let events = read(fixture).await;
    let told = events.iter().map(|placed| {
        let payload = placed.event.payload.clone().unwrap_or_default();
        let payload = String::from_utf8(payload.to_vec()).unwrap();
        (placed.event.lane.id().to_owned(), placed.event.id, payload)
    });
    told.collect()
}

pub(super) async fn aggregates(fixture: &Fixture) -> Vec<String> {
    relayed(fixture).await.into_iter().map(|(aggregate, ..)| aggregate).collect()
}

#[tokio::test]
async fn debezium_routes_what_was_published() {
    let fixture = logical().await;
    let client = fixture.connect().await;
    let (publication, slot) =
        (format!("{}_all", fixture.schema), format!("{}_dbz", fixture.schema));
    let publish = format!(
        "CREATE PUBLICATION \"{publication}\" FOR TABLE semel.outbox
         WITH (publish = 'insert', publish_via_partition_root = true)"
    );
    client.batch_execute(&fixture.sql(&publish)).await.unwrap();
    let table = format!("{}.outbox", fixture.schema);
    let engine = Debezium::start(fixture.server, "postgres", &table, &publication, &slot).await;
    let append = fixture.sql(
        "SELECT semel.publish('order', $1, 'Placed', $2, headers => '{\"trace\": \"t\"}')::text",
    );
    let append = client.prepare(&append).await.unwrap();
    let bytes: &[u8] = &[0, 0xff, b'{', 9];
    let id: String = client.query_one(&append, &[&"o-1", &bytes]).await.unwrap().get(0);
    client.batch_execute("BEGIN").await.unwrap();
    client.query_one(&append, &[&"never", &bytes]).await.unwrap();
    client.batch_execute("ROLLBACK").await.unwrap();
    client.query_one(&append, &[&"o-2", &None::<&[u8]>]).await.unwrap();
    let routed = engine.until_routed(|routed| routed.len() >= 2).await;
    assert_eq!(routed[0].topic, "outbox.event.order");
    assert_eq!(routed[0].key, "o-1");
    assert_eq!(routed[0].payload.as_deref(), Some(bytes));
    assert_eq!(routed[0].header("id"), Some(&*id));
    assert_eq!(routed[1].key, "o-2");
    assert_eq!(routed.len(), 2, "what was rolled back never leaves: {routed:?}");
}

#[tokio::test]
async fn a_table_that_debezium_reads_is_taken_over_without_loss() {
    let fixture = logical().await;
    let client = fixture.connect().await;
    let table = plain(&fixture, &client).await;
    let (publication, slot) =
        (format!("{}_plain", fixture.schema), format!("{}_old", fixture.schema));
    let publish = format!("CREATE PUBLICATION \"{publication}\" FOR TABLE {table}");
    client.batch_execute(&publish).await.unwrap();
    let read = format!("{}.plain", fixture.schema);
    let mut engine = Debezium::start(fixture.server, "postgres", &read, &publication, &slot).await;
    insert(&client, &table, "before").await;
    let (copied, switched) = import(&fixture, &client, &table, "").await;
    assert_eq!(copied, 0);
    insert(&client, &table, "between").await;
    let passed = format!(
        "SELECT confirmed_flush_lsn >= '{switched}' FROM pg_replication_slots WHERE slot_name = '{slot}'"
    );
    until_confirmed(&client, &passed, &table).await;
    engine.kill();
    insert(&client, &table, "after").await;
    let by_debezium = engine.routed();
    let first: Vec<&str> = by_debezium.iter().take(2).map(|routed| &*routed.key).collect();
    assert_eq!(first, ["before", "between"]);
    let by_relay = relayed(&fixture).await;
    assert_eq!((&*by_relay[0].0, &*by_relay.last().unwrap().0), ("between", "after"));
    let inserted: i64 = {
        let count = format!("SELECT count(*) FROM {table}");
        client.query_one(&count, &[]).await.unwrap().get(0)
    };
    assert_eq!(i64::try_from(by_relay.len()).unwrap(), inserted - 1, "all but what was before");
    let is_between = |routed: &Routed| routed.key == "between";
    let between = by_debezium.into_iter().find(is_between).unwrap();
    assert_eq!(between.header("id"), Some(&*by_relay[0].1.to_string()), "both name it the same");
    assert_eq!(by_relay[0].2, "{\"n\": 1.50}");
}

/// Waits until a connector has confirmed a place, which it does once it has sent something behind it.
async fn until_confirmed(client: &Client, passed: &str, table: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !client.query_one(passed, &[]).await.unwrap().get::<_, bool>(0) {
        assert!(Instant::now() < deadline, "this does not come true: {passed}");
        insert(client, table, "meanwhile").await;
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_is_in_a_table_already_comes_first_and_in_order() {
    let fixture = Fixture::new(Major::V18).await;
    let client = fixture.connect().await;
    let table = format!("\"{}\".other", fixture.schema);
    let made = format!(
        "CREATE TABLE {table} (nr bigint PRIMARY KEY, event_id text, kind text, about text, what text,
         told text, beside jsonb);
         INSERT INTO {table} VALUES (2, 'two', 'order', 'b', 'Placed', 'x', '{{\"h\": \"v\"}}'),
         (1, '6f2d8a3e-52f1-4a9b-8b6e-2f9b0a1c4d5e', 'order', 'a', 'Placed', 'y', NULL)"
    );
    client.batch_execute(&made).await.unwrap();
    let more = ", existing => true, order_by => 'nr', id_column => 'event_id',
        aggregatetype_column => 'kind', aggregateid_column => 'about', type_column => 'what',
        payload_column => 'told', headers_column => 'beside'";
    let (copied, _) = import(&fixture, &client, &table, more).await;
    assert_eq!(copied, 2);
    client
        .batch_execute(&format!(
            "BEGIN; INSERT INTO {table} VALUES (3, 'two', 'order', 'c', 'Placed', 'z', NULL);
             DELETE FROM {table}; COMMIT;
             BEGIN; INSERT INTO {table} VALUES (4, 'four', 'order', 'd', 'Placed', 'z', NULL);
             ROLLBACK"
        ))
        .await
        .unwrap();
    let events = relayed(&fixture).await;
    let aggregates: Vec<&str> = events.iter().map(|(aggregate, ..)| &**aggregate).collect();
    assert_eq!(aggregates, ["a", "b", "c"]);
    assert_eq!(events[0].1.to_string(), "6f2d8a3e-52f1-4a9b-8b6e-2f9b0a1c4d5e");
    assert_eq!(events[1].1, events[2].1, "one id is one event, whatever its form");
    assert_eq!(events[1].2, "x");
}

#[tokio::test]
async fn an_import_that_is_ended_or_refused_changes_nothing() {
    let fixture = Fixture::new(Major::V15).await;
    let (client, other) = (fixture.connect().await, fixture.connect().await);
    let table = plain(&fixture, &client).await;
    let refused = |more: &'static str| {
        let import = format!("SELECT * FROM semel.import_outbox('{table}'::regclass{more})");
        let (client, import) = (&client, fixture.sql(&import));
        async move {
            let error = client.query(&import, &[]).await.unwrap_err();
            error.code().unwrap().code().to_owned()
        }
    };
    assert_eq!(refused(", type_column => 'kind'").await, "SM007");
    // Somebody has inserted and not committed: it is waited for, and not for ever.
    other.batch_execute("BEGIN").await.unwrap();
    insert(&other, &table, "open").await;
    assert_eq!(refused("").await, "55P03");
    other.batch_execute("COMMIT").await.unwrap();
    assert!(aggregates(&fixture).await.is_empty());
    import(&fixture, &client, &table, "").await;
    assert_eq!(refused("").await, "SM007");
    insert(&client, &table, "now").await;
    let end = fixture.sql(&format!("SELECT semel.end_import('{table}'::regclass)"));
    assert!(client.query_one(&end, &[]).await.unwrap().get::<_, bool>(0));
    assert!(!client.query_one(&end, &[]).await.unwrap().get::<_, bool>(0));
    insert(&client, &table, "later").await;
    assert_eq!(aggregates(&fixture).await, ["now"]);
}

#[tokio::test]
async fn a_row_past_the_bounds_fails_no_producer() {
    let fixture = Fixture::new(Major::V17).await;
    let client = fixture.connect().await;
    let table = plain(&fixture, &client).await;
    import(&fixture, &client, &table, "").await;
    insert(&client, &table, &"x".repeat(300)).await;
    insert(&client, &table, "fine").await;
    assert_eq!(aggregates(&fixture).await.last().unwrap(), "fine");
}

#[tokio::test]
async fn a_take_over_is_told_of_and_refused_in_one_sentence() {
    let fixture = logical().await;
    let client = fixture.connect().await;
    let table = plain(&fixture, &client).await;
    let slot = format!("{}_told", fixture.schema);
    let make = format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')");
    client.query(&make, &[]).await.unwrap();
    let builder = fixture.builder();
    let state = || PostgresStore::outbox_import(&builder, &table, Some(&slot));
    assert_eq!(state().await.unwrap().switched_at, None);
    let mut import = ImportOutbox::of(&*table);
    import.payload_column = "told".into();
    let error = PostgresStore::import_outbox(&builder, &import).await.unwrap_err();
    assert!(error.to_string().contains("has no column told for the payload"), "{error}");
    import.payload_column = "payload".into();
    let imported = PostgresStore::import_outbox(&builder, &import).await.unwrap();
    assert_eq!(state().await.unwrap().switched_at, Some(imported.switched_at));
    assert_eq!(state().await.unwrap().slot, Some(ImportSlot::Behind));
    insert(&client, &table, "more").await;
    let advance = format!("SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())");
    client.query(&advance, &[]).await.unwrap();
    assert_eq!(state().await.unwrap().slot, Some(ImportSlot::Confirmed));
    assert!(PostgresStore::end_outbox_import(&builder, &table).await.unwrap());
    assert!(!PostgresStore::end_outbox_import(&builder, &table).await.unwrap());
    let missing = ImportOutbox::of("nowhere.outboxevent");
    let error = PostgresStore::import_outbox(&builder, &missing).await.unwrap_err();
    assert_eq!(error.code(), "store-invalid");
}
