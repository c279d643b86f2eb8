//! What each role may do, and that it may do no more.

use std::time::Duration;

use semel::{
    outbox::{
        Destination, Lead, Led, OutboxInspect, OutboxRetain, OutboxStore, Park, ParkedState,
        Settle, Settled, Start, store::ParkedFilter,
    },
    store::Actor,
};
use semel_postgres::PostgresStore;
use semel_testkit::servers::Major;

use crate::{
    caller::{Caller, PAY, claim, complete},
    fixture::Fixture,
};

/// Makes somebody who logs in with a role, and returns the URL by which they do.
async fn somebody(fixture: &Fixture, role: &str) -> String {
    let later = "CREATE FUNCTION semel.later() RETURNS int LANGUAGE sql AS 'SELECT 1'";
    fixture.connect().await.batch_execute(&fixture.sql(later)).await.unwrap();
    PostgresStore::grant_roles(&fixture.builder()).await.unwrap();
    PostgresStore::grant_roles(&fixture.builder()).await.expect("again, it changes nothing");
    let name = name_of(role, fixture);
    let client = fixture.connect().await;
    let made = format!("CREATE ROLE {name} LOGIN IN ROLE {role}");
    client.batch_execute(&made).await.unwrap();
    fixture.url.replace("postgres@", &format!("{name}@"))
}

fn name_of(role: &str, fixture: &Fixture) -> String {
    format!("{role}_{}", fixture.schema)
}

async fn caller(fixture: &Fixture, role: &str) -> Caller {
    let made = Caller::new(fixture).await;
    made.ok("GRANT SELECT, INSERT ON semel.payments TO PUBLIC").await;
    let url = somebody(fixture, role).await;
    Caller::of(&Fixture { url, ..fixture.clone() }).await
}

#[tokio::test]
async fn an_application_calls_the_functions_and_sees_no_table() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let app = caller(&fixture, "semel_app").await;
        let permit = app.begin("k").await;
        app.ok(&format!("{PAY}; {}; COMMIT", complete(&permit))).await;
        assert_eq!(
            app.cell(&format!("BEGIN; SELECT decision FROM {}", claim("k"))).await,
            "replay"
        );
        let permit = app.claim("k2").await;
        app.ok(&format!("SELECT semel.fail('{permit}', 'acme', 'payments.create', 402)")).await;
        let permit = app.claim("k3").await;
        app.ok(&format!("SELECT semel.release('{permit}', 'acme', 'payments.create')")).await;
        app.ok("COMMIT; SELECT * FROM semel.status('acme', 'payments.create', 'k')").await;
        app.begin("k4").await;
        assert_eq!(app.err("COMMIT").await, "SM004");
        for refused in [
            "SELECT * FROM semel.record",
            "SELECT * FROM semel.seen",
            "SELECT * FROM semel.intent",
            "SELECT * FROM semel.meta",
            "SELECT * FROM semel.reference",
            "DELETE FROM semel.record",
            "UPDATE semel.record SET state = 'done'",
            "INSERT INTO semel.lease VALUES ('', 1, 1, 1)",
            "SELECT semel.sweep()",
            "SELECT * FROM semel.outbox",
            "SELECT * FROM semel.outbox_cursor",
            "DELETE FROM semel.outbox",
            "INSERT INTO semel.outbox (pos, aggregatetype, aggregateid, type) VALUES (1, 'a', 'b', 'c')",
            "INSERT INTO semel.outbox (xid, aggregatetype, aggregateid, type) VALUES ('3', 'a', 'b', 'c')",
            "INSERT INTO semel.outbox (key, aggregatetype, aggregateid, type) VALUES ('3', 'a', 'b', 'c')",
            "SELECT setval('semel.outbox_pos', 1)",
            "SELECT semel.retain_outbox('0')",
            "SELECT semel.lock_hash('a', 'b', 'c', '')",
            "SELECT semel.grant_claim('a', 'b', 'c', '', NULL, 'fresh', '', NULL, true, 1)",
            "CREATE FUNCTION semel.now_us(int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        ] {
            assert_eq!(app.err(refused).await, "42501", "{refused}");
        }
        app.ok("SELECT semel.publish('order', '7', 'Placed', '\\x01')").await;
        let event = "INSERT INTO semel.outbox (aggregatetype, aggregateid, type, payload)
            VALUES ('order', '7', 'Paid', '\\x02')";
        app.ok(event).await;
        assert_eq!(app.payments().await, "1");
        let may_call = "SELECT string_agg(p.proname, ' ' ORDER BY p.proname) FROM pg_proc AS p
            WHERE p.pronamespace = trim(trailing '.' FROM 'semel.')::regnamespace
                AND has_function_privilege(p.oid, 'EXECUTE')";
        let named = "claim complete event_id fail now_us publish receive received release renew \
                     schema_version status";
        assert_eq!(app.cell(may_call).await, named);
    }
}

