//! Making and migrating the schema.

use std::time::Duration;

use semel::StoreErrorKind;
use semel_postgres::PostgresStore;
use semel_testkit::{conformance::MoveTime, servers::Major};

use crate::fixture::Fixture;

#[tokio::test]
async fn a_schema_is_made_once_by_whoever_comes_first() {
    for major in Major::ALL {
        let fixture = Fixture::bare(major).await;
        assert_eq!(PostgresStore::schema_version(&fixture.builder()).await.unwrap(), 0);
        let opened = (0..8).map(|_| {
            let builder = fixture.builder();
            tokio::spawn(async move { PostgresStore::migrate(&builder).await.unwrap() })
        });
        let mut makers = 0;
        for before in opened.collect::<Vec<_>>() {
            makers += u32::from(before.await.unwrap() == 0);
        }
        assert_eq!(makers, 1, "{major}");
        let version = PostgresStore::schema_version(&fixture.builder()).await.unwrap();
        assert_eq!(version, PostgresStore::schema_current());
    }
}

#[tokio::test]
async fn a_store_that_may_not_migrate_says_that_the_schema_is_missing() {
    let fixture = Fixture::bare(Major::V18).await;
    let error = fixture.builder().migrate(false).open().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Version, "{error}");
    assert!(error.to_string().contains("semel migrate"), "{error}");
}

#[tokio::test]
async fn a_newer_schema_is_admitted_for_as_long_as_it_bears_this_version() {
    let fixture = Fixture::new(Major::V18).await;
    let client = fixture.connect().await;
    let newer = "INSERT INTO semel.migration (version, name, digest) VALUES (9999, 'later', '')";
    client.batch_execute(&fixture.sql(newer)).await.unwrap();
    drop(fixture.open().await);
    client.batch_execute(&fixture.sql("UPDATE semel.meta SET oldest = 9999")).await.unwrap();
    for error in [
        fixture.builder().open().await.unwrap_err(),
        PostgresStore::migrate(&fixture.builder()).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), StoreErrorKind::Version, "{error}");
        assert!(error.to_string().contains("upgrade semel"), "{error}");
    }
}

#[tokio::test]
async fn whoever_may_not_make_the_schema_or_its_roles_is_told_who_may() {
    let fixture = Fixture::bare(Major::V15).await;
    let client = fixture.connect().await;
    let nobody = format!("nobody_{}", fixture.schema);
    client.batch_execute(&format!("CREATE ROLE {nobody} LOGIN")).await.unwrap();
    let url = fixture.url.replace("postgres@", &format!("{nobody}@"));
    let theirs = Fixture { store_url: url, ..fixture.clone() };
    let error = PostgresStore::migrate(&theirs.builder()).await.unwrap_err();
    assert!(error.to_string().contains("as its owner"), "{error}");
    PostgresStore::migrate(&fixture.builder()).await.unwrap();
    let error = PostgresStore::grant_roles(&theirs.builder()).await.unwrap_err();
    assert!(error.to_string().contains("CREATEROLE"), "{error}");
}

/// M76: what was made by the migrations and is gone is told by name.
#[tokio::test]
async fn a_key_or_a_trigger_that_was_dropped_is_missed() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let client = fixture.connect().await;
        let lacks =
            async || PostgresStore::schema_lacks(&fixture.builder()).await.unwrap().join(", ");
        assert_eq!(lacks().await, "", "{major}");
        let drop = "ALTER TABLE semel.inbox DROP CONSTRAINT inbox_pkey;
            ALTER TABLE semel.outbox_parked DROP CONSTRAINT outbox_parked_destination_generation_id_key;
            ALTER TABLE semel.record DISABLE TRIGGER completed_before_commit";
        client.batch_execute(&fixture.sql(drop)).await.unwrap();
        let lacking = "the primary key of inbox, the unique key of outbox_parked, \
                       the trigger completed_before_commit of record";
        assert_eq!(lacks().await, lacking, "{major}");
    }
}

#[tokio::test]
async fn an_edited_migration_is_found() {
    let fixture = Fixture::new(Major::V18).await;
    let client = fixture.connect().await;
    let other = "UPDATE semel.migration SET digest = '\\x00' WHERE version = 1";
    client.batch_execute(&fixture.sql(other)).await.unwrap();
    let error = PostgresStore::schema_version(&fixture.builder()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Version, "{error}");
}

#[tokio::test]
async fn the_fixture_moves_the_time_that_the_schema_tells() {
    let fixture = Fixture::new(Major::V15).await;
    let time = fixture.moved_time().await;
    let client = fixture.connect().await;
    let now = async || -> i64 {
        client.query_one(&fixture.sql("SELECT semel.now_us()"), &[]).await.unwrap().get(0)
    };
    let before = now().await;
    time.advance(Duration::from_secs(2)).await;
    assert_eq!(now().await, before + 2_000_000);
    time.turn_back(Duration::from_secs(3)).await;
    assert_eq!(now().await, before - 1_000_000);
}
