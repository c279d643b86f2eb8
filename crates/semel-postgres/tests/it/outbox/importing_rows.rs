//! Which rows of a table that is taken over become events: all, whatever is in them and whenever they came.

use semel::{StoreErrorKind, outbox::Placed};
use semel_postgres::{ImportOutbox, PostgresStore};
use semel_testkit::servers::Major;
use tokio_postgres::Client;

use super::importing::{aggregates, import, insert, plain, read};
use crate::fixture::Fixture;

/// A table whose columns may all be NULL, and headers that are any text.
async fn loose(fixture: &Fixture, client: &Client) -> String {
    let table = format!("\"{}\".loose", fixture.schema);
    let made = format!(
        "CREATE TABLE {table} (id text, aggregatetype text, aggregateid text, type text, payload text,
         beside text)"
    );
    client.batch_execute(&made).await.unwrap();
    table
}

const BESIDE: &str = ", headers_column => 'beside'";

/// Rows that no event can be as they are, and what a relay says about each.
const LOOSE: [(&str, &str); 6] = [
    ("'no-type', 'order', 'a', NULL, 'p', NULL", "the type of an event is empty"),
    ("'no-aggregate', 'order', NULL, 'Placed', 'p', NULL", "the aggregateid of an event is empty"),
    ("'no-kind', NULL, 'a', 'Placed', 'p', NULL", "the aggregatetype of an event is empty"),
    ("'odd', 'order', 'a', 'Placed', 'p', '{not json'", "the headers are neither"),
    ("'zero', 'order', 'a', 'Placed', 'p', '{\"a\": \"\\u0000\"}'", "the headers are neither"),
    ("'fine', 'order', 'a', 'Placed', 'p', '{\"a\": \"b\"}'", ""),
];

async fn insert_loose(client: &Client, table: &str) {
    for (row, _) in LOOSE {
        client.batch_execute(&format!("INSERT INTO {table} VALUES ({row})")).await.unwrap();
    }
}

/// Looks at why each event is parked; nothing is said of one that can be sent.
fn check_reasons(events: &[Placed]) {
    assert_eq!(events.len(), LOOSE.len(), "{events:?}");
    for (placed, (row, expected)) in events.iter().zip(LOOSE) {
        let told = placed.unreadable.as_deref().unwrap_or_default();
        let is_right = if expected.is_empty() { told.is_empty() } else { told.contains(expected) };
        assert!(is_right, "{row}: {told}");
    }
}

#[tokio::test]
async fn what_no_event_can_do_without_is_missing_and_fails_no_producer() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let client = fixture.connect().await;
        let table = loose(&fixture, &client).await;
        import(&fixture, &client, &table, BESIDE).await;
        // One without a name gets one.
        let nameless =
            format!("INSERT INTO {table} VALUES (NULL, 'order', 'n', 'Placed', 'p', NULL)");
        client.batch_execute(&format!("{nameless}; {nameless}")).await.unwrap();
        insert_loose(&client, &table).await;
        let events = read(&fixture).await;
        let [first, second, others @ ..] = &*events else { panic!("{events:?}") };
        assert_ne!(first.event.id, second.event.id);
        assert!(first.unreadable.is_none() && second.unreadable.is_none());
        check_reasons(others);
    }
}

#[tokio::test]
async fn what_was_in_a_table_is_no_better_than_what_comes() {
    let fixture = Fixture::new(Major::V17).await;
    let client = fixture.connect().await;
    let table = loose(&fixture, &client).await;
    insert_loose(&client, &table).await;
    let mut asked = ImportOutbox::of(&*table);
    asked.headers_column = Some("beside".into());
    asked.existing = true;
    let imported = PostgresStore::import_outbox(&fixture.builder(), &asked).await.unwrap();
    assert_eq!(imported.copied, 6);
    assert_eq!(imported.may_be_null.concat(), "aggregatetypeaggregateidtype");
    check_reasons(&read(&fixture).await);
}