#[tokio::test]
async fn a_search_path_of_the_callers_changes_nothing() {
    let fixture = Fixture::new(Major::V18).await;
    let app = caller(&fixture, "semel_app").await;
    let trap =
        "CREATE FUNCTION pg_temp.octet_length(text) RETURNS int LANGUAGE sql AS 'SELECT 1/0';
        CREATE FUNCTION pg_temp.never(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT 1/0 = 1';
        CREATE OPERATOR pg_temp.= (LEFTARG = text, RIGHTARG = text, FUNCTION = pg_temp.never);
        CREATE TEMP TABLE record AS SELECT 1 AS tenant;
        SET search_path = pg_temp, pg_catalog;
        SET standard_conforming_strings = off";
    // The last word is gone from majors to come; that is fine too.
    app.ok(trap).await;
    let permit = app.begin("k").await;
    app.ok(&format!("{PAY}; {}; COMMIT", complete(&permit))).await;
    assert_eq!(app.cell(&format!("BEGIN; SELECT decision FROM {}", claim("k"))).await, "replay");
}

#[tokio::test]
async fn a_reader_sees_records_and_no_tokens() {
    let fixture = Fixture::new(Major::V17).await;
    let owner = Caller::new(&fixture).await;
    let permit = owner.begin("k").await;
    owner.ok(&format!("{}; COMMIT", complete(&permit))).await;
    let reader = caller(&fixture, "semel_reader").await;
    assert_eq!(reader.cell("SELECT state FROM semel.intent").await, "done");
    for refused in [
        "SELECT * FROM semel.record".to_owned(),
        "SELECT * FROM semel.seen".to_owned(),
        format!("SELECT * FROM {}", claim("k")),
    ] {
        assert_eq!(reader.err(&refused).await, "42501", "{refused}");
    }
}

#[tokio::test]
async fn a_store_reads_and_writes_records_and_makes_nothing() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let store = caller(&fixture, "semel_store").await;
        let permit = store.begin("k").await;
        store.ok(&format!("{PAY}; {}; COMMIT", complete(&permit))).await;
        store.ok("SELECT * FROM semel.sweep(); SELECT * FROM semel.record").await;
        let url =
            fixture.url.replace("postgres@", &format!("{}@", name_of("semel_store", &fixture)));
        let builder = PostgresStore::builder(url).schema(fixture.schema.as_str()).migrate(false);
        let store_opened = builder.open().await.unwrap();
        relays(&store_opened, &fixture).await;
        drop(store_opened);
        for refused in [
            "CREATE TABLE semel.other ()",
            "DROP TABLE semel.record",
            "UPDATE semel.migration SET name = ''",
        ] {
            assert_eq!(store.err(refused).await, "42501", "{refused}");
        }
    }
}

/// A store with this role does all that a relay asks.
async fn relays(store: &PostgresStore, fixture: &Fixture) {
    let destination = Destination::new("kafka").unwrap();
    let (lease, start) = (Duration::from_secs(30), Start::Earliest);
    let ask = Lead { destination: destination.clone(), owner: "a test".into(), lease, start };
    let Led::Leader(leader) = store.lead(ask).await.unwrap() else { panic!("nobody else leads") };
    let publish = "SELECT semel.publish('order', '7', 'Placed', '\\x01')";
    fixture.connect().await.batch_execute(&fixture.sql(publish)).await.unwrap();
    let window = store.read(leader.clone(), None, 10, 1_000).await.unwrap();
    let row = window.events[0].clone();
    let park = Park { placed: row, state: ParkedState::Failed, attempts: 1, why: "a test".into() };
    let settle = Settle {
        destination: destination.clone(),
        epoch: leader.epoch,
        upto: window.pass.map(|pass| (pass, window.upto)),
        ends: window.ends,
        park: vec![park],
        unpark: Vec::new(),
    };
    assert_eq!(store.settle(settle).await.unwrap(), Settled::Stored);
    let seqs =
        vec![store.parked(ParkedFilter { limit: 1, ..Default::default() }).await.unwrap()[0].seq];
    let actor = Actor { name: "ada".into(), note: "a test".into() };
    let marked = store.mark(destination.clone(), seqs, ParkedState::Retry, actor.clone()).await;
    assert_eq!(marked.unwrap(), 1);
    assert!(store.retain(Duration::ZERO).await.unwrap().more);
    assert_eq!(store.retain(Duration::ZERO).await.unwrap().dropped, 1);
    assert_eq!(store.resign(leader).await.unwrap(), Settled::Stored);
    assert!(store.forget(destination, actor).await.unwrap());
}
