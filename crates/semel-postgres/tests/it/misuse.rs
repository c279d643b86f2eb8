//! What goes wrong in an application must be loud: the transaction fails, and what it did is undone.

use semel_testkit::servers::Major;

use crate::{
    caller::{Caller, PAY, claim, complete},
    fixture::Fixture,
};

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// Runs `misuse` on every major with a schema of its own; what it did must be undone, and the key
/// free.
async fn undone(misuse: impl AsyncFn(&Caller)) {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let caller = Caller::new(&fixture).await;
        misuse(&caller).await;
        caller.ok("ROLLBACK").await;
        assert_eq!(caller.payments().await, "0", "{major}");
        let permit = caller.begin("k").await;
        caller.ok(&format!("{PAY}; {}; COMMIT", complete(&permit))).await;
        assert_eq!(caller.payments().await, "1", "{major}");
    }
}

#[tokio::test]
async fn a_commit_without_completion_fails_at_every_level() {
    undone(async |caller| {
        for level in LEVELS {
            let claim = claim("k");
            caller
                .ok(&format!("BEGIN ISOLATION LEVEL {level}; SELECT * FROM {claim}; {PAY}"))
                .await;
            assert_eq!(caller.err("COMMIT").await, "SM004", "{level}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_completion_that_was_rolled_back_to_a_savepoint_does_not_count() {
    undone(async |caller| {
        let permit = caller.begin("k").await;
        let complete = complete(&permit);
        caller.ok(&format!("{PAY}; SAVEPOINT s; {complete}; ROLLBACK TO s")).await;
        assert_eq!(caller.err("COMMIT").await, "SM004");
    })
    .await;
}

#[tokio::test]
async fn a_claim_inside_a_savepoint_is_refused() {
    undone(async |caller| {
        caller.ok(&format!("BEGIN; {PAY}; SAVEPOINT s")).await;
        assert_eq!(caller.err(&format!("SELECT * FROM {}", claim("k"))).await, "SM006");
    })
    .await;
}

#[tokio::test]
async fn a_claim_inside_a_block_that_catches_errors_is_refused() {
    undone(async |caller| {
        let block = format!(
            "DO $$ BEGIN PERFORM * FROM {}; EXCEPTION WHEN division_by_zero THEN NULL; END $$",
            claim("k")
        );
        assert_eq!(caller.err(&block).await, "SM006");
    })
    .await;
}

#[tokio::test]
async fn a_claim_that_was_rolled_back_to_a_savepoint_cannot_complete() {
    undone(async |caller| {
        caller.ok("BEGIN; SAVEPOINT s").await;
        let claim = "SELECT permit FROM semel.claim('acme', 'payments.create', 'k', 'pay 10',
            in_savepoint => true)";
        let permit = caller.cell(claim).await;
        caller.ok(&format!("ROLLBACK TO s; {PAY}")).await;
        assert_eq!(caller.err(&complete(&permit)).await, "SM005");
    })
    .await;
}

#[tokio::test]
async fn a_driver_that_wraps_every_statement_in_a_savepoint_is_served() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let caller = Caller::new(&fixture).await;
        caller.ok("BEGIN; SAVEPOINT s").await;
        let claim = "SELECT permit FROM semel.claim('acme', 'payments.create', 'k', 'pay 10',
            in_savepoint => true)";
        let permit = caller.cell(claim).await;
        let complete = complete(&permit);
        let rest = format!(
            "RELEASE s; SAVEPOINT s; {PAY}; RELEASE s; SAVEPOINT s; {complete}; RELEASE s; COMMIT"
        );
        caller.ok(&rest).await;
        assert_eq!(caller.payments().await, "1");
        caller.ok("BEGIN; SAVEPOINT s").await;
        let forgot = claim.replace("'k'", "'k2'");
        caller.ok(&format!("{forgot}; RELEASE s; {PAY}")).await;
        assert_eq!(caller.err("COMMIT").await, "SM004");
        assert_eq!(caller.payments().await, "1");
    }
}

#[tokio::test]
async fn a_claim_in_autocommit_is_refused_by_its_own_commit() {
    undone(async |caller| {
        assert_eq!(caller.err(&format!("SELECT * FROM {}", claim("k"))).await, "SM004");
    })
    .await;
}