#[tokio::test]
async fn a_column_that_is_renamed_later_fails_no_producer() {
    let fixture = Fixture::new(Major::V15).await;
    let client = fixture.connect().await;
    let table = plain(&fixture, &client).await;
    import(&fixture, &client, &table, "").await;
    insert(&client, &table, "before").await;
    let rename = format!("ALTER TABLE {table} RENAME COLUMN aggregateid TO about");
    client.batch_execute(&rename).await.unwrap();
    let row = format!(
        "INSERT INTO {table} (aggregatetype, about, type, payload) VALUES ('order', 'x', 'Placed', '7')"
    );
    client.batch_execute(&row).await.unwrap();
    let back = format!("ALTER TABLE {table} RENAME COLUMN about TO aggregateid");
    client.batch_execute(&back).await.unwrap();
    insert(&client, &table, "after").await;
    let events = read(&fixture).await;
    let [before, odd, after] = &*events else { panic!("{events:?}") };
    assert_eq!((before.event.lane.id(), after.event.lane.id()), ("before", "after"));
    let why = odd.unreadable.as_deref().unwrap();
    assert!(why.contains("could not be imported") && why.contains("aggregateid"), "{why}");
    let kept =
        "SELECT convert_from(payload, 'UTF8')::jsonb ->> 'about' FROM semel.outbox WHERE pos = $1";
    let pos = i64::try_from(odd.pos.0).unwrap();
    let kept = client.query_one(&fixture.sql(kept), &[&pos]).await.unwrap();
    assert_eq!(kept.get::<_, &str>(0), "x", "the whole row is kept");
    let payload = odd.event.payload.as_deref().map(String::from_utf8_lossy);
    assert!(payload.is_some_and(|payload| payload.contains(r#""about":"x""#)), "and told: {odd:?}");
}

#[tokio::test]
async fn rows_from_before_the_switch_become_events_also_later_and_once() {
    let fixture = Fixture::new(Major::V18).await;
    let client = fixture.connect().await;
    let table = plain(&fixture, &client).await;
    client.batch_execute(&format!("ALTER TABLE {table} ADD COLUMN nr serial")).await.unwrap();
    for aggregate in ["one", "two"] {
        insert(&client, &table, aggregate).await;
    }
    let (copied, switched) = import(&fixture, &client, &table, "").await;
    assert_eq!(copied, 0);
    insert(&client, &table, "since").await;
    let existing = ", existing => true, order_by => 'nr'";
    let (copied, again) = import(&fixture, &client, &table, existing).await;
    assert_eq!((copied, &again), (2, &switched), "the place of the switch stays");
    assert_eq!(import(&fixture, &client, &table, existing).await.0, 0);
    insert(&client, &table, "last").await;
    assert_eq!(aggregates(&fixture).await, ["since", "one", "two", "last"]);
}

#[tokio::test]
async fn rows_that_nobody_can_tell_apart_are_refused_and_change_nothing() {
    let fixture = Fixture::new(Major::V17).await;
    let client = fixture.connect().await;
    let table = loose(&fixture, &client).await;
    let nameless = format!("INSERT INTO {table} VALUES (NULL, 'order', 'n', 'Placed', 'p', NULL)");
    client.batch_execute(&nameless).await.unwrap();
    let mut asked = ImportOutbox::of(&*table);
    asked.existing = true;
    let builder = fixture.builder();
    let error = PostgresStore::import_outbox(&builder, &asked).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Busy);
    assert!(
        error.to_string().contains("1 rows of") && error.to_string().contains("no id"),
        "{error}"
    );
    let state = PostgresStore::outbox_import(&builder, &table, None).await.unwrap();
    assert_eq!((state.switched_at, state.slot), (None, None));
    // By other columns the same rows would be other events.
    client.batch_execute(&format!("DELETE FROM {table}")).await.unwrap();
    PostgresStore::import_outbox(&builder, &asked).await.unwrap();
    asked.id_column = "payload".into();
    let error = PostgresStore::import_outbox(&builder, &asked).await.unwrap_err();
    assert!(error.to_string().contains("by other columns"), "{error}");
}

#[tokio::test]
async fn a_table_that_an_older_version_took_over_fails_no_producer_either() {
    let migration = include_str!("../../../migrations/0016_import_safely.sql");
    let (_, renew) = migration.split_once("-- Tables that are taken over already").unwrap();
    let (renew, _) = renew.split_once("REVOKE").unwrap();
    let renew = renew.split_once('\n').unwrap().1;
    let fixture = Fixture::new(Major::V15).await;
    let client = fixture.connect().await;
    let table = loose(&fixture, &client).await;
    import(&fixture, &client, &table, "").await;
    let older =
        "CREATE OR REPLACE FUNCTION semel.NAME() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $t$ BEGIN INSERT INTO semel.outbox
        (id, aggregatetype, aggregateid, type, payload, headers) VALUES (md5(NEW.id::text)::uuid,
        NEW.aggregatetype::text, NEW.aggregateid::text, NEW.type::text,
        convert_to(NEW.payload::text, 'UTF8'), NULL); RETURN NULL; END $t$";
    // Older versions named the function by the number of the table.
    let of_trigger = "SELECT p.proname, 'imported_' || t.tgrelid FROM pg_trigger AS t
        JOIN pg_proc AS p ON p.oid = t.tgfoid
        WHERE t.tgrelid = $1::text::regclass AND p.proname LIKE 'imported%'";
    let names = client.query_one(of_trigger, &[&table]).await.unwrap();
    let (newer, name): (String, String) = (names.get(0), names.get(1));
    let renamed = format!("ALTER FUNCTION semel.{newer}() RENAME TO {name}");
    client.batch_execute(&fixture.sql(&renamed)).await.unwrap();
    client.batch_execute(&fixture.sql(&older.replace("NAME", &name))).await.unwrap();
    let row = format!("INSERT INTO {table} VALUES ('x', NULL, 'a', 'Placed', 'p')");
    client.batch_execute(&row).await.unwrap_err();
    client.batch_execute(&fixture.sql(renew)).await.unwrap();
    client.batch_execute(&row).await.unwrap();
    assert_eq!(read(&fixture).await.len(), 1);
}
