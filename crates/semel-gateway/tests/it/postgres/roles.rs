//! The roles of least privilege: a gateway and an application that have nothing but theirs.

use semel_testkit::http::{answer, send};

use super::{PAY, Place};
use crate::{
    command::run,
    upstream::{Deed, Upstream},
};

/// A gateway in the role `semel_store` and an application in the role `semel_app` do all that a bridged
/// operation needs, and the application sees no record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_and_an_application_need_no_more_than_their_roles() {
    let place = Place::new().await;
    let store = ["migrate", "--store", &place.url, "--schema", &place.schema];
    let granted = run(place.path(), &[&store[..], &["--roles"]].concat());
    assert_eq!(granted.code, 0, "{granted:?}");
    let printed = run(place.path(), &[&store[..], &["--print-roles"]].concat());
    assert!(printed.out.contains(&format!("ON SCHEMA \"{}\"", place.schema)), "{printed:?}");
    let (gateway_role, app_role) = (format!("g_{}", place.schema), format!("a_{}", place.schema));
    let logins = format!(
        "CREATE ROLE {gateway_role} LOGIN IN ROLE semel_store;
         CREATE ROLE {app_role} LOGIN IN ROLE semel_app;
         GRANT INSERT ON semel.payment TO {app_role};"
    );
    place.connect().await.batch_execute(&place.sql(&logins)).await.unwrap();

    let as_app = place.as_role(&app_role);
    let till = as_app.clone();
    let upstream = Upstream::new(move |message| {
        let place = till.clone();
        async move {
            let client = place.connect().await;
            let permit = message.header("semel-permit").unwrap().to_owned();
            client.batch_execute("BEGIN").await.unwrap();
            let insert = place.sql("INSERT INTO semel.payment (key) VALUES ('k')");
            client.batch_execute(&insert).await.unwrap();
            let text = place.sql("SELECT semel.complete($1, 'single', 'pay', 201, '[]', 'paid')");
            client.execute(&text, &[&permit]).await.unwrap();
            client.batch_execute("COMMIT").await.unwrap();
            Deed::Write(answer(200, &[], "its own answer"))
        }
    })
    .await;
    let as_gateway = place.as_role(&gateway_role);
    as_gateway.configure(&upstream, true, &format!("{PAY}bridged = true\n"));
    let gateway = as_gateway.serve().await;
    for replayed in [None, Some("true")] {
        let headers = [("idempotency-key", "k")];
        let paid = send(gateway.address, "POST /pay", &headers, "{}").await;
        assert_eq!((paid.status(), paid.text()), (201, "paid"), "{paid:?} {}", gateway.log());
        assert_eq!(paid.header("idempotent-replayed"), replayed);
    }
    assert_eq!(place.payments().await, (1, 1));
    let records = place.sql("SELECT count(*) FROM semel.record");
    let denied = as_app.connect().await.query(&records, &[]).await.unwrap_err();
    assert_eq!(denied.code().map(|code| code.code()), Some("42501"));
}

/// A store without a server has no roles, and says so.
#[test]
fn a_store_without_a_server_has_no_roles() {
    let folder = tempfile::tempdir().unwrap();
    let refused = run(folder.path(), &["migrate", "--store", "sqlite:s.db", "--print-roles"]);
    refused.ends(2, "only a store in PostgreSQL has roles");
}