#[tokio::test]
async fn a_permit_is_of_no_use_in_another_transaction() {
    undone(async |caller| {
        let permit = caller.begin("k").await;
        caller.ok(&format!("ROLLBACK; BEGIN; {PAY}")).await;
        assert_eq!(caller.err(&complete(&permit)).await, "SM005");
    })
    .await;
}

/// As of a pool that runs each statement on another connection.
#[tokio::test]
async fn a_permit_of_a_transaction_that_is_still_open_is_of_no_use_in_another() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let (holder, other) = (Caller::new(&fixture).await, Caller::new(&fixture).await);
        let permit = holder.begin("k").await;
        other.ok(&format!("BEGIN; {PAY}")).await;
        assert_eq!(other.err(&complete(&permit)).await, "SM005", "{major}");
        other.ok("ROLLBACK").await;
        holder.ok(&format!("{PAY}; {}; COMMIT", complete(&permit))).await;
        assert_eq!(other.payments().await, "1", "{major}");
    }
}

#[tokio::test]
async fn a_permit_that_completed_cannot_carry_a_second_effect() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let caller = Caller::new(&fixture).await;
        let permit = caller.begin("k").await;
        let complete = complete(&permit);
        caller.ok(&format!("{PAY}; {complete}")).await;
        assert_eq!(caller.cell(&complete).await, "already");
        caller.ok("COMMIT").await;
        caller.ok(&format!("BEGIN; {PAY}")).await;
        assert_eq!(caller.err(&complete).await, "SM009");
        caller.ok("ROLLBACK").await;
        assert_eq!(caller.payments().await, "1");
    }
}

#[tokio::test]
async fn a_permit_that_has_ended_is_refused() {
    let fixture = Fixture::new(Major::V18).await;
    let caller = Caller::new(&fixture).await;
    let permit = caller.begin("k").await;
    let release = format!("SELECT semel.release('{permit}', 'acme', 'payments.create')");
    assert_eq!(caller.cell(&release).await, "stored");
    assert_eq!(caller.cell(&release).await, "already");
    caller.ok("COMMIT").await;
    let again = caller.begin("k").await;
    caller.ok(&format!("{}; COMMIT", complete(&again))).await;
    for call in ["complete", "fail"] {
        caller.ok(&format!("BEGIN; {PAY}")).await;
        let call = format!("SELECT semel.{call}('{permit}', 'acme', 'payments.create', 200)");
        assert_eq!(caller.err(&call).await, "SM001");
        caller.ok("ROLLBACK").await;
    }
    assert_eq!(caller.err(&release).await, "SM001");
    let renew = format!("SELECT semel.renew('{permit}', 'acme', 'payments.create')");
    assert_eq!(caller.err(&renew).await, "SM001");
    assert_eq!(caller.payments().await, "0");
}

