//! What the functions refuse since it breaks a bound of the crate.

use semel_testkit::servers::Major;

use crate::{caller::Caller, fixture::Fixture};

#[tokio::test]
async fn a_claim_that_breaks_a_bound_is_refused() {
    let fixture = Fixture::new(Major::V15).await;
    let caller = Caller::new(&fixture).await;
    let long = "x".repeat(256);
    for arguments in [
        "'', 'o', 'k', ''",
        "NULL, 'o', 'k', ''",
        "E'a\\tb', 'o', 'k', ''",
        "U&'a\\0085', 'o', 'k', ''",
        "'t', 'o o', 'k', ''",
        "'t', '', 'k', ''",
        "'t', 'o', 'a b', ''",
        "'t', 'o', 'é', ''",
        "'t', 'o', '', ''",
        "'t', 'o', NULL, ''",
        "'t', 'o', 'k', NULL",
        "'t', 'o', 'k', '', compare => 'never'",
        "'t', 'o', 'k', '', compare => NULL",
        "'t', 'o', 'k', '', on_lost => 'guess'",
        "'t', 'o', 'k', '', reference => ''",
        "'t', 'o', 'k', '', facet => '\\x00'",
        "'t', 'o', 'k', '', idle_timeout => '-1 s'",
        "'t', 'o', 'k', '', idle_timeout => NULL",
        "'t', 'o', 'k', '', in_savepoint => NULL",
        &format!("'{long}', 'o', 'k', ''"),
        &format!("'t', '{}', 'k', ''", &long[..129]),
        &format!("'t', 'o', '{long}', ''"),
        &format!("'t', 'o', 'k', '', claimed_by => '{long}'"),
        &format!("'t', 'o', 'k', '', reference => '{long}'"),
    ] {
        let claim = format!("BEGIN; SELECT * FROM semel.claim({arguments})");
        assert_eq!(caller.err(&claim).await, "SM007", "{arguments}");
        caller.ok("ROLLBACK").await;
    }
    caller.ok("BEGIN; SELECT * FROM semel.claim('Käufer 7', 'a.B_c-9:/', '!~', '')").await;
    caller.ok("ROLLBACK").await;
}

#[tokio::test]
async fn an_outcome_that_breaks_a_bound_is_refused() {
    let fixture = Fixture::new(Major::V15).await;
    let caller = Caller::new(&fixture).await;
    let long = "x".repeat(256);
    let many = format!("[{}[\"a\", \"b\"]]", "[\"a\", \"b\"],".repeat(256));
    let fat = format!("[[\"a\", \"{}\"]]", "x".repeat(65_536));
    for arguments in [
        "NULL",
        "-1",
        "65536",
        "200, '{}'",
        "200, '[[\"a\"]]'",
        "200, '[[\"a\", 1]]'",
        "200, '[[\"a\", \"b\"], 1]'",
        "200, '[[\"a b\", \"c\"]]'",
        "200, '[[\"\", \"c\"]]'",
        "200, '[[\"a\", \"b\\r\\nc: d\"]]'",
        "200, '[[\"a\", \"€\"]]'",
        "200, pointer_kind => 'payment'",
        "200, pointer_id => 'payment'",
        "200, pointer_kind => 'payment', pointer_id => ''",
        "200, replay_for => NULL",
        "200, replay_for => '-1 s'",
        "200, remember_for => '1001 years'",
        "200, reference_for => '1 day'",
        "200, body_kept => NULL",
        &format!("200, '{many}'"),
        &format!("200, '{fat}'"),
        &format!("200, pointer_kind => 'payment', pointer_id => '{long}'"),
    ] {
        let permit = caller.begin("k").await;
        let call =
            format!("SELECT semel.complete('{permit}', 'acme', 'payments.create', {arguments})");
        assert_eq!(caller.err(&call).await, "SM007", "{arguments}");
        caller.ok("ROLLBACK").await;
    }
}
