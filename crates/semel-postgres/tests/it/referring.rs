//! Business references through the functions: a second intent with one is told of the first.

use std::time::Duration;

use semel_testkit::{conformance::MoveTime, servers::Major};

use crate::{caller::Caller, fixture::Fixture};

fn claim(key: &str) -> String {
    format!(
        "SELECT decision, permit, pointer_id
         FROM semel.claim('acme', 'orders.create', '{key}', 'order 7', reference => 'order-7')"
    )
}

async fn decision(caller: &Caller, key: &str) -> String {
    let decision = caller.cell(&format!("BEGIN; {}", claim(key))).await;
    caller.ok("ROLLBACK").await;
    decision
}

async fn begin(caller: &Caller, key: &str) -> String {
    let told = caller.ok(&format!("BEGIN; {}", claim(key))).await.remove(0);
    assert_eq!(told[0].as_deref(), Some("run"));
    told[1].clone().unwrap()
}

#[tokio::test]
async fn a_second_intent_with_a_reference_is_told_where_the_first_went() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let caller = Caller::new(&fixture).await;
        let permit = begin(&caller, "k").await;
        let call = format!(
            "SELECT semel.complete('{permit}', 'acme', 'orders.create', 201,
                pointer_kind => 'order', pointer_id => 'ord_7'); COMMIT"
        );
        caller.ok(&call).await;
        assert_eq!(decision(&caller, "k").await, "replay");
        let told = caller.ok(&format!("BEGIN; {}", claim("k2"))).await.remove(0);
        assert_eq!(told[0].as_deref(), Some("reference-exists"));
        assert_eq!(told[2].as_deref(), Some("ord_7"));
        caller.ok("ROLLBACK").await;
        let other = claim("k2").replace("'order-7'", "'order-8'");
        assert_eq!(caller.cell(&format!("BEGIN; {other}")).await, "run");
        caller.ok("ROLLBACK").await;
        let other = claim("k2").replace("'acme'", "'other'");
        assert_eq!(caller.cell(&format!("BEGIN; {other}")).await, "run");
    }
}

#[tokio::test]
async fn two_keys_do_not_race_for_one_reference() {
    let fixture = Fixture::new(Major::V18).await;
    let (first, second) = (Caller::new(&fixture).await, Caller::new(&fixture).await);
    let permit = begin(&first, "k").await;
    assert_eq!(decision(&second, "k2").await, "in-progress");
    let call = format!("SELECT semel.complete('{permit}', 'acme', 'orders.create', 201); COMMIT");
    first.ok(&call).await;
    assert_eq!(decision(&second, "k2").await, "reference-exists");
}

#[tokio::test]
async fn what_failed_or_was_released_uses_no_reference() {
    let fixture = Fixture::new(Major::V17).await;
    let caller = Caller::new(&fixture).await;
    for (key, ending) in [
        ("k", "fail('{}', 'acme', 'orders.create', 402)"),
        ("k2", "release('{}', 'acme', 'orders.create')"),
    ] {
        let permit = begin(&caller, key).await;
        let ending = ending.replace("{}", &permit);
        caller.ok(&format!("SELECT semel.{ending}; COMMIT")).await;
        assert_eq!(decision(&caller, "k3").await, "run");
    }
}

#[tokio::test]
async fn a_reference_outlives_its_key_and_ends_with_its_own_time() {
    let fixture = Fixture::new(Major::V15).await;
    let time = fixture.moved_time().await;
    let caller = Caller::new(&fixture).await;
    let permit = begin(&caller, "k").await;
    let call = format!(
        "SELECT semel.complete('{permit}', 'acme', 'orders.create', 201,
            reference_for => '60 days'); COMMIT"
    );
    caller.ok(&call).await;
    time.advance(Duration::from_secs(31 * 86_400)).await;
    for _ in 0..2 {
        for key in ["k", "k2"] {
            assert_eq!(decision(&caller, key).await, "reference-exists");
        }
        assert_eq!(caller.cell("SELECT references_deleted FROM semel.sweep()").await, "0");
    }
    time.advance(Duration::from_secs(30 * 86_400)).await;
    let permit = begin(&caller, "k").await;
    let call = format!(
        "SELECT semel.complete('{permit}', 'acme', 'orders.create', 201,
            reference_for => '1 hour'); COMMIT"
    );
    caller.ok(&call).await;
    assert_eq!(decision(&caller, "k2").await, "reference-exists");
    time.advance(Duration::from_secs(3_600)).await;
    assert_eq!(caller.cell("SELECT references_deleted FROM semel.sweep()").await, "1");
    assert_eq!(decision(&caller, "k2").await, "run");
}
