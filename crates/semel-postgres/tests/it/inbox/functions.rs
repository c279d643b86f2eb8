//! The functions that any language calls.

use semel::inbox::{InboxAuditKind, InboxInspect};
use semel_postgres::inbox::Ran;
use semel_testkit::servers::Major;

use super::desk::{Desk, delivery};
use crate::caller::Caller;

fn receive(id: &str, content: &str) -> String {
    format!("SELECT decision FROM semel.receive('billing', 'queue:orders', '{id}', '{content}')")
}

fn received(id: &str) -> String {
    format!("SELECT semel.received('billing', 'queue:orders', '{id}', 'paid')")
}

#[tokio::test]
async fn a_receipt_by_function_has_one_effect_and_copies_get_what_was_recorded() {
    for major in Major::ALL {
        let desk = Desk::new(major).await;
        let app = Caller::new(&desk.fixture).await;
        assert_eq!(app.cell(&format!("BEGIN; {}", receive("a", "a"))).await, "first");
        app.ok(&format!("INSERT INTO semel.effect VALUES ('a'); {}; COMMIT", received("a"))).await;
        assert_eq!(app.cell(&receive("a", "a")).await, "duplicate");
        assert_eq!(app.cell(&receive("a", "b")).await, "mismatch");
        let answer = "SELECT convert_from(answer, 'UTF8')
            FROM semel.receive('billing', 'queue:orders', 'a', 'a')";
        assert_eq!(app.cell(answer).await, "paid");
        // Rust and SQL know one another's messages.
        let mut client = desk.connect().await;
        let ran = desk.handle(&mut client, &delivery("a"), None).await.unwrap();
        assert!(matches!(ran, Ran::Duplicate(Some(_))), "{ran:?}");
        desk.handle(&mut client, &delivery("b"), None).await.map(drop).unwrap();
        assert_eq!(app.cell(&receive("b", "b")).await, "duplicate", "{major}");
        assert_eq!(desk.effects(Some("a")).await, 1);
        let audit = desk.store.inbox_audit(None, 10).await.unwrap();
        assert_eq!(audit[0].kind, InboxAuditKind::Mismatch);
    }
}

/// In autocommit the receipt would stand without an effect, and the message be lost.
#[tokio::test]
async fn a_receipt_without_its_end_is_not_committed() {
    for major in Major::ALL {
        let desk = Desk::new(major).await;
        let app = Caller::new(&desk.fixture).await;
        assert_eq!(app.err(&receive("a", "a")).await, "SM004");
        assert_eq!(app.err(&received("a")).await, "SM005");
        app.ok(&format!("BEGIN; {}", receive("a", "a"))).await;
        assert_eq!(app.err("COMMIT").await, "SM004");
        app.ok(&format!("BEGIN; SAVEPOINT s; {}; ROLLBACK TO s", receive("a", "a"))).await;
        assert_eq!(app.err(&received("a")).await, "SM005");
        app.ok("ROLLBACK").await;
        app.ok(&format!("BEGIN; {}", receive("a", "a"))).await;
        assert_eq!(app.err(&receive("a", "a")).await, "SM008");
        app.ok("ROLLBACK").await;
        assert_eq!(desk.number("SELECT count(*) FROM semel.inbox").await, 0, "{major}");
    }
}

#[tokio::test]
async fn a_name_or_an_answer_past_its_bound_is_refused() {
    let desk = Desk::new(Major::V18).await;
    let app = Caller::new(&desk.fixture).await;
    for name in [
        "'', 's', 'm'",
        "'b c', 's', 'm'",
        "'b', '', 'm'",
        "'b', 's', ''",
        "'b', 's', repeat('m', 256)",
    ] {
        let call = format!("SELECT semel.receive({name}, 'x')");
        assert_eq!(app.err(&call).await, "SM007", "{name}");
    }
    app.ok("BEGIN; SELECT semel.receive('b', 's', 'm', NULL)").await;
    let large = "SELECT semel.received('b', 's', 'm', decode(repeat('00', 1048577), 'hex'))";
    assert_eq!(app.err(large).await, "SM007");
    app.ok("ROLLBACK").await;
}
