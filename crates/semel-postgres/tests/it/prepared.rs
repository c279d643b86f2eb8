//! Prepared transactions that hold keys are told of.

use semel::{Key, Operation, Scope, Tenant};
use semel_testkit::servers::Major;

use crate::fixture::Fixture;

#[tokio::test]
async fn a_prepared_transaction_that_holds_a_key_is_told_of() {
    for major in Major::ALL {
        told_on(major).await;
    }
}

async fn told_on(major: Major) {
    let fixture = Fixture::new(major).await;
    let store = fixture.open().await;
    let scope = Scope::new(Tenant::new("acme").unwrap(), Operation::new("pay").unwrap());
    let id = |key| scope.clone().intent(Key::new(key).unwrap());
    let client = fixture.connect().await;
    let name = format!("{}_held", fixture.schema);
    let prepare = format!(
        "BEGIN; SELECT pg_advisory_xact_lock(semel.lock_hash('acme', 'pay', 'held', ''));
         PREPARE TRANSACTION '{name}'"
    );
    client.batch_execute(&fixture.sql(&prepare)).await.unwrap();
    let all = store.prepared_transactions().await.unwrap();
    let told = all.iter().find(|prepared| *prepared.name == *name).expect("it is told of");
    assert_eq!(&*told.owner, "postgres");
    assert!(store.holds(told, &id("held")));
    assert!(!store.holds(told, &id("free")));
    client.batch_execute(&format!("ROLLBACK PREPARED '{name}'")).await.unwrap();
    let all = store.prepared_transactions().await.unwrap();
    assert!(all.iter().all(|prepared| *prepared.name != *name));
}
