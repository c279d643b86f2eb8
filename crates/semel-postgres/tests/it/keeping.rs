//! How long the functions keep what they keep, and how people see it.

use std::time::Duration;

use semel_testkit::{conformance::MoveTime, servers::Major};

use crate::{
    caller::{Caller, claim, complete},
    fixture::Fixture,
};

/// Says how a claim is decided, in a transaction that is rolled back.
async fn decision(caller: &Caller, key: &str) -> String {
    let decision = caller.cell(&format!("BEGIN; SELECT decision FROM {}", claim(key))).await;
    caller.ok("ROLLBACK").await;
    decision
}

#[tokio::test]
async fn retention_is_judged_by_time_and_the_sweep_follows() {
    let fixture = Fixture::new(Major::V17).await;
    let time = fixture.moved_time().await;
    let caller = Caller::new(&fixture).await;
    let permit = caller.begin("k").await;
    let call = format!(
        "SELECT semel.complete('{permit}', 'acme', 'payments.create', 201, pointer_kind => 'payment',
            pointer_id => 'pay_7', replay_for => '1 hour', remember_for => '1 day'); COMMIT"
    );
    caller.ok(&call).await;
    let sweep = "SELECT concat_ws(' ', forgotten, deleted, references_deleted, more)
        FROM semel.sweep()";
    let status = "SELECT state FROM semel.status('acme', 'payments.create', 'k')";
    assert_eq!(caller.cell(sweep).await, "0 0 0 f");
    time.advance(Duration::from_secs(3_600)).await;
    assert_eq!(decision(&caller, "k").await, "forgotten");
    assert_eq!(caller.cell(sweep).await, "1 0 0 f");
    assert_eq!(decision(&caller, "k").await, "forgotten");
    assert_eq!(caller.cell(status).await, "forgotten");
    time.advance(Duration::from_secs(86_400)).await;
    assert_eq!(caller.cell(status).await, "not-recorded");
    let fence = format!("BEGIN; SELECT fence FROM {}", claim("k"));
    let before: i64 = caller.cell(&fence).await.parse().unwrap();
    caller.ok("ROLLBACK").await;
    assert_eq!(caller.cell(sweep).await, "0 1 0 f");
    time.turn_back(Duration::from_secs(86_400 + 7_200)).await;
    let after: i64 = caller.cell(&fence).await.parse().unwrap();
    caller.ok("ROLLBACK").await;
    let floor: i64 = caller.cell("SELECT floor FROM semel.meta").await.parse().unwrap();
    assert_eq!(after, floor + 1);
    assert!(before > after, "the clock was set back, and the fence was kept above the floor");
}

/// A promoted standby's clock may be behind the one by which the sweep has dropped an outcome.
#[tokio::test]
async fn what_was_swept_stays_forgotten_by_a_clock_that_is_behind() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let time = fixture.moved_time().await;
        let caller = Caller::new(&fixture).await;
        let permit = caller.begin("k").await;
        caller.ok(&format!("{}; COMMIT", complete(&permit))).await;
        time.advance(Duration::from_secs(86_400)).await;
        assert_eq!(caller.cell("SELECT forgotten FROM semel.sweep()").await, "1");
        time.turn_back(Duration::from_secs(3_600)).await;
        assert_eq!(decision(&caller, "k").await, "forgotten");
        for state in [
            "SELECT state FROM semel.status('acme', 'payments.create', 'k')",
            "SELECT state FROM semel.intent",
        ] {
            assert_eq!(caller.cell(state).await, "forgotten", "{state}");
        }
    }
}

#[tokio::test]
async fn a_sweep_leaves_what_is_busy_and_goes_on_in_steps() {
    let fixture = Fixture::new(Major::V18).await;
    let time = fixture.moved_time().await;
    let (caller, busy) = (Caller::new(&fixture).await, Caller::new(&fixture).await);
    for number in 0..5 {
        let permit = caller.begin(&format!("k{number}")).await;
        let release = format!("SELECT semel.release('{permit}', 'acme', 'payments.create')");
        caller.ok(&format!("{release}; COMMIT")).await;
    }
    time.advance(Duration::from_secs(31 * 86_400)).await;
    busy.begin("k0").await;
    let sweep = "SELECT deleted, more FROM semel.sweep(2)";
    let mut deleted = 0;
    for _ in 0..4 {
        deleted += caller.cell(sweep).await.parse::<u32>().unwrap();
    }
    assert_eq!(deleted, 4);
    busy.ok("ROLLBACK").await;
    assert_eq!(caller.cell(sweep).await, "1");
}

#[tokio::test]
async fn people_see_records_without_their_tokens() {
    let fixture = Fixture::new(Major::V17).await;
    let caller = Caller::new(&fixture).await;
    let permit = caller.begin("k").await;
    caller.ok(&format!("{}; COMMIT", complete(&permit))).await;
    let row = caller.ok("SELECT i::text FROM semel.intent AS i").await.remove(0).remove(0).unwrap();
    assert!(row.starts_with("(acme,payments.create,k,,done,201,"), "{row}");
    let token = permit.split('.').nth(5).unwrap();
    assert!(!row.contains(token), "{row}");
    let version = caller.cell("SELECT semel.schema_version()").await;
    assert_eq!(version, semel_postgres::PostgresStore::schema_current().to_string());
}
