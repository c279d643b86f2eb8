//! Effects are counted where they are kept.

use std::time::Duration;

use rusqlite::Connection;
use semel_drill::{
    effects::{Effects, EffectsError},
    http::Target,
    plan::{Names, Plan},
};
use semel_testkit::servers::{Major, Postgres};

use crate::api::Api;

const WITHIN: Duration = Duration::from_secs(10);

fn plan(database: &str, sql: &str) -> Plan {
    Plan::parse(&format!(
        "name = 'x'\nrequest = {{ path = '/x', body = '{{{{intent}}}}' }}\n\
         effects = {{ database = '{database}', sql = \"{sql}\" }}\n"
    ))
    .unwrap()
}

fn effects(plan: &Plan, within: Duration) -> Effects {
    let nobody = Target::parse("http://127.0.0.1:9", None).unwrap();
    Effects::open(&plan.effects, &nobody, None, within).unwrap()
}

async fn count(effects: &Effects, intent: &str) -> Result<u64, EffectsError> {
    let names = Names { intent: intent.to_owned(), ..Names::default() };
    effects.count(&names).await
}

fn ledger(folder: &std::path::Path) -> String {
    let file = folder.join("ledger.db");
    let ledger = Connection::open(&file).unwrap();
    ledger
        .execute_batch(
            "create table charges (ref text not null);
             insert into charges values ('one'), ('two'), ('two');",
        )
        .unwrap();
    format!("sqlite:{}", file.display())
}

#[tokio::test]
async fn effects_in_sqlite_are_counted_by_intent() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(&ledger(folder.path()), "select count(*) from charges where ref = $1");
    let effects = effects(&plan, WITHIN);
    assert_eq!(count(&effects, "one").await.unwrap(), 1);
    assert_eq!(count(&effects, "two").await.unwrap(), 2);
    assert_eq!(count(&effects, "'; drop table charges").await.unwrap(), 0);
    let names = Names { intent: "two".to_owned(), ..Names::default() };
    assert_eq!(effects.count_settled(&names).await.unwrap(), 2);
}

#[tokio::test]
async fn a_count_in_sqlite_changes_nothing_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let database = ledger(folder.path());
    let writes = plan(&database, "delete from charges where ref = $1 returning 1");
    let told = count(&effects(&writes, WITHIN), "one").await.unwrap_err().to_string();
    assert!(told.contains("readonly"), "{told}");
    let endless = "with recursive n (i) as (values (1) union all select i + 1 from n) \
                   select count(*) from n where i <> $1";
    let endless = plan(&database, endless);
    let told = count(&effects(&endless, Duration::from_millis(200)), "one").await.unwrap_err();
    assert!(matches!(told, EffectsError::Uncounted(_)), "{told}");
    let text = plan(&database, "select ref from charges where ref = $1");
    assert!(count(&effects(&text, WITHIN), "one").await.is_err());
    let missing = plan("sqlite:/nowhere/at/all.db", "select $1");
    assert!(count(&effects(&missing, WITHIN), "one").await.is_err());
}

#[tokio::test]
async fn effects_in_postgresql_are_counted_by_intent_and_nothing_is_changed() {
    let server = Postgres::shared(Major::V18).await;
    let url = server.database("drill_effects").await;
    server
        .try_sql(
            "drill_effects",
            "create table charges (ref varchar(40) not null, cents int not null);
             insert into charges values ('one', 1), ('two', 1), ('two', 1);",
        )
        .await
        .unwrap();
    for (sql, counts) in [
        ("select count(*) from charges where ref = $1", Some(2)),
        ("select count(*)::int from charges where ref = $1", Some(2)),
        ("select sum(cents) from charges where ref = $1", Some(2)),
        ("select 1::smallint from charges where ref = $1 limit 1", Some(1)),
        ("select 1 from charges where ref = $1 || 'x'", Some(0)),
        ("select ref from charges where ref = $1", None),
        ("select avg(cents) from charges where ref = $1", None),
        ("delete from charges where ref = $1 returning 1", None),
        ("select count(*) from chargse where ref = $1", None),
    ] {
        let plan = plan(&url, sql);
        let effects = effects(&plan, WITHIN);
        assert_eq!(count(&effects, "two").await.ok(), counts, "{sql}");
        // The connection is good for another count, also after an error.
        assert_eq!(count(&effects, "two").await.ok(), counts, "{sql}");
    }
}

#[tokio::test]
async fn effects_are_counted_at_a_server_of_their_own() {
    let api = Api::start(None).await;
    let text = format!(
        "name = 'x'\nrequest = {{ path = '/x', body = '{{{{intent}}}}' }}\n\
         effects = {{ url = '{}/effects/{{{{intent}}}}', pointer = '/count' }}\n",
        api.url()
    );
    let effects = effects(&Plan::parse(&text).unwrap(), WITHIN);
    assert_eq!(count(&effects, "nobody asked/for it").await.unwrap(), 0);
    drop(api);
    let told = count(&effects, "one").await.unwrap_err().to_string();
    assert!(told.contains("GET /effects/one: no answer"), "{told}");
}

#[tokio::test]
async fn a_database_that_is_away_is_told_without_its_password() {
    let plan = plan("postgres://drill:hunter2@127.0.0.1:9/x", "select $1");
    let effects = effects(&plan, WITHIN);
    let told = count(&effects, "one").await.unwrap_err().to_string();
    assert!(told.contains("PostgreSQL"), "{told}");
    assert!(!told.contains("hunter2") && !format!("{effects:?}").contains("hunter2"), "{told}");
}
