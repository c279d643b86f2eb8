//! Appending: in SQL, with an outcome, without one.

use semel::{
    Outcome,
    outbox::{OutboxInspect, store::EventFilter},
};
use semel_postgres::transact::{Atomic, Guard, Ran, Started};
use semel_testkit::servers::Major;
use tokio_postgres::Error;

use super::steps::*;
use crate::{
    caller::{Caller, complete},
    fixture::Fixture,
    transact::shop::{Shop, call, paid},
};

/// What breaks a bound is refused by name, and nothing is appended.
#[tokio::test]
async fn what_breaks_a_bound_is_refused() {
    let fixture = Fixture::new(Major::V15).await;
    let app = Caller::new(&fixture).await;
    let large = "decode(repeat('00', 1048577), 'hex')";
    for (arguments, says) in [
        ("'', '1', 'Placed', ''".to_owned(), "aggregatetype"),
        ("'order', NULL, 'Placed', ''".to_owned(), "aggregateid"),
        ("'order', '1', E'a\\nb', ''".to_owned(), "type"),
        ("'order', '1', repeat('x', 256), ''".to_owned(), "type"),
        (format!("'order', '1', 'Placed', {large}"), "payload"),
        ("'order', '1', 'Placed', '', '[1]'".to_owned(), "headers"),
        ("'order', '1', 'Placed', '', '{\"a\": {}}'".to_owned(), "headers"),
        ("'order', '1', 'Placed', '', '3'".to_owned(), "headers"),
        ("'order', '1', 'Placed', '', trace => ''".to_owned(), "trace"),
        ("'order', '1', 'Placed', '', cause => repeat('x', 801)".to_owned(), "cause"),
        ("'order', '1', 'Placed', '', tenant => 'acme'".to_owned(), "tenant"),
    ] {
        assert_eq!(app.err(&format!("SELECT semel.publish({arguments})")).await, "SM007", "{says}");
    }
    assert_eq!(number(&fixture, "SELECT count(*) FROM semel.outbox").await, 0);
}

/// With a permit of this transaction an event carries its intent; a permit that is none of it raises.
#[tokio::test]
async fn an_event_carries_the_intent_of_its_permit() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let app = Caller::new(&fixture).await;
        let permit = app.begin("k").await;
        let event =
            "'order', '1', 'Placed', NULL, tenant => 'acme', operation => 'payments.create'";
        app.ok(&format!("SELECT semel.publish({event}, permit => '{permit}')")).await;
        app.ok(&format!("{}; COMMIT", complete(&permit))).await;
        let store = fixture.open().await;
        let leader = lead(&store, "kafka").await;
        let placed = drain(&store, &leader, 10).await;
        let intent = placed[0].event.intent.clone().unwrap();
        assert_eq!((intent.key.as_str(), placed[0].event.payload.is_none()), ("k", true));
        let filter = EventFilter { intent: Some(intent), limit: 10, ..EventFilter::default() };
        assert_eq!(store.events(filter).await.unwrap(), placed);
        let foreign = event.replace("acme", "other");
        let said = app.err(&format!("SELECT semel.publish({foreign}, permit => '{permit}')")).await;
        assert_eq!(said, "SM003");
    }
}

/// Events of a guard are there if and only if its outcome is, with intent and cause.
#[tokio::test]
async fn events_of_a_guard_are_committed_with_its_outcome() {
    for major in Major::ALL {
        let mut shop = Shop::new(major).await;
        let store = shop.fixture.open().await;
        let leader = lead(&store, "kafka").await;
        let transact = shop.transact.clone();
        for runs in [true, false] {
            let work = async |mut guard: Guard<Started<_>>| {
                guard.publish(event("1", "first")).unwrap();
                guard.publish(event("1", "second")).unwrap();
                Ok::<_, Error>(guard.done(paid(), ()))
            };
            let ran = transact.run(&mut shop.client, &call("k"), work).await.unwrap();
            assert_eq!(runs, matches!(ran, Ran::Done(())));
        }
        let placed = drain(&store, &leader, 10).await;
        assert_eq!(told(&placed), ["first", "second"]);
        assert_eq!(placed[0].event.intent.as_ref(), Some(&call("k").id));
        let failed = async |mut guard: Guard<Started<_>>| {
            guard.publish(event("1", "undone")).unwrap();
            guard.batch_execute("SELECT 1/0").await?;
            Ok::<_, Error>(guard.done(paid(), ()))
        };
        transact.run(&mut shop.client, &call("k2"), failed).await.unwrap_err();
        assert_eq!(told(&drain(&store, &leader, 10).await), [""; 0]);
    }
}

/// A guard whose transaction is the caller's appends with its completion; dropped, it appends nothing.
#[tokio::test]
async fn a_guard_that_is_dropped_publishes_nothing() {
    let mut shop = Shop::new(Major::V15).await;
    let store = shop.fixture.open().await;
    let leader = lead(&store, "kafka").await;
    for completes in [false, true] {
        let tx = shop.client.transaction().await.unwrap();
        let Atomic::Run(mut guard) = shop.transact.claim(tx, &call("k")).await.unwrap() else {
            panic!("the key is free")
        };
        guard.publish(event("1", "told")).unwrap();
        if completes {
            guard.complete(Outcome::new(201, "")).await.unwrap().commit().await.unwrap();
        }
    }
    assert_eq!(told(&drain(&store, &leader, 10).await), ["told"]);
}

/// The same by sqlx, with and without statements that stay prepared.
#[tokio::test]
async fn sqlx_publishes_too() {
    for prepared in [false, true] {
        let shop = Shop::new(Major::V18).await;
        let store = shop.fixture.open().await;
        let leader = lead(&store, "kafka").await;
        let transact = shop.transact.clone().prepared(prepared);
        let pool = sqlx::PgPool::connect(&shop.fixture.url).await.unwrap();
        let mut tx = pool.begin().await.unwrap();
        let mut rich = event("1", "first");
        rich.headers = vec![("a".into(), "b".into()), ("a".into(), "c".into())];
        rich.version = Some(7);
        rich.trace = Some("00-1".into());
        transact.publish(&mut tx, vec![rich.clone(), event("2", "second")]).await.unwrap();
        tx.commit().await.unwrap();
        let Atomic::Run(mut guard) =
            transact.claim(pool.begin().await.unwrap(), &call("k")).await.unwrap()
        else {
            panic!("the key is free")
        };
        guard.publish(event("1", "third")).unwrap();
        guard.complete(paid()).await.unwrap().commit().await.unwrap();
        let placed = drain(&store, &leader, 10).await;
        assert_eq!(told(&placed), ["first", "second", "third"]);
        assert_eq!(*placed[0].event, rich);
    }
}
