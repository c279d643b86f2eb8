//! A permit of a claim with a lease, which a gateway handed on: the application ends the run in its own
//! transaction.

use std::time::Duration;

use semel::{Fence, Key, Operation, Permit, Scope, Tenant, Token, permit};
use semel_testkit::{conformance::MoveTime, servers::Major};

use crate::{
    caller::{Caller, PAY, claim, complete},
    fixture::Fixture,
};

/// Writes what a gateway's claim writes, and returns its permit.
async fn leased(caller: &Caller, key: &str, token: u8) -> String {
    let scope =
        Scope::new(Tenant::new("acme").unwrap(), Operation::new("payments.create").unwrap());
    let id = scope.intent(Key::new(key).unwrap());
    let token = Token::from_bytes([token; 16]);
    let hex: String = token.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let write = format!(
        "INSERT INTO semel.record (tenant, operation, key, state, token, fence, plan, digest,
            renewed_at_us, lease_us, created_at_us, claimed_at_us, replay_until_us,
            remember_until_us)
         SELECT 'acme', 'payments.create', '{key}', 'running', '\\x{hex}', 7, semel.plan(),
            semel.digest('pay 10'), n, 30000000, n, n, 9223372036854775807, 9223372036854775807
         FROM semel.now_us() AS n
         ON CONFLICT (tenant, operation, key, facet)
         DO UPDATE SET token = excluded.token, takeovers = 1"
    );
    caller.ok(&write).await;
    permit::encode(&Permit { id, token, fence: Fence::new(7), incarnation: 0 })
}

#[tokio::test]
async fn the_application_completes_what_the_gateway_claimed() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let (caller, other) = (Caller::new(&fixture).await, Caller::new(&fixture).await);
        let permit = leased(&caller, "k", 1).await;
        let complete = complete(&permit);
        caller.ok(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ; {PAY}")).await;
        let renew = format!("SELECT semel.renew('{permit}', 'acme', 'payments.create')");
        assert_eq!(other.cell(&renew).await, "renewed", "before the completion, by the gateway");
        assert_eq!(caller.cell(&complete).await, "stored", "which never meets a renewal");
        assert_eq!(other.cell(&renew).await, "busy");
        assert_eq!(caller.cell(&complete).await, "already");
        caller.ok("COMMIT").await;
        other.ok(&format!("BEGIN; {PAY}")).await;
        assert_eq!(other.err(&complete).await, "SM009", "delivered twice, it has one effect");
        other.ok("ROLLBACK").await;
        assert_eq!(caller.payments().await, "1");
        assert_eq!(other.err(&renew).await, "SM001");
        let decision = format!("BEGIN; SELECT decision FROM {}", claim("k"));
        assert_eq!(caller.cell(&decision).await, "replay");
    }
}

#[tokio::test]
async fn an_overtaken_application_cannot_commit() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let caller = Caller::new(&fixture).await;
        let old = leased(&caller, "k", 1).await;
        let new = leased(&caller, "k", 2).await;
        caller.ok(&format!("BEGIN; {PAY}")).await;
        assert_eq!(caller.err(&complete(&old)).await, "SM001");
        assert_eq!(caller.cell("COMMIT; SELECT count(*) FROM semel.payments").await, "0");
        caller.ok(&format!("BEGIN; {PAY}; {}; COMMIT", complete(&new))).await;
        assert_eq!(caller.payments().await, "1");
    }
}

#[tokio::test]
async fn a_completion_never_waits_for_another() {
    let fixture = Fixture::new(Major::V18).await;
    let (first, second) = (Caller::new(&fixture).await, Caller::new(&fixture).await);
    let permit = leased(&first, "k", 1).await;
    first.ok(&format!("BEGIN; {PAY}; {}", complete(&permit))).await;
    second.ok(&format!("SET statement_timeout = '5s'; BEGIN; {PAY}")).await;
    assert_eq!(second.err(&complete(&permit)).await, "55P03");
    second.ok("ROLLBACK").await;
    first.ok("ROLLBACK").await;
    second.ok(&format!("BEGIN; {PAY}; {}; COMMIT", complete(&permit))).await;
    assert_eq!(second.payments().await, "1");
}

