//! The schema: made, checked and refused by the command line.

use super::{PAY, Place};
use crate::{command::run, upstream::Upstream};

/// The exit code of `--check` says whether a migration is due, and a migration is done once.
#[tokio::test]
async fn a_due_migration_is_told_and_done() {
    let place = Place::bare().await;
    let migrate = |more: &[&str]| {
        let store = ["migrate", "--store", &place.url, "--schema", &place.schema];
        run(place.path(), &[&store[..], more].concat())
    };
    let due = migrate(&["--check", "--json"]);
    assert_eq!((due.code, due.json()["due"].as_bool()), (1, Some(true)), "{due:?}");
    assert_eq!(due.json()["found"], 0);
    assert!(migrate(&["--check"]).out.contains("semel migrate is due"));
    let made = migrate(&[]);
    assert_eq!((made.code, made.out.contains("is new")), (0, true), "{made:?}");
    let fine = migrate(&["--check", "--json"]);
    assert_eq!((fine.code, fine.json()["fits"].as_bool()), (0, Some(true)), "{fine:?}");
    assert_eq!(fine.json()["found"], fine.json()["current"]);
    assert_eq!(migrate(&[]).code, 0, "there is nothing to do");
}

/// A gateway that may not migrate refuses a schema that is missing, and says what to do.
#[tokio::test]
async fn a_gateway_that_may_not_migrate_refuses_a_missing_schema() {
    let (place, upstream) = (Place::bare().await, Upstream::counting().await);
    place.configure(&upstream, false, PAY);
    let config = place.path().join("semel.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("[postgres]", "[postgres]\nmigrate = false")).unwrap();
    let refused = run(place.path(), &["serve", "--listen", "127.0.0.1:0"]);
    refused.ends(3, "run semel migrate");
    assert_eq!(run(place.path(), &["migrate"]).code, 0);
    place.serve().await;
}

/// Records of a schema that is missing cannot be listed, and none is made by the slip.
#[tokio::test]
async fn an_operators_slip_makes_no_schema() {
    let place = Place::bare().await;
    let store = ["records", "list", "--store", &place.url, "--schema", &place.schema];
    run(place.path(), &store).ends(3, "run semel migrate");
    let exists = "SELECT count(*) FROM pg_namespace WHERE nspname = $1";
    let row = place.connect().await.query_one(exists, &[&place.schema]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
}