#[tokio::test]
async fn a_permit_of_another_tenant_or_operation_is_refused() {
    undone(async |caller| {
        for scope in ["'other', 'payments.create'", "'acme', 'payments.refund'"] {
            let permit = caller.begin("k").await;
            caller.ok(PAY).await;
            for call in ["complete", "fail"] {
                caller.ok("SAVEPOINT s").await;
                let call = format!("SELECT semel.{call}('{permit}', {scope}, 201)");
                assert_eq!(caller.err(&call).await, "SM003");
                caller.ok("ROLLBACK TO s").await;
            }
            for call in ["release", "renew"] {
                caller.ok("SAVEPOINT s").await;
                let call = format!("SELECT semel.{call}('{permit}', {scope})");
                assert_eq!(caller.err(&call).await, "SM003");
                caller.ok("ROLLBACK TO s").await;
            }
            assert_eq!(caller.err("COMMIT").await, "SM004");
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_no_permit_is_refused() {
    undone(async |caller| {
        let permit = caller.begin("k").await;
        caller.ok("SAVEPOINT s").await;
        let mut bad: Vec<_> = (0..permit.len()).map(|at| permit[..at].to_owned()).collect();
        bad.extend([
            permit.to_uppercase(),
            permit.replacen("1.", "2.", 1),
            format!("{permit}.0"),
            format!("{permit} "),
            format!("{permit}0"),
            permit.replacen(".6b.", ".c3.", 1),
            permit.replacen(".6b.", ".6b0a.", 1),
            permit.replacen(".6b.", ".6 b.", 1),
            permit.replacen("..", ".00.", 1),
        ]);
        // A shorter number is a number too, of another claim.
        let (before, _) = permit.rsplit_once('.').unwrap();
        bad.retain(|bad| {
            !(bad.starts_with(before) && bad.len() > before.len() + 1 && bad < &permit)
        });
        for bad in bad {
            assert_eq!(caller.err(&complete(&bad)).await, "SM002", "{bad}");
            caller.ok("ROLLBACK TO s").await;
        }
        let null = "SELECT semel.complete(NULL, 'acme', 'payments.create', 201)";
        assert_eq!(caller.err(null).await, "SM002");
    })
    .await;
}

#[tokio::test]
async fn a_key_is_claimed_once_in_a_transaction() {
    undone(async |caller| {
        caller.begin("k").await;
        caller.ok(PAY).await;
        assert_eq!(caller.err(&format!("SELECT * FROM {}", claim("k"))).await, "SM008");
    })
    .await;
}

#[tokio::test]
async fn two_keys_are_claimed_and_both_must_be_completed() {
    undone(async |caller| {
        let first = caller.begin("k").await;
        let second = caller.claim("k2").await;
        caller.ok(&format!("{PAY}; {}", complete(&second))).await;
        caller.ok("SAVEPOINT s").await;
        caller.ok(&complete(&first)).await;
        caller.ok("ROLLBACK TO s").await;
        assert_eq!(caller.err("COMMIT").await, "SM004");
    })
    .await;
}

#[tokio::test]
async fn constraints_that_are_made_immediate_only_fail_earlier() {
    undone(async |caller| {
        caller.begin("k").await;
        caller.ok(PAY).await;
        assert_eq!(caller.err("SET CONSTRAINTS ALL IMMEDIATE").await, "SM004");
        caller.ok(&format!("ROLLBACK; BEGIN; SET CONSTRAINTS ALL IMMEDIATE; {PAY}")).await;
        assert_eq!(caller.err(&format!("SELECT * FROM {}", claim("k"))).await, "SM004");
        let permit = {
            caller.ok("ROLLBACK").await;
            caller.begin("k9").await
        };
        let rest = format!("{}; SET CONSTRAINTS ALL IMMEDIATE; COMMIT", complete(&permit));
        caller.ok(&rest).await;
    })
    .await;
}

#[tokio::test]
async fn forgotten_session_settings_do_not_hide_the_claim() {
    undone(async |caller| {
        let permit = caller.begin("k").await;
        caller.ok(&format!("{PAY}; RESET ALL; SAVEPOINT s")).await;
        assert_eq!(caller.err(&complete(&permit)).await, "SM005");
        caller.ok("ROLLBACK TO s").await;
        assert_eq!(caller.err(&format!("SELECT * FROM {}", claim("k"))).await, "SM008");
    })
    .await;
}

#[tokio::test]
async fn a_prepared_transaction_must_have_completed() {
    undone(async |caller| {
        caller.begin("k").await;
        caller.ok(PAY).await;
        assert_eq!(caller.err("PREPARE TRANSACTION 'p'").await, "SM004");
    })
    .await;
}

#[tokio::test]
async fn other_work_beside_the_claim_is_not_disturbed() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let caller = Caller::new(&fixture).await;
        for (number, level) in LEVELS.into_iter().enumerate() {
            caller.ok(&format!("BEGIN ISOLATION LEVEL {level}; {PAY}")).await;
            let permit = caller.claim(&format!("k{number}")).await;
            caller.ok("CREATE TEMP TABLE copied AS SELECT 1 AS a").await;
            let rest = format!(
                "UPDATE semel.payments SET amount = 11; SAVEPOINT s; {PAY}; ROLLBACK TO s;
                 SAVEPOINT t; {PAY}; RELEASE t; DELETE FROM copied; DROP TABLE copied; {};
                 DECLARE c CURSOR FOR SELECT 1; FETCH c; CLOSE c; COMMIT",
                complete(&permit)
            );
            caller.ok(&rest).await;
        }
        assert_eq!(caller.payments().await, "6");
    }
}

#[tokio::test]
async fn rows_that_were_copied_in_go_with_the_claim() {
    undone(async |caller| {
        for completes in [false, true] {
            let permit = caller.begin("copied").await;
            assert_eq!(caller.copy_payments("10\n11\n").await, 2);
            if completes {
                caller.ok(&complete(&permit)).await;
                assert_eq!(caller.payments().await, "2");
                caller.ok("ROLLBACK").await;
            } else {
                assert_eq!(caller.err("COMMIT").await, "SM004");
            }
        }
    })
    .await;
}