#[tokio::test]
async fn an_overtaking_that_the_snapshot_does_not_see_fails_all_the_same() {
    let fixture = Fixture::new(Major::V17).await;
    let (caller, gateway) = (Caller::new(&fixture).await, Caller::new(&fixture).await);
    for (number, level) in ["REPEATABLE READ", "SERIALIZABLE"].into_iter().enumerate() {
        let key = format!("k{number}");
        let old = leased(&caller, &key, 1).await;
        caller.ok(&format!("BEGIN ISOLATION LEVEL {level}; {PAY}")).await;
        leased(&gateway, &key, 2).await;
        assert_eq!(caller.err(&complete(&old)).await, "40001", "{level}");
        caller.ok("ROLLBACK").await;
        assert_eq!(caller.payments().await, "0");
    }
}

#[tokio::test]
async fn a_run_that_is_given_back_is_open_and_compares_after_a_take_over() {
    let fixture = Fixture::new(Major::V15).await;
    let caller = Caller::new(&fixture).await;
    leased(&caller, "k", 1).await;
    let permit = leased(&caller, "k", 2).await;
    let release =
        format!("SELECT semel.release('{permit}', 'acme', 'payments.create', 'no-stock')");
    assert_eq!(caller.cell(&release).await, "stored");
    let kept = "SELECT concat_ws(' ', state, reason, compare) FROM semel.record";
    assert_eq!(caller.cell(kept).await, "open no-stock t");
}

#[tokio::test]
async fn a_renewed_lease_is_what_claims_decide_by() {
    let fixture = Fixture::new(Major::V18).await;
    let time = fixture.moved_time().await;
    let caller = Caller::new(&fixture).await;
    let permit = leased(&caller, "k", 1).await;
    let renew = format!("SELECT semel.renew('{permit}', 'acme', 'payments.create', '1 hour')");
    caller.ok(&renew).await;
    time.advance(Duration::from_secs(3_000)).await;
    let rerun = "SELECT concat_ws(' ', decision, retry_after > 500, takeovers)
        FROM semel.claim('acme', 'payments.create', 'k', 'pay 10', on_lost => 'rerun')";
    assert_eq!(caller.cell(&format!("BEGIN; {rerun}; ROLLBACK")).await, "in-progress t");
    time.advance(Duration::from_secs(1_000)).await;
    assert_eq!(caller.cell(&format!("BEGIN; {rerun}; ROLLBACK")).await, "run 1");
    let in_transaction = caller.begin("mine").await;
    let renew = format!("SELECT semel.renew('{in_transaction}', 'acme', 'payments.create')");
    assert_eq!(caller.err(&renew).await, "SM007");
}

#[tokio::test]
async fn a_busy_intent_is_in_progress_whatever_its_lease_says() {
    let fixture = Fixture::new(Major::V18).await;
    let time = fixture.moved_time().await;
    let (caller, busy) = (Caller::new(&fixture).await, Caller::new(&fixture).await);
    let permit = leased(&caller, "k", 1).await;
    time.turn_back(Duration::from_secs(3_600)).await;
    busy.ok(&format!("BEGIN; {}", complete(&permit))).await;
    caller.ok("SET statement_timeout = '5s'; BEGIN").await;
    let told = format!("SELECT concat_ws(' ', decision, state, retry_after) FROM {}", claim("k"));
    assert_eq!(caller.cell(&told).await, "in-progress running 30");
    assert_eq!(
        caller.cell("SELECT count(*) FROM semel.lease").await,
        "0",
        "under no lock, no write"
    );
    busy.ok("ROLLBACK").await;
    assert_eq!(caller.cell(&told).await, "in-progress running 30");
    assert_eq!(caller.cell("SELECT count(*) FROM semel.lease").await, "1", "rewritten to now");
    caller.ok("ROLLBACK").await;
    let release = format!("SELECT semel.release('{permit}', 'acme', 'payments.create')");
    caller.ok(&release).await;
    busy.begin("k").await;
    assert_eq!(caller.cell(&format!("BEGIN; {told}")).await, "in-progress 1", "it was open before");
}
